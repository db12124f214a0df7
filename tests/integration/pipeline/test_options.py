"""The options of a pipeline that other tests leave alone, in one pipeline that is killed, planned on, and given up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import lakeshift
from lakeshift.cli.app import app
from lakeshift.cli.options import settings
from lakeshift.errors import ConfigError, InvalidStateError
from lakeshift.lake import Lake
from lakeshift.pipeline.state import PipelineState

PIPELINE = """\
name: options
lake: {warehouse: ./lake}
read:
  rows: {format: parquet, path: rows}
transform:
  marked: {sql: "SELECT id, region, amount, uuid() AS mark FROM rows", cache: true}
  europe: {sql: "SELECT id, region, amount FROM rows WHERE region = 'eu'"}
write:
  audited: {format: iceberg, mode: append, branch: audit, from: marked, table: db.audited}
  europe: {format: iceberg, mode: overwrite, where: "region = 'eu'", spec_id: 0, from: europe, table: db.facts}
  latest:
    format: iceberg
    mode: merge
    from: marked
    table: db.latest
    row_level_mode: merge-on-read
    on: target.id = source.id
    clauses:
      - {when: matched, then: update}
      - {when: not-matched, then: insert, condition: source.amount > 0}
      - {when: not-matched-by-source, then: update, set: {mark: "'gone'"}, condition: target.region = 'us'}
      - {when: not-matched-by-source, then: delete}
maintain:
  move:
    table: db.facts
    where: region = 'eu'
    target_spec_id: 1
    options: {rewrite-all: true}
"""


class Killed(BaseException):
    """Stands for a kill in this process: nothing may handle it."""


def call(*arguments: str) -> Result:
    settings.json = settings.debug = False
    return CliRunner().invoke(app, ["run", *arguments])


def make(folder: Path) -> tuple[Path, Lake]:
    """Partitioned Parquet files, and tables with rows of before; one table has changed its partitions since."""
    for region in ("eu", "us"):
        (folder / "rows" / f"region={region}").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2], "amount": [10.0, -1.0]}), folder / "rows/region=eu/a.parquet")
    pq.write_table(pa.table({"id": [3], "amount": [30.0]}), folder / "rows/region=us/b.parquet")
    lake = lakeshift.connect(warehouse=folder / "lake")
    old = {"id": [1, 7, 8], "region": ["eu", "us", "eu"], "amount": [1.0, 7.0, 8.0]}
    lake.create_iceberg_table("db.facts", "id bigint, region string, amount double", ["region"])
    lake.iceberg("db.facts").table.append(pa.table(old))
    lake.iceberg("db.facts").evolve_partitions(add=["bucket(2, id)"])
    columns = "id bigint, region string, amount double, mark string"
    for name in ("latest", "audited"):
        lake.create_iceberg_table(f"db.{name}", columns)
        lake.iceberg(f"db.{name}").table.append(pa.table({**old, "mark": ["old"] * 3}))
    audited = lake.iceberg("db.audited").table
    audited.manage_snapshots().create_branch(audited.current_snapshot().snapshot_id, "audit").commit()  # type: ignore[union-attr]
    (folder / "options.yaml").write_text(PIPELINE)
    return folder / "options.yaml", lake


@pytest.mark.once_last
def test_options_do_what_they_say_in_runs_that_are_planned_on_and_given_up(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, lake = make(tmp_path)
    append = PipelineState.append

    def die(self: PipelineState, event: str, **facts: Any) -> None:
        if event == "step-done" and facts["step"] == "write.europe":
            raise Killed
        append(self, event, **facts)

    with monkeypatch.context() as patch:
        patch.setattr(PipelineState, "append", die)
        with pytest.raises(Killed):
            lakeshift.run_pipeline(file, spark=spark)

    # What is left of the run, told without going on with it.
    records = (tmp_path / ".lakeshift/options/runs.jsonl").read_bytes()
    planned = call(str(file), "--plan", "--resume", "--json")
    assert planned.exit_code == 0, (planned.output, planned.exception)
    steps = {step["step"]: step for step in json.loads(planned.stdout)["steps"]}
    assert steps["write.audited"]["lines"] == ["done by an earlier attempt of this run"]
    assert steps["write.europe"]["lines"] == ["committed, and to be recorded"]
    assert steps["write.latest"]["mode"] == "merge-on-read"
    assert "  when not-matched-by-source and target.region = 'us': update" in steps["write.latest"]["lines"]
    assert [(move["spec_id"], move["files"]) for move in steps["maintain.move"]["moves"]] == [(0, 1)]
    assert (tmp_path / ".lakeshift/options/runs.jsonl").read_bytes() == records

    # Another run in its place: what the first one appended stays, and is there twice.
    refused = call(str(file))
    assert isinstance(refused.exception, InvalidStateError)
    assert f"lakeshift run {file} --new`: what it wrote stays" in str(refused.exception)
    assert call(str(file), "--plan", "--new").exit_code == call(str(file), "--resume", "--new").exit_code == 2
    begun = call(str(file), "--new")
    assert begun.exit_code == 0, (begun.output, begun.exception)
    assert "is given up" in begun.output
    assert "Run 2 finished" in begun.output
    state = PipelineState(tmp_path / ".lakeshift/options", "options")
    assert [run.status for run in state.runs()] == ["abandoned", "finished"]

    audited = lake.iceberg("db.audited").table
    assert audited.scan().to_arrow().num_rows == 3  # The branch alone has the new rows.
    branch = audited.scan(snapshot_id=audited.refs()["audit"].snapshot_id).to_arrow().to_pylist()
    assert sorted(row["id"] for row in branch) == [1, 1, 1, 2, 2, 3, 3, 7, 8]

    done = state.runs()[-1].steps
    latest = {row["id"]: row for row in lake.iceberg("db.latest").table.scan().to_arrow().to_pylist()}
    # 2 is not inserted, 8 is deleted, 7 is marked; 1 and 3 are the rows that the branch got, mark and all.
    assert sorted(latest) == [1, 3, 7]
    assert latest[7]["mark"] == "gone"
    marks = {row["mark"] for row in branch}
    assert latest[1]["mark"] in marks
    assert latest[3]["mark"] in marks
    assert done["write.latest"]["details"]["added_delete_files"] > 0

    facts = lake.iceberg("db.facts").table
    rows = sorted((row["id"], row["region"], row["amount"]) for row in facts.scan().to_arrow().to_pylist())
    assert rows == [(1, "eu", 10.0), (2, "eu", -1.0), (7, "us", 7.0)]
    specs = facts.inspect.files().select(["spec_id", "partition"]).to_pylist()
    assert {(row["spec_id"], row["partition"]["region"]) for row in specs} == {(0, "us"), (1, "eu")}
    assert done["maintain.move"]["details"]["filter_stats"] is not None
    lake.catalog.engine.dispose()  # type: ignore[attr-defined]


def test_a_view_of_the_user_s_is_not_replaced(spark: Any, tmp_path: Path) -> None:
    file, _ = make(tmp_path)
    spark.range(3).createOrReplaceTempView("europe")
    try:
        refused = call(str(file))
        assert isinstance(refused.exception, ConfigError)
        assert "a temporary view 'europe' already" in str(refused.exception)
        assert spark.table("europe").count() == 3
    finally:
        spark.catalog.dropTempView("europe")
