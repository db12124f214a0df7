"""Streams of every format: each run takes what arrived since the last, once, whatever dies between."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeshift
from lakeshift.errors import ConfigError
from lakeshift.lake import Lake
from lakeshift.pipeline.state import PipelineState
from lakeshift.spark.session import DELTA_CATALOG

PIPELINE = """\
name: arrivals
lake: {warehouse: ./lake}
read:
  texts: {format: csv, path: "texts/*.csv", schema: "id bigint, amount double", streaming: true}
  objects: {format: json, path: "objects/*.json", schema: "id bigint, amount double", streaming: true}
  columns: {format: parquet, path: columns, streaming: true}
  orders: {format: delta, path: lake/orders, streaming: true}
  events: {format: iceberg, table: db.events, streaming: true}
transform:
  together:
    sql: |
      SELECT 'texts' AS source, id, amount FROM texts
      UNION ALL SELECT 'objects', id, amount FROM objects
      UNION ALL SELECT concat('columns of ', day), id, amount FROM columns
      UNION ALL SELECT 'orders', id, amount FROM orders
      UNION ALL SELECT 'events', id, amount FROM events
  sums:
    sql: SELECT id, sum(amount) AS amount FROM together GROUP BY id
write:
  landing: {format: delta, from: together, path: lake/landing}
  raw: {format: iceberg, mode: append, from: together, table: db.raw, create: {partition_by: [source]}}
  totals:
    format: iceberg
    mode: merge
    from: sums
    table: db.totals
    create: {}
    on: target.id = source.id
    clauses:
      - {when: matched, then: update, set: {amount: target.amount + source.amount}}
      - {when: not-matched, then: insert}
