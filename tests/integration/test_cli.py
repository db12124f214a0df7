"""The command line as people and programs call it, as a process: all of it that starts no JVM.

Commands that need Spark are seen here to fail where they can fail without it; their success is in
``test_cli_with_spark.py``.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.command import NO_JAVA, PROGRAM, Run, printed, refused, run, shared, told

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake with one table, which no test changes."""
    lake = str(tmp_path_factory.mktemp("command") / "lake")
    arguments = ["--schema", "id bigint, ts timestamp", "-p", "day(ts)", "--warehouse", lake]
    assert told("table create", "db.t", *arguments, **NO_JAVA).startswith("Created db.t at file:///")
    return lake


@pytest.fixture
def in_lake(warehouse: str) -> Run:
    """For the many commands that fail at once: on that lake, and without Java."""
    return partial(shared, LAKESHIFT_WAREHOUSE=warehouse, **NO_JAVA)


def test_help_lists_the_commands() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    assert {"demo", "doctor", "table"} <= set(re.findall(r"^  (\w+) ", shown.stdout, re.MULTILINE))


def test_a_piped_table_is_tab_separated(warehouse: str) -> None:
    assert told("table list", "--warehouse", warehouse, **NO_JAVA) == "table\ndb.t\n"
    assert printed("table list", "--warehouse", warehouse, **NO_JAVA) == ["db.t"]
    first, *lines = told("table show", "db.t", "--warehouse", warehouse, **NO_JAVA).splitlines()
    assert first.startswith("db.t  (format v2, file:///")
    assert lines[:2] == ["id\tcolumn\ttype\trequired", "1\tid\tlong\t"]


def test_a_table_is_created_evolved_and_shown_whatever_its_name_is(in_lake: Run, tmp_path: Path) -> None:
    lake, name = str(tmp_path / "lake of 'mine'"), 'dß."o\'clock" \u2013 表'
    arguments = ["--schema", "id bigint, ts timestamp", "-p", "day(ts)", "--warehouse", lake]
    made = printed("table create", name, *arguments, "--set", "owner=a=b", "--set", "my.secret-key=hush", by=in_lake)
    assert (made["name"], made["properties"]["owner"], made["snapshots"]) == (name, "a=b", [])
    assert made["properties"]["my.secret-key"] == "(not shown)"
    evolved = printed("table evolve", name, "--add", "bucket(4, id)", "--warehouse", lake, by=in_lake)
    assert evolved == printed("table show", name, "--warehouse", lake, by=in_lake)
    assert [column["name"] for column in evolved["columns"]] == ["id", "ts"]
    assert [(spec["spec_id"], spec["fields"], spec["is_default"]) for spec in evolved["specs"]] == [
        (0, ["day(ts)"], False),
        (1, ["day(ts)", "bucket(4, id)"], True),
    ]
    told_so = told("table evolve", name, "--drop", "day(ts)", "--warehouse", lake, by=in_lake)
    assert told_so == f"{name} is now written under spec 2: bucket(4, id)\n"
    assert told("table list", "--warehouse", lake, by=in_lake) == f"table\n{name}\n"
    shown = told("table list", "--warehouse", lake, PYTHONIOENCODING="ascii", **NO_JAVA)
    assert shown == f"table\n{name}\n".encode("ascii", "backslashreplace").decode()


def on_a_terminal(*arguments: str) -> tuple[int, str]:
    leader, follower = pty.openpty()
    done = subprocess.run([PROGRAM, *arguments], stdout=follower, stderr=follower, check=False)
    os.close(follower)
    text = os.read(leader, 100_000).decode()
    os.close(leader)
    return done.returncode, text


def test_a_terminal_gets_a_drawn_table(warehouse: str) -> None:
    code, text = on_a_terminal("table", "show", "db.t", "--warehouse", warehouse)
    assert code == 0
    assert "Partition specs" in text
    assert "│" in text


def test_a_name_cannot_play_with_the_terminal(in_lake: Run, tmp_path: Path) -> None:
    title = "\x1b]0;owned\x07"
    told("table create", f"db.{title}", "--schema", "id bigint", "--warehouse", str(tmp_path), by=in_lake)
    for arguments in (["table", "list"], ["table", "show", f"db.{title}{title}"]):
        _, text = on_a_terminal(*arguments, "--warehouse", str(tmp_path))
        assert r"db.\x1b]0;owned\x07" in text
        assert title not in text
    assert told("table list", "--warehouse", str(tmp_path), by=in_lake) == "table\ndb.\\x1b]0;owned\\x07\n"


