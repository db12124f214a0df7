"""``lakeshift table append``, called in this process so that it shares the tests' session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from lakeshift.cli.app import app
from lakeshift.cli.options import settings
from lakeshift.errors import BadRowsError, ConfigError, SchemaMismatchError


@pytest.fixture
def call(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LAKESHIFT_WAREHOUSE", str(tmp_path / "lake"))

    def run(*arguments: str) -> Result:
        settings.json = settings.debug = False
        return CliRunner().invoke(app, list(arguments))

    return run


def test_files_are_appended_under_a_chosen_spec_and_bad_rows_set_aside(call: Any, tmp_path: Path) -> None:
    assert call("table", "create", "db.t", "--schema", "id bigint not null, city string", "-p", "city").exit_code == 0
    assert call("table", "evolve", "db.t", "--add", "bucket(4, id)").exit_code == 0
    (tmp_path / "a.json").write_text('{"id": 1, "city": "Oslo"}\n{"id": 2, "city": "Lima"}\n')
    (tmp_path / "b.csv").write_text("city,id\nPune,3\nOslo,\n")

    told = call("table", "append", "db.t", str(tmp_path / "a.json"), "--spec-id", "0")
    assert told.exit_code == 0, told.output
    assert told.stdout.startswith("Appended 2 rows to db.t in 2 files under spec 0, as snapshot ")

    refused = call("table", "append", "db.t", str(tmp_path / "b.csv"), "--schema", "city string, id bigint")
    assert isinstance(refused.exception, BadRowsError)
    assert "1 row cannot be written to db.t" in str(refused.exception)

    arguments = ["--on-bad-rows", "quarantine", "--quarantine", str(tmp_path / "bad"), "--json"]
    told = call("table", "append", "db.t", str(tmp_path / "b.csv"), "--schema", "city string, id bigint", *arguments)
    assert told.exit_code == 0, told.output
    result = json.loads(told.stdout)
    assert (result["rows_written"], result["rows_quarantined"], list(result["by_spec"])) == (1, 1, ["1"])
    assert pq.read_table(tmp_path / "bad").column("city").to_pylist() == ["Oslo"]


def test_what_is_wrong_is_told_with_the_remedy(call: Any, tmp_path: Path) -> None:
    call("table", "create", "db.t", "--schema", "id bigint")
    missing = call("table", "append", "db.t", str(tmp_path / "no-such.parquet"))
    assert isinstance(missing.exception, ConfigError)
    assert "no-such.parquet" in str(missing.exception)
    assert "Check the path and --format." in str(missing.exception)
    (tmp_path / "a.json").write_text('{"idd": 1}')
    unknown = call("table", "append", "db.t", str(tmp_path / "a.json"))
    assert isinstance(unknown.exception, SchemaMismatchError)
    assert "column 'idd' (long) is not in the table" in str(unknown.exception)
    mixed = call("table", "append", "db.t", str(tmp_path / "a.json"), str(tmp_path / "b.csv"))
    assert isinstance(mixed.exception, ConfigError)
    assert "several formats (csv, json)" in str(mixed.exception)
    assert call("table", "append", "db.t").exit_code == 2
