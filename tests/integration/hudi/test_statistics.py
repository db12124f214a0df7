"""Statistics: sizes after pruning, rows where they are known, and plans that follow them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakeshift.hudi.reader import HudiTable
from tests.integration.hudi.plans import nodes
from tests.integration.hudi.tables import REGIONS, ROWS, HudiFixture

Tables = Callable[..., HudiFixture]


@contextmanager
def settings(spark: Any, **values: str) -> Iterator[None]:
    named = {name.replace("__", "."): value for name, value in values.items()}
    for name, value in named.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in named:
            spark.conf.unset(name)


def stats(df: DataFrame) -> tuple[int, int | None]:
    """Size and rows that the optimizer sees at the scan."""
    found = df._jdf.queryExecution().optimizedPlan().collectLeaves().head().stats()
    rows = found.rowCount()
    return int(found.sizeInBytes()), int(rows.get()) if rows.isDefined() else None


def read(spark: Any, table: HudiFixture, **arguments: Any) -> DataFrame:
    return HudiTable(spark, table.path).read(**arguments)


def test_the_size_is_that_of_base_and_log_files(spark: Any, hudi_table: Tables) -> None:
    for kind in ("mor_deletes", "mor_logs"):
        table = hudi_table(kind)
        data = [f for f in Path(table.path).glob("region=*/*") if f.suffix == ".parquet" or ".log." in f.name]
        logs = [f for f in data if ".log." in f.name and f.name.startswith(".") and not f.name.endswith(".crc")]
        bases = [f for f in data if f.suffix == ".parquet"]
        assert logs
        assert stats(read(spark, table))[0] == sum(f.stat().st_size for f in bases + logs)
        assert stats(read(spark, table, read_optimized=True))[0] == sum(f.stat().st_size for f in bases)


def test_the_size_follows_partitions_and_columns(spark: Any, hudi_table: Tables) -> None:
    df = read(spark, hudi_table("cow"))
    whole, one_partition, one_column = (stats(d)[0] for d in (df, df.where("region = 'r2'"), df.select("id")))
    assert 0 < one_partition < whole / 2
    assert 0 < one_column < whole / 5


@pytest.mark.parametrize("layout", ["hive_style", "unpartitioned"])
def test_rows_are_exact_without_log_files(spark: Any, hudi_table: Tables, layout: str) -> None:
    for kind in ("cow", "mor_compacted"):
        df = read(spark, hudi_table(kind, layout))
        assert stats(df)[1] == df.count() == ROWS
        pruned = df.where("region = 'r2'")
        if layout == "hive_style":
            assert stats(pruned)[1] == pruned.count() == ROWS / REGIONS


@pytest.mark.parametrize("kind", ["mor_logs", "mor_deletes"])
def test_rows_are_a_bound_with_log_files(spark: Any, hudi_table: Tables, kind: str) -> None:
    df = read(spark, hudi_table(kind))
    _, bound = stats(df)
    assert bound is not None
    assert df.count() <= bound <= ROWS + 40


def test_rows_are_absent_where_they_cannot_be_told(spark: Any, hudi_table: Tables, tmp_path: Path) -> None:
    table = hudi_table("cow")
    assert stats(read(spark, table, incremental_from=table.first_completion))[1] is None
    # A table whose first commit has left the timeline, as archiving does to old commits.
    shutil.copytree(table.path, tmp_path / "archived")
    for file in (tmp_path / "archived" / ".hoodie" / "timeline").glob(f"*{table.first_commit}*"):
        file.unlink()
    df = HudiTable(spark, str(tmp_path / "archived")).read(as_of=table.first_commit)
    assert df.count() == ROWS
    assert stats(df)[1] is None


def test_a_small_table_is_broadcast_and_a_large_one_is_not(spark: Any, hudi_table: Tables) -> None:
    df = read(spark, hudi_table("cow")).select("id", "name")
    other = spark.range(1000).selectExpr("id", "id * 2 AS twice").repartition(2)
    size = stats(df)[0]
    with settings(spark, spark__sql__autoBroadcastJoinThreshold=str(size), spark__sql__adaptive__enabled="false"):
        assert "BroadcastHashJoinExec" in nodes(other.join(df, "id"))
    with settings(spark, spark__sql__autoBroadcastJoinThreshold=str(100), spark__sql__adaptive__enabled="false"):
        assert "SortMergeJoinExec" in nodes(other.join(df, "id"))


def test_with_the_cost_based_optimizer_the_join_order_follows_row_counts(spark: Any, hudi_table: Tables) -> None:
    whole = read(spark, hudi_table("cow"))
    reader = HudiTable(spark, hudi_table("cow").path)

    def order(dsv2: bool) -> list[str]:
        a, b, c = (reader.read(dsv2=dsv2).select("id", "small", "region").alias(name) for name in "abc")
        joined = a.join(b, a["small"] == b["small"]).join(c.where("region = 'r1'"), a["id"] == c["id"])
        plan = joined.select(a["id"])._jdf.queryExecution().optimizedPlan()
        return [line for line in plan.toString().splitlines() if "Join Inner" in line]

    assert whole.count() == ROWS
    with settings(spark, spark__sql__cbo__enabled="true", spark__sql__cbo__joinReorder__enabled="true"):
        ours, theirs = order(True), order(False)
    # As written, the small table comes last; its row count lets the optimizer join it first.
    assert "small" in theirs[1]
    assert "id" in theirs[0]
    assert "small" in ours[0]
    assert "id" in ours[1]
