"""Hudi reads through DataSource V2 beside Hudi's own source: scans, pruned scans, planning, footer aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Case, Lab
from lakeshift.hudi.reader import HudiTable

PEER = "Hudi V1"

_WRITE = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.metadata.enable": "false",
    "hoodie.index.type": "SIMPLE",
    "hoodie.simple.index.parallelism": "4",
    "hoodie.bulkinsert.shuffle.parallelism": "4",
    "hoodie.upsert.shuffle.parallelism": "4",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
}


def cases(lab: Lab) -> Iterator[Case]:
    size = Size(rows=400, regions=4, tasks=1, groups=8) if lab.tiny else Size()
    cow, mor = lab.folder / "cow", lab.folder / "mor"
    _write(_rows(lab.spark, size, size.rows), cow, "bulk_insert", "COPY_ON_WRITE")
    _write(_rows(lab.spark, size, size.rows), mor, "bulk_insert", "MERGE_ON_READ")
    _write(_rows(lab.spark, size, size.rows // 50), mor, "upsert", "MERGE_ON_READ")

    for kind, path in (("COW", cow), ("MOR with log files", mor)):
        table = HudiTable(lab.spark, str(path))
        yield _case(f"{kind}, full scan of {size.rows:,} rows", table, _full_scan, aim=1.0)
        yield _case(f"{kind}, 1 of {size.regions} partitions and a filter", table, _pruned_scan, aim=1.0)
    yield from _aggregates(lab.spark, cow, "COUNT(*)", ["count(*)"])
    yield from _aggregates(lab.spark, cow, "MIN and MAX", ["min(id)", "max(id)", "max(ts)"])

    many = lab.folder / "many"
    _write_groups(lab.spark, many, size)
    table = HudiTable(lab.spark, str(many))
    yield _case(f"planning {size.groups:,} file groups", table, _plan, aim=1.0)
    # More footers than the driver reads by itself: they are read in tasks.
    yield _case(f"COUNT(*) of {size.groups:,} file groups", table, _count, aim=1.0)
    one = f"planning 1 partition of {size.groups:,} file groups"
    yield _case(one, table, lambda df: _plan(df.where("region = 'r3'")), aim=1.0)


@dataclass(frozen=True)
class Size:
    """How much is written: rows in all, spread over partitions, by so many tasks; and the file groups to plan."""

    rows: int = 10_000_000
    regions: int = 16
    tasks: int = 4
    groups: int = 10_000


def _aggregates(spark: Any, path: Path, name: str, expressions: list[str]) -> Iterator[Case]:
    """Of a table that the session has not seen, whose files Hudi lists first, and of one that it knows."""
    yield _case(
        f"COW, {name}, table loaded anew",
        HudiTable(spark, str(path)),
        lambda df: df.selectExpr(*expressions).collect(),
        aim=10.0,
    )
    view = {dsv2: HudiTable(spark, str(path)).read(dsv2=dsv2) for dsv2 in (True, False)}
    yield Case(
        f"COW, {name}, table loaded before",
        lambda: view[True].selectExpr(*expressions).collect(),
        {PEER: lambda: view[False].selectExpr(*expressions).collect()},
        aim={PEER: 10.0},
    )


def _case(name: str, table: HudiTable, work: Callable[[Any], Any], aim: float) -> Case:
    """Each side loads the table anew, as a query does, so that listing and planning are part of its time."""
    return Case(
        name, lambda: work(table.read(dsv2=True)), {PEER: lambda: work(table.read(dsv2=False))}, aim={PEER: aim}
    )


def _full_scan(df: Any) -> Any:
    return df.selectExpr("sum(id)", "sum(amount)", "max(name)", "sum(hash(_hoodie_record_key))").collect()


def _pruned_scan(df: Any) -> Any:
    return df.where("region = 'r3' AND amount > 500").selectExpr("sum(id)", "max(name)").collect()


def _count(df: Any) -> Any:
    return df.selectExpr("count(*)").collect()


def _plan(df: Any) -> int:
    """Up to the tasks, without running them."""
    return int(df.select("id")._jdf.queryExecution().toRdd().getNumPartitions())


def _rows(spark: Any, size: Size, count: int) -> Any:
    return spark.range(0, count, 1, size.tasks).selectExpr(
        "id",
        "concat('name ', id % 100003) AS name",
        "(id * 7919) % 1000 / 1.0 AS amount",
        "id % 1009 AS ts",
        f"concat('r', id % {size.regions}) AS region",
    )


def _write(df: Any, path: Path, operation: str, table_type: str) -> None:
    options = {
        **_WRITE,
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.table.type": table_type,
    }
    df.write.format("hudi").options(**options).mode("append").save(str(path))


def _write_groups(spark: Any, path: Path, size: Size) -> None:
    """A table of many small file groups: one is written by Hudi for each partition, the rest are links to it.

    Written by Hudi, ten thousand file groups would take long. A file under another file id, which names the same
    completed commit, is a file group like any other to a reader.
    """
    _write(_rows(spark, size, 10 * size.regions), path, "bulk_insert", "COPY_ON_WRITE")
    for partition in sorted(path.glob("region=*")):
        original = min(partition.glob("*.parquet"))
        suffix = original.name[36:]
        for number in range(size.groups // size.regions - 1):
            (partition / f"{number:08x}-0000-4000-8000-000000000000{suffix}").hardlink_to(original)
