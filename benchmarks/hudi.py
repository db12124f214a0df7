"""Hudi reads through DataSource V2 beside Hudi's own source: scans, pruned scans, planning, footer aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
}


def cases(lab: Lab) -> Iterator[Case]:
    rows, groups = (2_000, 8) if lab.tiny else (10_000_000, 10_000)
    cow, mor = lab.folder / "cow", lab.folder / "mor"
    _write(_rows(lab.spark, rows), cow, "bulk_insert", "COPY_ON_WRITE")
    _write(_rows(lab.spark, rows), mor, "bulk_insert", "MERGE_ON_READ")
    _write(_rows(lab.spark, rows // 50), mor, "upsert", "MERGE_ON_READ")

    for kind, path in (("COW", cow), ("MOR with log files", mor)):
        table = HudiTable(lab.spark, str(path))
        yield _case(f"{kind}, full scan of {rows:,} rows", table, _full_scan, aim=1.0)
        yield _case(f"{kind}, 1 of 16 partitions and a filter", table, _pruned_scan, aim=1.0)
    table = HudiTable(lab.spark, str(cow))
    yield _case("COW, COUNT(*)", table, lambda df: df.selectExpr("count(*)").collect(), aim=10.0)
    yield _case(
        "COW, MIN and MAX", table, lambda df: df.selectExpr("min(id)", "max(id)", "max(ts)").collect(), aim=10.0
    )

    many = lab.folder / "many"
    _write_groups(lab.spark, many, groups)
    table = HudiTable(lab.spark, str(many))
    yield _case(f"planning {groups:,} file groups", table, _plan, aim=1.0)
    yield _case(
        f"planning 1 partition of {groups:,} file groups", table, lambda df: _plan(df.where("region = 'r3'")), aim=1.0
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


def _plan(df: Any) -> int:
    """Up to the tasks, without running them."""
    return int(df.select("id")._jdf.queryExecution().toRdd().getNumPartitions())


def _rows(spark: Any, count: int) -> Any:
    return spark.range(0, count, 1, 4).selectExpr(
        "id",
        "concat('name ', id % 100003) AS name",
        "(id * 7919) % 1000 / 1.0 AS amount",
        "id % 1009 AS ts",
        "concat('r', id % 16) AS region",
    )


def _write(df: Any, path: Path, operation: str, table_type: str) -> None:
    options = {
        **_WRITE,
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.table.type": table_type,
    }
    df.write.format("hudi").options(**options).mode("append").save(str(path))


def _write_groups(spark: Any, path: Path, groups: int) -> None:
    """A table of many small file groups: one is written by Hudi for each partition, the rest are links to it.

    Written by Hudi, ten thousand file groups would take long. A file under another file id, which names the same
    completed commit, is a file group like any other to a reader.
    """
    _write(_rows(spark, 160), path, "bulk_insert", "COPY_ON_WRITE")
    for partition in sorted(path.glob("region=*")):
        original = min(partition.glob("*.parquet"))
        suffix = original.name[36:]
        for number in range(groups // 16 - 1):
            (partition / f"{number:08x}-0000-4000-8000-000000000000{suffix}").hardlink_to(original)
