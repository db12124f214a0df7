"""Commands that need Spark. Those that are processes of their own cost a JVM each, so that they are few."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakeshift.stack import Stack
from tests.command import printed, refused, shared, told


def test_doctor_is_well_and_names_this_stack(spark: Any, stack: Stack, tmp_path: Path) -> None:
    findings = printed("doctor", "--warehouse", str(tmp_path), by=shared)
    assert _told_of(findings) == dict.fromkeys(
        ("Python", "lakeshift", "Spark", "Java", "Jar for iceberg", "Jar for delta", "Session", "Executors", "Catalog"),
        "ok",
    )
    assert any(stack.spark in finding["detail"] for finding in findings if finding["subject"] == "Spark")
    shown = told("doctor", "--no-spark", "--warehouse", str(tmp_path), by=shared)
    assert "Session\tskipped\t--no-spark was given\n" in shown
    assert shown.endswith("All is well.\n")


@pytest.mark.once
def test_a_process_of_its_own_starts_spark_without_a_word(tmp_path: Path) -> None:
    found = _told_of(printed("doctor", "--warehouse", str(tmp_path)))
    assert (found["Session"], found["Executors"]) == ("ok", "ok")


def _told_of(findings: list[dict[str, str]]) -> dict[str, str]:
    return {finding["subject"]: finding["status"] for finding in findings if finding["subject"] != "Jar for hudi"}


@pytest.mark.once_last
def test_rows_are_written_changed_compacted_and_piped(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where Spark may put its own files
    (tmp_path / "rows.json").write_text("".join(f'{{"id": {n}, "city": "{c}"}}\n' for n, c in enumerate("xxyyz")))
    (tmp_path / "bad.csv").write_text("city,id\nPune,30\nOslo,\n")
    (tmp_path / "changes.json").write_text('{"id": 104, "city": "m"}\n{"id": 7, "city": "new"}\n')
    rows, changes, bad = (str(tmp_path / name) for name in ("rows.json", "changes.json", "bad.csv"))
    in_lake = partial(shared, LAKESHIFT_WAREHOUSE=str(tmp_path / "lake"))
    columns = ["--schema", "id bigint not null, city string", "-p", "city"]
    printed("table create", "db.t", *columns, by=in_lake)
    printed("table evolve", "db.t", "--add", "bucket(4, id)", by=in_lake)

    # Rows are appended under a chosen spec, and bad ones refused or set aside.
    appended = told("table append", "db.t", rows, "--spec-id", "0", by=in_lake)
    assert appended.startswith("Appended 5 rows to db.t in 3 files under spec 0, as snapshot ")
    types = ["--schema", "city string, id bigint"]
    refused("table append", "db.t", bad, *types, saying="BadRowsError: 1 row cannot be written to db.t", by=in_lake)
    aside = ["--on-bad-rows", "quarantine", "--quarantine", str(tmp_path / "bad")]
    result = printed("table append", "db.t", bad, *types, *aside, by=in_lake)
    assert (result["rows_written"], result["rows_quarantined"], list(result["by_spec"])) == (1, 1, ["1"])
    assert pq.read_table(tmp_path / "bad").column("city").to_pylist() == ["Oslo"]
    missing = refused("table append", "db.t", str(tmp_path / "no-such.parquet"), saying="ConfigError", by=in_lake)
    assert "no-such.parquet" in missing
    assert "Check the path and --format." in missing
    refused("table append", "db.t", rows, bad, saying="several formats (csv, json); give --format", by=in_lake)
    (tmp_path / "odd.json").write_text('{"id": 1, "town": "x"}')
    odd = str(tmp_path / "odd.json")
    refused("table append", "db.t", odd, saying="column 'town' (string) is not in the table", by=in_lake)

    # What a change would do is shown first, and is what it does.
    which = ["--where", "city = 'x' OR id = 3", "--mode", "merge-on-read"]
    preview = printed("table delete --dry-run", "db.t", *which, by=in_lake)
    assert (preview["rows_deleted"], preview["dropped_files"], preview["changed_files"]) == (3, 1, 1)
    assert preview["changed_files_by_spec"] == {"0": 2}
    result = printed("table delete", "db.t", *which, by=in_lake)
    assert (result["rows_deleted"], result["removed_data_files"], result["added_delete_files"]) == (3, 1, 1)
    again = told("table delete", "db.t", "--where", "city = 'x'", by=in_lake)
    assert again == "No row of db.t matches; nothing was committed.\n"
    preview = printed("table update --dry-run", "db.t", "--set", "city='moved'", by=in_lake)
    assert (preview["rows_deleted"], preview["rows_inserted"]) == (3, 3)
    values = ["--set", "city='moved'", "--set", "id=id + 100", "--where", "id = 4"]
    assert printed("table update", "db.t", *values, by=in_lake)["rows_deleted"] == 1
    assert "No row" in told("table update", "db.t", "--set", "id=1", "--where", "id = 4", by=in_lake)
    refused("table update", "db.t", "--set", "town='x'", saying="town", by=in_lake)
    clauses = ["--on", "target.id = source.id", "--matched", "update", "--not-matched", "insert"]
    preview = printed("table merge --dry-run", "db.t", changes, *clauses, by=in_lake)
    assert (preview["rows_deleted"], preview["rows_inserted"]) == (1, 2)
    assert printed("table merge", "db.t", changes, *clauses, by=in_lake)["rows_written"] == 2
    gone = told("table merge", "db.t", changes, *clauses[:3], "delete", by=in_lake)
    assert gone.startswith("Merged in db.t: 2 rows changed or gone, 0 rows written; ")

    # The compaction does what its plan says, and then has nothing to do.
    plan = printed("rewrite plan", "db.t", "--min-input-files", "1", "--files", by=in_lake)
    assert all(group["files"] for group in plan["groups"])
    result = printed("rewrite run", "db.t", "--min-input-files", "1", "--snapshot-property", "by=hand", by=in_lake)
    assert (result["rewritten_data_files"], result["failed_groups"]) == (plan["input_files"], 0)
    assert "became" in told("rewrite run", "db.t", "--rewrite-all", by=in_lake)
    assert told("rewrite run", "db.t", by=in_lake) == "Nothing to do.\n"
    described = printed("table show", "db.t", by=in_lake)
    operations = [snapshot["operation"] for snapshot in described["snapshots"]]
    assert operations[:4] == ["append", "append", "delete", "overwrite"]
    assert operations[-2:] == ["replace", "replace"]
    assert described["snapshots"][-2]["summary"]["by"] == "hand"

    # Delta tables are compared with, refused and evolved.
    table, batch, more = (str(tmp_path / name) for name in ("delta", "batch.json", "more.json"))
    Path(batch).write_text('{"a": 1, "k": "x"}\n')
    Path(more).write_text('{"a": 2, "b": "x"}\n')
    new = ["-p", "k", "--set", "delta.appendOnly=true"]
    assert "Wrote 1 rows" in told("delta write", table, batch, *new, by=in_lake)
    first = (tmp_path / "delta" / "_delta_log" / f"{0:020}.json").read_text()
    assert '"partitionColumns":["k"]' in first
    assert '"delta.appendOnly":"true"' in first
    assert told("delta diff", table, more, by=in_lake) == "NewColumns\n+ b: string\n"
    diff = printed("delta diff", table, more, by=in_lake)
    dry = printed("delta write --dry-run", table, more, code=1, by=in_lake)
    assert dry["plan"]["action"] == "refuse"
    refused("delta write", table, more, saying="SchemaMismatchError: ", by=in_lake)
    evolve = ["--evolve", "columns", "--txn-app-id", "shell", "--txn-version", "1"]
    result = printed("delta write", table, more, *evolve, by=in_lake)
    assert (result["diff"], result["evolved"]) == (diff, True)
    assert "Skipped" in told("delta write", table, more, *evolve, by=in_lake)
    refused("delta diff", str(tmp_path / "nothing"), more, saying="nothing", by=in_lake)

    # A pipeline over both is planned and run.
    file = tmp_path / "copy.yaml"
    file.write_text(PIPELINE)
    plan = printed("run --plan", str(file), by=in_lake)
    assert [step["action"] for step in plan["steps"]] == ["append", "create and overwrite", "later", "rewrite"]
    result = printed("run", str(file), by=in_lake)
    assert [step["details"]["operation"] for step in result["steps"]] == ["append", "overwrite", "merge", "rewrite"]
    file.write_text("\n".join(PIPELINE.splitlines()[:6]))
    assert "Run 2 finished in " in told("run", str(file), by=in_lake)
    file.write_text(PIPELINE.replace("from: rows", "from: row"))
    mistake = refused("run", str(file), saying="'row' is not defined before it is used", by=in_lake)
    assert f"{file}:" in mistake


PIPELINE = """\
name: copy
lake: {warehouse: lake}
read:
  rows: {format: json, path: more.json}
write:
  landing: {format: delta, from: rows, path: delta}
  copy: {format: iceberg, mode: overwrite, from: rows, table: db.copy, create: {}}
  merged:
    format: iceberg
    mode: merge
    from: rows
    table: db.copy
    on: target.a = source.a
    clauses: [{when: matched, then: update}]
maintain:
  compact: {table: db.copy}
"""


@pytest.mark.once
def test_a_jar_that_cannot_be_had_is_named() -> None:
    program = (
        "from lakeshift.cli.quiet import quiet_jvm\n"
        "from lakeshift.spark.session import build_session\n"
        "with quiet_jvm():\n"
        "    build_session(('iceberg',), packages=['org.example:no-such-jar:1.0'])\n"
    )
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert failed.returncode == 1
    assert "StackError: Spark" in failed.stderr
    assert "check that the machine reaches a Maven repository for org.example:no-such-jar:1.0" in failed.stderr
    assert "unresolved dependency: org.example#no-such-jar;1.0: not found" in failed.stderr
