"""The Hudi tables that the tests read: every kind and layout, built on first use and shared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

KINDS = ("cow", "mor_logs", "mor_compacted", "mor_deletes")
LAYOUTS = ("hive_style", "plain_partitions", "unpartitioned")
ROWS = 240
REGIONS = 4

# Small and without the metadata table, which would triple the time of each write; tests of what lies in that
# table switch it on.
_WRITE = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.index.type": "SIMPLE",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.simple.index.parallelism": "2",
    "hoodie.delete.shuffle.parallelism": "2",
}

COLUMNS = (
    "id",
    "concat('name', id) AS name",
    "CAST(id * 1.25 AS DECIMAL(12, 2)) AS amount",
    "CASE WHEN id % 11 = 0 THEN CAST('NaN' AS DOUBLE) WHEN id % 7 = 0 THEN NULL ELSE id / 3.0 END AS score",
    "IF(id % 5 = 0, NULL, CAST(id AS INT)) AS small",
    "date_add(DATE'2026-01-01', CAST(id % 50 AS INT)) AS day",
    "timestamp_seconds(1767225600 + id) AS at",
    "named_struct('city', concat('c', id % 3), 'geo', named_struct('lat', CAST(id AS DOUBLE), 'lon', -id / 2)) AS info",
    "array(concat('t', id % 2), 'all') AS tags",
    "map('k', id) AS labels",
    f"concat('r', id % {REGIONS}) AS region",
)


@dataclass(frozen=True)
class HudiFixture:
    """A table and the two instants that time travel and incremental reads need."""

    path: str
    first_commit: str
    first_completion: str
    kind: str
    layout: str


def rows(spark: Any, start: int, end: int, ts: int = 1) -> DataFrame:
    return spark.range(start, end, numPartitions=1).selectExpr(*COLUMNS, f"CAST({ts} AS BIGINT) AS ts")


def write(df: DataFrame, path: str | Path, operation: str, mode: str = "append", **options: str) -> None:
    """One V1 write; ``options`` are Hudi's, over the defaults of these tests."""
    chosen = {**_WRITE, "hoodie.table.name": Path(path).name, "hoodie.datasource.write.operation": operation, **options}
    df.write.format("hudi").options(**chosen).mode(mode).save(str(path))


def options_of(kind: str, layout: str) -> dict[str, str]:
    options = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE" if kind == "cow" else "MERGE_ON_READ"}
    if layout == "unpartitioned":
        return {**options, "hoodie.datasource.write.partitionpath.field": ""}
    hive = str(layout == "hive_style").lower()
    return {
        **options,
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.hive_style_partitioning": hive,
    }


def build(spark: Any, path: Path, kind: str, layout: str, **extra: str) -> HudiFixture:
    """A table of two or three commits; after the first, rows change in the way that the kind says."""
    options = {**options_of(kind, layout), **extra}
    write(rows(spark, 0, ROWS), path, "bulk_insert", **options)
    changed = rows(spark, ROWS // 2, ROWS // 2 + 40, ts=2).withColumn("name", _changed())
    if kind == "mor_compacted":
        options |= {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    write(changed, path, "upsert", **options)
    if kind == "mor_deletes":
        write(rows(spark, 10, 30, ts=3), path, "delete", **options)
    requested, completed = completed_commits(path)[0]
    return HudiFixture(str(path), requested, completed, kind, layout)


def completed_commits(path: str | Path) -> list[tuple[str, str]]:
    """(requested, completed) times of the commits, oldest first; before table version 8 both are one."""
    found = []
    for folder in (Path(path, ".hoodie", "timeline"), Path(path, ".hoodie")):
        for file in folder.glob("*"):
            match = re.fullmatch(r"(\d{17})(?:_(\d{17}))?\.(commit|deltacommit|replacecommit)", file.name)
            if match:
                found.append((match.group(1), match.group(2) or match.group(1)))
    return sorted(found)


def _changed() -> Any:
    from pyspark.sql import functions as f

    return f.concat(f.lit("changed"), f.col("id"))
