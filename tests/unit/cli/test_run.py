"""``lakeshift run`` as far as it goes without Spark: usage, mistakes in the file, and runs that may not begin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lakeshift.cli.app import app
from lakeshift.cli.options import settings
from lakeshift.errors import ConfigError, InvalidStateError
from lakeshift.pipeline.state import PipelineState

FILE = """\
name: trips
read:
  rows: {format: csv, path: rows.csv}
write:
  rows: {format: delta, from: rows, path: out}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trips.yaml"
    path.write_text(FILE)
    return path


def call(*arguments: object) -> Result:
    settings.json = settings.debug = False
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


@pytest.mark.parametrize("arguments", [[], ["--resume", "--new"], ["--plan", "--new"], ["--plam"]])
def test_a_wrong_call_is_a_usage_error(arguments: list[str], file: Path) -> None:
    assert call(*arguments, *([file] if arguments else [])).exit_code == 2


def test_the_schema_needs_no_file() -> None:
    told = call("--schema")
    assert told.exit_code == 0
    assert set(json.loads(told.stdout)["properties"]) == {
        "name", "state", "lake", "read", "transform", "write", "maintain",
    }  # fmt: skip


def test_a_mistake_in_the_file_is_told_before_spark_starts(file: Path) -> None:
    file.write_text(FILE.replace("from: rows", "from: row"))
    failed = call(file, "--plan")
    assert isinstance(failed.exception, ConfigError)
    assert f"{file}:5:25: write.rows.from: 'row' is not defined before it is used" in str(failed.exception)


def test_what_may_not_begin_is_told_before_spark_starts(file: Path) -> None:
    nothing = call(file, "--resume")
    assert isinstance(nothing.exception, InvalidStateError)
    assert "has nothing to resume: it has no run yet" in str(nothing.exception)
    state = PipelineState(file.parent / ".lakeshift" / "trips", "trips")
    with state.locked():
        state.append("run-started", run_id=f"{state.identity()}-1", number=1, inputs={})
    unfinished = call(file)
    assert isinstance(unfinished.exception, InvalidStateError)
    assert "Run 1 (" in str(unfinished.exception)
    assert f"`lakeshift run {file} --resume`" in str(unfinished.exception)
