"""The command line as people and programs call it, as a process: all of it that starts no JVM."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command import PROGRAM, run

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake with one table, which no test changes."""
    return create_lake(tmp_path_factory.mktemp("command"))


def create_lake(folder: Path) -> str:
    lake = str(folder / "lake")
    made = run("table", "create", "db.t", "--schema", "id bigint, ts timestamp", "-p", "day(ts)", "--warehouse", lake)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith("Created db.t at file:///")
    return lake


def test_help_lists_the_commands() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    assert {"demo", "doctor", "table"} <= set(re.findall(r"^  (\w+) ", shown.stdout, re.MULTILINE))


def test_a_piped_table_is_tab_separated(warehouse: str) -> None:
    listed = run("table", "list", "--warehouse", warehouse)
    assert (listed.returncode, listed.stdout) == (0, "table\ndb.t\n")


def test_show_as_json_has_specs_and_columns(tmp_path: Path) -> None:
    warehouse = create_lake(tmp_path)
    evolved = run("table", "evolve", "db.t", "--add", "bucket(4, id)", "--warehouse", warehouse)
    assert (evolved.returncode, evolved.stdout) == (0, "db.t is now written under spec 1: day(ts), bucket(4, id)\n")
    shown = json.loads(run("table", "show", "db.t", "--json", "--warehouse", warehouse).stdout)
    assert [column["name"] for column in shown["columns"]] == ["id", "ts"]
    assert [(spec["spec_id"], spec["fields"], spec["is_default"]) for spec in shown["specs"]] == [
        (0, ["day(ts)"], False),
        (1, ["day(ts)", "bucket(4, id)"], True),
    ]


def test_a_terminal_gets_a_drawn_table(warehouse: str) -> None:
    leader, follower = pty.openpty()
    done = subprocess.run([PROGRAM, "table", "show", "db.t", "--warehouse", warehouse], stdout=follower, check=False)
    os.close(follower)
    text = os.read(leader, 100_000).decode()
    os.close(leader)
    assert done.returncode == 0
    assert "Partition specs" in text
    assert "│" in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["table", "show", "db.nope"], 1, "ConfigError: There is no table 'db.nope'"),
        (["table", "show", "nope"], 1, "ConfigError: 'nope' is not a table name"),
        (["table", "evolve", "db.t", "--add", "week(ts)"], 1, "Cannot read the partition expression 'week(ts)'"),
        (["table", "evolve", "db.t"], 2, "Give --add or --drop"),
        (["table", "list", "--catalog", "prod"], 1, "There is no catalog named 'prod'"),
        (["table", "list", "--property", "uri"], 2, "'uri' is not KEY=VALUE"),
        (["table", "create", "db.u", "--schema", "id bigint", "--set", "x"], 2, "'x' is not KEY=VALUE"),
        (["table", "nope"], 2, "No such command 'nope'"),
        (["nope"], 2, "No such command 'nope'"),
    ],
)
def test_errors_go_to_stderr_without_a_trace(warehouse: str, arguments: list[str], code: int, message: str) -> None:
    failed = run(*arguments, LAKESHIFT_WAREHOUSE=warehouse)
    assert (failed.returncode, failed.stdout) == (code, "")
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr


def test_an_error_is_json_when_asked_for(warehouse: str) -> None:
    failed = run("table", "show", "db.nope", "--json", "--warehouse", warehouse)
    error: dict[str, Any] = json.loads(failed.stderr)["error"]
    assert (failed.returncode, failed.stdout, error["type"]) == (1, "", "ConfigError")


def test_debug_shows_where_an_error_came_from(warehouse: str) -> None:
    failed = run("table", "show", "db.nope", "--debug", "--warehouse", warehouse)
    assert failed.returncode == 1
    assert "Traceback" in failed.stderr


def test_looking_at_tables_needs_no_java(warehouse: str) -> None:
    shown = run("table", "show", "db.t", "--warehouse", warehouse, JAVA_HOME="/nowhere")
    assert shown.returncode == 0


def test_doctor_tells_a_wrong_java_and_a_wrong_catalog_with_the_remedy(warehouse: str) -> None:
    told = run("doctor", "--json", "--catalog", "prod", JAVA_HOME="/nowhere")
    assert told.returncode == 1
    findings = {finding["subject"]: finding for finding in json.loads(told.stdout)}
    assert findings["Java"]["status"] == "failed"
    assert "Install a Java 17 runtime" in findings["Java"]["detail"]
    assert findings["Session"]["status"] == "skipped"
    assert findings["Catalog"]["status"] == "failed"
    assert ".pyiceberg.yaml" in findings["Catalog"]["detail"]
