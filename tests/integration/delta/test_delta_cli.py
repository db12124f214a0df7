"""``lakeshift delta``, on the session of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lakeshift.cli.app import app
from lakeshift.cli.options import settings
from lakeshift.errors import ConfigError, SchemaMismatchError
from tests.integration.delta.conftest import Log


@pytest.fixture(autouse=True)
def text_output(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "json", False)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["delta", *map(str, arguments)])


def test_diff_dry_run_and_write_tell_the_same(spark: Any, table: Path, log: Log, tmp_path: Path) -> None:
    spark.sql("SELECT 1L AS a").write.format("delta").save(str(table))
    batch = tmp_path / "batch.json"
    batch.write_text('{"a": 2, "b": "x"}\n')
    assert run("diff", table, batch).output.splitlines() == ["NewColumns", "+ b: string"]
    refused = run("write", table, batch, "--dry-run")
    assert refused.exit_code == 1
    assert 'evolution={"columns": "evolve"}' in refused.output
    dry = run("write", table, batch, "--dry-run", "--evolve", "columns", "--json")
    assert dry.exit_code == 0
    planned = json.loads(dry.output)["plan"]
    assert (planned["action"], log.versions()) == ("evolve", [0])
    settings.json = False
    assert isinstance(run("write", table, batch).exception, SchemaMismatchError)
    done = run("write", table, batch, "--evolve", "columns", "--txn-app-id", "cli", "--txn-version", 1, "--json")
    assert json.loads(done.output)["diff"] == planned["diff"]
    settings.json = False
    again = run("write", table, batch, "--txn-app-id", "cli", "--txn-version", 1)
    assert "Skipped" in again.output
    assert log.versions() == [0, 1]


def test_write_creates_a_partitioned_table(spark: Any, table: Path, log: Log, tmp_path: Path) -> None:
    batch = tmp_path / "batch.csv"
    batch.write_text("id,city\n1,Oslo\n2,Lima\n")
    written = run("write", table, batch, "-p", "city", "--set", "delta.appendOnly=true")
    assert "Wrote 2 rows" in written.output
    assert log.action(0, "metaData")["partitionColumns"] == ["city"]
    assert isinstance(run("diff", tmp_path / "nothing", batch).exception, ConfigError)
    assert run("write", table, batch, "--set", "nonsense").exit_code == 2
