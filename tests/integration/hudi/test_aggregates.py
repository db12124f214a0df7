"""COUNT, MIN and MAX from footers: only where they are exact, and then right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeshift.hudi.reader import HudiTable
from tests.integration.hudi.plans import files_read, text
from tests.integration.hudi.tables import ROWS, HudiFixture, options_of, rows, write

Tables = Callable[..., HudiFixture]

ANSWERED = (
    "count(*), min(id), max(id), count(small), min(small), max(small), min(day), max(day)",
    "count(score), count(name), max(id) + 1, count(*) * 2",
)
LEFT_TO_A_SCAN = (
    "max(score)",
    "min(name)",
    "max(amount)",
    "max(at)",
    "count(DISTINCT small)",
    "sum(id)",
    "min(region)",
)


def both(spark: Any, path: str, expressions: str, condition: str = "true", **arguments: Any) -> tuple[bool, Any]:
    """Whether footers answered, and the answer, which V1 must give as well."""
    reader = HudiTable(spark, path)
    ours, theirs = (
        reader.read(dsv2=dsv2, **arguments).where(condition).selectExpr(*expressions.split(", "))
        for dsv2 in (True, False)
    )
    found = ours.collect()
    assert list(map(repr, found)) == list(map(repr, theirs.collect()))
    assert ours.schema == theirs.schema
    return "HudiFooterScan" in text(ours), found[0]


@pytest.mark.parametrize("kind", ["cow", "mor_compacted"])
def test_footers_answer_what_they_hold(spark: Any, hudi_table: Tables, kind: str) -> None:
    for expressions in ANSWERED:
        from_footers, _ = both(spark, hudi_table(kind).path, expressions)
        assert from_footers, expressions


@pytest.mark.parametrize("expressions", LEFT_TO_A_SCAN)
def test_what_footers_do_not_tell_is_scanned(spark: Any, hudi_table: Tables, expressions: str) -> None:
    from_footers, _ = both(spark, hudi_table("cow").path, expressions)
    assert not from_footers


def test_partition_filters_narrow_the_footers_read(spark: Any, hudi_table: Tables) -> None:
    from_footers, answer = both(spark, hudi_table("cow").path, "count(*), min(id)", "region IN ('r1', 'r2')")
    assert from_footers
    assert tuple(answer) == (ROWS // 2, 1)
    df = HudiTable(spark, hudi_table("cow").path).read().where("region = 'r1'").selectExpr("count(*)")
    df.collect()
    assert files_read(df) == [1]


def test_other_filters_and_groups_need_a_scan(spark: Any, hudi_table: Tables) -> None:
    path = hudi_table("cow").path
    assert both(spark, path, "count(*)", "id > 7")[0] is False
    assert both(spark, path, "count(*)", "region = 'r1' AND small IS NOT NULL")[0] is False
    grouped = HudiTable(spark, path).read().groupBy("region").count()
    assert "HudiFooterScan" not in text(grouped)


def test_no_file_left_counts_nothing(spark: Any, hudi_table: Tables) -> None:
    _, answer = both(spark, hudi_table("cow").path, "count(*), max(id)", "region = 'nowhere'")
    assert tuple(answer) == (0, None)


@pytest.mark.parametrize("kind", ["mor_logs", "mor_deletes"])
def test_log_files_need_a_merge(spark: Any, hudi_table: Tables, kind: str) -> None:
    table = hudi_table(kind)
    assert both(spark, table.path, "count(*), max(id)")[0] is False
    # The same table without its log files is answered.
    assert both(spark, table.path, "count(*), max(id)", read_optimized=True)[0] is True
    assert both(spark, table.path, "count(*)", incremental_from=table.first_completion)[0] is False


def test_time_travel_counts_the_files_of_then(spark: Any, hudi_table: Tables) -> None:
    table = hudi_table("cow")
    from_footers, answer = both(spark, table.path, "count(*)", as_of=table.first_commit)
    assert from_footers
    assert answer[0] == ROWS


def test_columns_that_are_all_null_or_came_later(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "later"
    options = options_of("cow", "hive_style")
    first = rows(spark, 0, 8).selectExpr("id", "ts", "region", "CAST(NULL AS INT) AS empty")
    write(first, path, "bulk_insert", **options)
    write(
        first.selectExpr("id + 8 AS id", "ts", "'r9' AS region", "empty", "IF(id >= 0, id, NULL) AS later"),
        path,
        "bulk_insert",
        **options,
    )
    from_footers, answer = both(spark, str(path), "count(*), max(empty), count(empty), min(later), count(later)")
    assert from_footers
    assert tuple(answer) == (16, None, 0, 0, 8)


def test_a_column_chunk_without_statistics_is_read(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "plain.parquet"
    values = pa.table({"n": pa.array([5, None, -3, 12], pa.int32()), "s": pa.array(["a", None, None, "b"])})
    pq.write_table(values, file, write_statistics=False, row_group_size=2)
    jvm = spark.sparkContext._jvm
    package = jvm.org.apache.spark.sql.lakeshift.hudi
    reader = package.FooterReader(
        jvm.org.apache.hadoop.fs.Path(str(file)), jvm.org.apache.hadoop.conf.Configuration(), "CORRECTED"
    )
    integer = jvm.org.apache.spark.sql.types.DataType.fromDDL("n INT").apply(0).dataType()
    asked = [
        package.Smallest("n", integer),
        package.Largest("n", integer),
        package.NonNullCount("n"),
        package.NonNullCount("s"),
    ]
    row = reader.row(jvm.PythonUtils.toSeq(asked))
    assert [row.getInt(0), row.getInt(1), row.getLong(2), row.getLong(3)] == [-3, 12, 3, 2]