def test_schemas_of_outputs_are_listed_and_printed() -> None:
    assert "\ntable show\tA table: " in told("json-schema", **NO_JAVA)
    every = printed("json-schema", **NO_JAVA)
    assert json.loads(told("json-schema", "table", "delete", "--dry-run")) == every["table delete --dry-run"]
    refused("json-schema", "table", "shew", code=2, saying="There is no output 'table shew'; there are: delta diff")


def test_a_table_that_is_not_there_is_told_by_every_command_before_spark_starts(in_lake: Run, warehouse: str) -> None:
    not_there = "ConfigError: There is no table 'db.nope' in catalog 'local'; tables there: db.t."
    refused("table show", "db.nope", saying=not_there, by=in_lake)
    refused("table evolve", "db.nope", "--add", "id", saying=not_there, by=in_lake)
    refused("table append", "db.nope", "rows.json", saying=not_there, by=in_lake)
    refused("table delete", "db.nope", "--where", "id = 1", saying=not_there, by=in_lake)
    refused("table update", "db.nope", "--set", "id=1", saying=not_there, by=in_lake)
    refused("table merge", "db.nope", "a.json", "--on", "true", "--matched", "delete", saying=not_there, by=in_lake)
    refused("rewrite plan", "db.nope", saying=not_there, by=in_lake)
    refused("rewrite run", "db.nope", saying=not_there, by=in_lake)
    refused("report", "db.nope", "-o", f"{warehouse}/x.html", saying=not_there, by=in_lake)
    assert not Path(warehouse, "x.html").exists()
    as_json = refused("table show", "db.nope", "--json", saying="There is no table 'db.nope'", by=in_lake)
    assert json.loads(as_json)["error"]["type"] == "ConfigError"


def test_a_wrong_value_is_told_with_the_remedy(in_lake: Run, tmp_path: Path) -> None:
    refused("table evolve", "db.t", "--add", "week(ts)", saying="partition expression 'week(ts)'", by=in_lake)
    refused("table create", "db.t", "--schema", "id bigint", saying="The table 'db.t' exists already", by=in_lake)
    refused(
        "table list", "--catalog", "prod", saying="There is no catalog named 'prod'; known here: local.", by=in_lake
    )
    refused("rewrite plan", "db.t", "--where", "rejion = 1", saying="rejion", by=in_lake)
    refused("run", str(tmp_path / "none.yaml"), saying="none.yaml", by=in_lake)
    (tmp_path / "used").touch()
    refused("demo", "--folder", str(tmp_path), saying="is not empty; the demo wants a new one", by=in_lake)
    no_java = "StackError: "
    for failed in (
        refused("delta diff", "table", "batch.json", saying=no_java, by=in_lake),
        refused("delta write", "table", "batch.json", saying=no_java, by=in_lake),
        refused("hudi explain", "table", saying=no_java, by=in_lake),
    ):
        assert "Install a Java 17 runtime" in failed


def test_a_wrong_call_exits_with_2(in_lake: Run) -> None:
    refused("table evolve", "db.t", code=2, saying="Give --add or --drop", by=in_lake)
    refused("table update", "db.t", "--set", "nonsense", code=2, saying="'nonsense' is not COLUMN=SQL", by=in_lake)
    refused("table merge", "db.t", "x.json", "--on", "true", code=2, saying="Give --matched", by=in_lake)
    refused("table append", "db.t", code=2, saying="Missing argument 'FILE...'", by=in_lake)
    refused("delta write", "t", "b.json", "--set", "x", code=2, saying="'x' is not KEY=VALUE", by=in_lake)
    refused("hudi explain", code=2, saying="Missing argument 'PATH_OR_NAME'", by=in_lake)
    refused("hudi settings", "more", code=2, saying="unexpected extra argument (more)", by=in_lake)
    refused("doctor", "--property", "uri", code=2, saying="'uri' is not KEY=VALUE", by=in_lake)
    refused("report", "db.t", code=2, saying="Give -o PATH", by=in_lake)
    refused("run", "--resume", "--new", "a.yaml", code=2, saying="exclude each other", by=in_lake)
    # As JSON too, though the call could not be read.
    as_json = refused(
        "rewrite plan", "db.t", "--min-inputfiles", "2", "--json", code=2, saying="--min-input-files", by=in_lake
    )
    assert json.loads(as_json)["error"]["type"] == "NoSuchOption"


