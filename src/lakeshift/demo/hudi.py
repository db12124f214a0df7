"""Chapter: a Hudi table with log files, read through DataSource V2 and through Hudi's own source."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from lakeshift.demo.story import Stage
from lakeshift.hudi.reader import HudiTable

ROWS = 400

_WRITE = {
    "hoodie.table.name": "rides",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "changed",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.metadata.enable": "false",
    "hoodie.upsert.shuffle.parallelism": "2",
}


def read_hudi(stage: Stage) -> None:
    spark = stage.lake.spark
    path = str(stage.folder / "rides")
    _write(_rides(spark, 0, ROWS, changed=1), path, "bulk_insert")
    _write(_rides(spark, 0, 50, changed=2), path, "upsert")
    stage.say(f"Hudi's own source wrote {ROWS} rides in 4 cities, then changed 50 of them in log files")

    rides = HudiTable(spark, path)
    stage.say(str(rides.explain()))
    stage.say(str(rides.explain(dsv2=False)))

    shown: list[list[object]] = []
    for query, condition in (("all rides", "true"), ("one city", "city = 'c1'"), ("changed rides", "changed = 2")):
        ours, theirs = (_count_and_sum(rides.read(dsv2=dsv2).where(condition)) for dsv2 in (True, False))
        stage.check(f"{query}, V2 and V1 alike", ours, theirs)
        shown.append([query, *ours])
    stage.show(["Query", "Rides", "Fares"], shown)

    pruned = rides.read().where("city = 'c1'")
    stage.say(f"of {_size(rides.read())} bytes the optimizer expects to read {_size(pruned)} for one city")
    compacted = rides.read(read_optimized=True).selectExpr("count(*)", "max(id)")
    stage.check("read-optimized COUNT and MAX come from Parquet footers", "HudiFooter" in _plan(compacted), True)


def _rides(spark: Any, start: int, end: int, changed: int) -> DataFrame:
    rides: DataFrame = spark.range(start, end, numPartitions=1).selectExpr(
        "id", "concat('c', id % 4) AS city", f"id * 1.5 + {changed} AS fare", f"CAST({changed} AS BIGINT) AS changed"
    )
    return rides


def _count_and_sum(df: DataFrame) -> tuple[object, ...]:
    return tuple(df.selectExpr("count(*)", "sum(fare)").first() or ())


def _write(df: DataFrame, path: str, operation: str) -> None:
    options = {**_WRITE, "hoodie.datasource.write.operation": operation}
    df.write.format("hudi").options(**options).mode("append").save(path)


def _size(df: DataFrame) -> int:
    """What the optimizer expects the query to read."""
    return int(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def _plan(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().toString())
