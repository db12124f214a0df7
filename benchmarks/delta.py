"""A batch through the Delta sink beside the plain append of the same frame: what the checks cost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Case, Lab
from lakeshift.delta.sink import DeltaSink


def cases(lab: Lab) -> Iterator[Case]:
    shapes = [(10, 1_000)] if lab.tiny else [(10, 200_000), (1_000, 2_000)]
    for columns, rows in shapes:
        yield _append(lab, columns, rows)


def _append(lab: Lab, columns: int, rows: int) -> Case:
    """Two tables that grow alike, one by the sink and one by the plain writer."""
    spark = lab.spark
    shown = ["id", *(f"id * {n} AS c{n}" for n in range(1, columns))]
    made = lab.folder / f"input-{columns}"
    spark.range(0, rows, 1, 2).selectExpr(*shown).write.mode("overwrite").parquet(str(made))
    ours, plain = lab.folder / f"sink-{columns}", lab.folder / f"plain-{columns}"
    sink = DeltaSink(spark, ours, {"columns": "evolve"}, txn_app_id="benchmark").open()
    numbers = itertools.count()

    def by_sink() -> int:
        sink.write_batch(spark.read.parquet(str(made)), txn_version=next(numbers))
        return _versions(ours)

    def by_writer() -> int:
        # The same promise: exactly once, by the same kind of transaction id.
        writer = spark.read.parquet(str(made)).write.format("delta").mode("append")
        writer.option("txnAppId", "benchmark").option("txnVersion", str(next(numbers))).save(str(plain))
        return _versions(plain)

    return Case(
        f"append {rows:,} rows of {columns:,} columns",
        ours=by_sink,
        peers={"df.write append": by_writer},
        aim={"df.write append": 0.95},
        note="the sink checks the schema, and finds its commit in the log",
    )


def _versions(table: Path) -> int:
    return len(list((table / "_delta_log").glob("*.json")))