"""
STEPS = ["write.landing", "write.raw", "write.totals"]


class Killed(BaseException):
    """Stands for a kill in this process: nothing may handle it."""


class World:
    """Where rows arrive, and the tables that should hold each of them once."""

    def __init__(self, folder: Path, spark: Any) -> None:
        self.folder, self.spark = folder, spark
        self.lake: Lake = lakeshift.connect(warehouse=folder / "lake", spark=spark)
        self.lake.create_iceberg_table("db.events", "id bigint, amount double")
        self.file = folder / "arrivals.yaml"
        self.file.write_text(PIPELINE)
        self.arrived: list[tuple[str, int, float]] = []
        (folder / "columns" / "day=1").mkdir(parents=True)
        for name in ("texts", "objects"):
            (folder / name).mkdir()

    def text(self, number: int) -> None:
        (self.folder / "texts" / f"a {number}.csv").write_text(f"id,amount\n{number},0.5\n1,0.5\n")
        self.arrived += [("texts", number, 0.5), ("texts", 1, 0.5)]

    def object(self, number: int) -> None:
        (self.folder / "objects" / f"{number}.json").write_text(f'{{"id": {number}, "amount": 2.0}}\n')
        self.arrived.append(("objects", number, 2.0))

    def columns(self, number: int) -> None:
        pq.write_table(
            pa.table({"id": [number], "amount": [4.0]}), self.folder / "columns" / "day=1" / f"{number}.parquet"
        )
        self.arrived.append(("columns of 1", number, 4.0))

    def order(self, number: int) -> None:
        rows = self.spark.createDataFrame([(number, 8.0)], "id bigint, amount double")
        rows.coalesce(1).write.format("delta").mode("append").save(str(self.folder / "lake" / "orders"))
        self.arrived.append(("orders", number, 8.0))

    def event(self, number: int) -> None:
        self.lake.iceberg("db.events").table.append(pa.table({"id": [number], "amount": [16.0]}))
        self.arrived.append(("events", number, 16.0))

    def commits(self) -> list[int]:
        tables = [self.lake.iceberg(f"db.{name}").table.metadata.snapshots for name in ("raw", "totals")]
        return [*map(len, tables), len(list((self.folder / "lake" / "landing" / "_delta_log").glob("*.json")))]

    def check(self, arrived: list[tuple[str, int, float]] | None = None) -> None:
        """Every row that arrived is in every table, once. PyIceberg reads, and Delta."""
        expected = sorted(self.arrived if arrived is None else arrived)
        assert sorted(map(tuple, self._rows("raw"))) == expected
        landing = self.spark.read.format("delta").load(str(self.folder / "lake" / "landing")).collect()
        assert sorted(map(tuple, landing)) == expected
        totals: dict[int, float] = {}
        for _, number, amount in expected:
            totals[number] = totals.get(number, 0) + amount
        assert dict(map(tuple, self._rows("totals"))) == totals

    def _rows(self, name: str) -> list[tuple[Any, ...]]:
        rows = self.lake.iceberg(f"db.{name}").table.scan().to_arrow().to_pylist()
        return [tuple(row.values()) for row in rows]


@pytest.mark.once_last
def test_each_run_takes_what_arrived_since_the_last_and_takes_it_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, spark)
    for arrive in (world.text, world.columns, world.order, world.event):
        arrive(1)
    first = lakeshift.run_pipeline(world.file, spark=spark)
    assert first.arrived == {"texts": 1, "objects": 0, "columns": 1, "orders": 1, "events": 1}
    world.check()

    commits = world.commits()
    nothing = lakeshift.run_pipeline(world.file, spark=spark)
    assert (nothing.nothing_new, nothing.steps, nothing.number) == (True, (), 2)
    assert world.commits() == commits
    records = (tmp_path / ".lakeshift/arrivals/runs.jsonl").read_bytes()
    for arrive in (world.text, world.object, world.columns, world.order, world.event):
        arrive(2)
    plan = lakeshift.plan_pipeline(world.file, spark=spark)
    assert {name: facts["arrived"] for name, facts in plan.inputs.items()} == dict.fromkeys(first.arrived, 1)
    assert plan.lines()[0] == "texts: csv, 1 new file, struct<id:bigint,amount:double>"
    assert [step["action"] for step in plan.steps] == ["append", "append", "merge"]
    assert (tmp_path / ".lakeshift/arrivals/runs.jsonl").read_bytes() == records
    assert world.commits() == commits

    # Killed when all has been committed and nothing recorded, and again when only the end of the run is not recorded.
    append = PipelineState.append

    def die_unrecorded(self: PipelineState, event: str, **facts: Any) -> None:
        if event != "step-done":
            append(self, event, **facts)
        elif facts["step"] == STEPS[-1]:
            raise Killed

    def die_at_the_end(self: PipelineState, event: str, **facts: Any) -> None:
        if event == "run-finished":
            raise Killed
        append(self, event, **facts)

    due = list(world.arrived)
    for resume, die in ((False, die_unrecorded), (True, die_at_the_end)):
        with monkeypatch.context() as patch:
            patch.setattr(PipelineState, "append", die)
            with pytest.raises(Killed):
                lakeshift.run_pipeline(world.file, resume=resume, spark=spark)
        if not resume:
            world.text(4)  # What arrives now belongs to the next run, also if the file says more than it did.
            world.order(4)
            world.file.write_text(PIPELINE.replace('texts/*.csv",', "texts/*.csv\", options: {comment: '#'},"))
    resumed = lakeshift.run_pipeline(world.file, resume=True, spark=spark)
    assert (resumed.number, resumed.steps, resumed.resumed_after) == (3, (), tuple(STEPS))
    world.check(due)
    assert [after - before for after, before in zip(world.commits(), commits, strict=True)] == [1, 1, 1]

    late = lakeshift.run_pipeline(world.file, spark=spark)
    assert late.arrived == {"texts": 1, "objects": 0, "columns": 0, "orders": 1, "events": 0}
    world.check()

    # What took rows away cannot be told apart from what brought some. Under another name a stream begins anew.
    def plan_of(text: str) -> Mapping[str, Any]:
        world.file.write_text(text)
        return lakeshift.plan_pipeline(world.file, spark=spark).inputs

    world.lake.iceberg("db.events").table.delete("id = 2")
    delta_sql = spark.newSession()  # The shared session may have given this catalog to Hudi.
    delta_sql.conf.set("spark.sql.catalog.spark_catalog", DELTA_CATALOG)
    delta_sql.sql(f"DELETE FROM delta.`{tmp_path}/lake/orders` WHERE id = 2")
    with pytest.raises(ConfigError, match=r"^read.orders: version \d+ of .* \(DELETE\) took rows away.*start: latest"):
        plan_of(PIPELINE)
    text = PIPELINE.replace("orders: {format", "orders2: {start: latest, format").replace("FROM orders", "FROM orders2")
    with pytest.raises(ConfigError, match=r"^read.events: Snapshot \d+, .* is delete: .*start: latest"):
        plan_of(text)
    inputs = plan_of(text.replace("events: {format", "events2: {format").replace("FROM events", "FROM events2"))
    assert (inputs["orders2"]["arrived"], inputs["events2"]["arrived"]) == (0, 1)
