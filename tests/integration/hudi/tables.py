"""The Hudi tables that the tests read: every kind and layout, built on first use and shared."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

KINDS = ("cow", "mor_logs", "mor_compacted", "mor_deletes")
# Hudi's writes are what the tests spend most time on: a table begins as a copy of one that has its first commits.
BEGINS_AS = {"mor_deletes": "mor_logs", "mor_logs": "mor_inserted", "mor_compacted": "mor_inserted"}
_COMMITS = {
    "cow": ("insert", "change"),
    "mor_inserted": ("insert",),
    "mor_logs": ("insert", "change"),
    "mor_compacted": ("insert", "change and compact"),
    "mor_deletes": ("insert", "change", "delete"),
}
_COMPACT = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
LAYOUTS = ("hive_style", "plain_partitions", "unpartitioned")
ROWS = 240
REGIONS = 4

# What makes Hudi's writes of a few rows quick, by SQL and by DataFrame: one task where a step is spread, and nothing
# that reads do not see: no metadata table (which would triple the time of each write; tests of what lies in it switch
# it on), no server for the timeline and the markers, no cleaning and no archiving.
QUICK = {
    "hoodie.metadata.enable": "false",
    "hoodie.index.type": "SIMPLE",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.simple.index.parallelism": "1",
    "hoodie.finalize.write.parallelism": "1",
}

_WRITE = {
    **QUICK,
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
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


def build(
    spark: Any, path: Path, kind: str, layout: str, begun: HudiFixture | None = None, **extra: str
) -> HudiFixture:
    """A table of the commits that its kind has, made from one that has the first of them already, or from nothing."""
    options = {**options_of(kind, layout), **extra, "hoodie.table.name": "trips"}
    if begun is not None:
        shutil.copytree(begun.path, path)
    for step in _COMMITS[kind][len(_COMMITS[begun.kind]) if begun else 0 :]:
        if step == "insert":
            write(rows(spark, 0, ROWS), path, "bulk_insert", **options)
        elif step == "delete":
            write(rows(spark, 10, 30, ts=3), path, "delete", **options)
        else:
            changed = rows(spark, ROWS // 2, ROWS // 2 + 40, ts=2).withColumn("name", _changed())
            write(changed, path, "upsert", **options, **(_COMPACT if step == "change and compact" else {}))
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