def test_failures_of_a_process_of_its_own_are_the_same(warehouse: str) -> None:
    where = {**NO_JAVA, "LAKESHIFT_WAREHOUSE": warehouse}
    refused("table show", "nope", saying="ConfigError: 'nope' is not a table name", **where)
    refused("table nope", code=2, saying="No such command 'nope'", **where)
    refused("nope", "--json", code=2, saying="No such command 'nope'", **where)


def test_debug_shows_where_an_error_came_from(warehouse: str) -> None:
    failed = run("table", "show", "db.nope", "--debug", "--warehouse", warehouse)
    assert failed.returncode == 1
    assert "Traceback" in failed.stderr


def test_doctor_tells_a_wrong_java_and_a_wrong_catalog_with_the_remedy() -> None:
    findings = {
        finding["subject"]: finding for finding in printed("doctor", "--catalog", "prod", code=1, JAVA_HOME="/nowhere")
    }
    assert findings["Java"]["status"] == "failed"
    assert "Install a Java 17 runtime" in findings["Java"]["detail"]
    assert findings["Session"]["status"] == "skipped"
    assert findings["Catalog"]["status"] == "failed"
    assert ".pyiceberg.yaml" in findings["Catalog"]["detail"]


def test_output_that_nobody_reads_ends_the_command_without_a_word(warehouse: str) -> None:
    for arguments in (["table", "list", "--warehouse", warehouse], ["json-schema", "--json"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([PROGRAM, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        assert (done.returncode, done.stderr) == (1, "")


def test_a_catalog_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_text("not a database, but long enough to look like a file with a header")
    said = refused("table list", "--warehouse", str(tmp_path), saying="file is not a database. Check that ", **NO_JAVA)
    assert f"Check that {tmp_path / 'catalog.db'} is an SQLite file" in said


def test_a_table_whose_metadata_is_damaged_or_gone_is_told(in_lake: Run, tmp_path: Path) -> None:
    where = ["--warehouse", str(tmp_path)]
    made = printed("table create", "db.t", "--schema", "id bigint", *where, by=in_lake)
    [metadata] = Path(made["location"].removeprefix("file://"), "metadata").glob("*.json")
    start = "ConfigError: The table 'db.t' is in catalog 'local', but its metadata file cannot be read: "
    metadata.write_text("nonsense")
    assert "Invalid JSON" in refused("table show", "db.t", *where, saying=start, by=in_lake)
    metadata.unlink()
    assert metadata.name in refused("rewrite plan", "db.t", *where, saying=start, by=in_lake)


def test_a_folder_that_may_not_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    lake = str(tmp_path / "file" / "lake")
    refused("table create", "db.t", "--schema", "id bigint", "--warehouse", lake, saying=lake, **NO_JAVA)


def test_passwords_stay_out_of_messages() -> None:
    uri = "postgresql+psycopg://me:hush%40hush@127.0.0.1:1/lake?password=hush"
    for properties in (["type=sql", f"uri={uri}"], ["type=rest", "uri=http://me:hush@127.0.0.1:1", "token=hush"]):
        arguments = [word for text in properties for word in ("--property", text)]
        said = refused("table list", "--catalog", "prod", *arguments, saying="'prod'", **NO_JAVA)
        assert "127.0.0.1:1" in said
        assert "hush" not in said


def test_an_interrupt_ends_a_command_without_a_trace(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipeline.yaml")
    call = [PROGRAM, "run", str(tmp_path / "pipeline.yaml"), "--plan"]
    with (
        subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command,
        (tmp_path / "pipeline.yaml").open("w"),  # Opens when the command has come as far as reading its file.
    ):
        command.send_signal(signal.SIGINT)
        out, error = command.communicate(timeout=60)
    assert (command.returncode, out, error.strip()) == (130, "", "Interrupted.")
