"""COUNT, MIN and MAX from footers: only where they are exact, and then right."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from lakeshift.hudi.reader import HudiTable
from tests.integration.hudi.plans import files_read, footer_scans, rows_scanned
from tests.integration.hudi.tables import REGIONS, ROWS, HudiFixture, options_of, rows, write
from tests.integration.hudi.test_statistics import settings, stats

FOOTERS_ON_DRIVER = "spark.lakeshift.hudi.footersOnDriver"

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


def both(spark: Any, path: str, expressions: str, condition: str = "true", **arguments: Any) -> tuple[str, Any]:
    """Who read footers ("driver", "tasks" or "nobody"), and the answer, which V1 must give as well."""
    ours, theirs = (
        loaded(spark, path, dsv2=dsv2, **arguments).where(condition).selectExpr(*expressions.split(", "))
        for dsv2 in (True, False)
    )
    found = ours.collect()
    assert list(map(repr, found)) == list(map(repr, theirs.collect()))
    assert ours.schema == theirs.schema
    return who_read_footers(ours), found[0]


@functools.cache
def loaded(spark: Any, path: str, **arguments: Any) -> DataFrame:
    """Loaded once for many questions: its files are listed by Hudi when it is first asked, in jobs that take time."""
    return HudiTable(spark, path).read(**arguments)


def who_read_footers(df: DataFrame) -> str:
    found = footer_scans(df)
    if not found:
        return "nobody"
    return "driver" if all("on the driver" in scan for scan in found) else "tasks"


def last_job(spark: Any) -> int:
    """The number of the job that was started last, once the listeners have heard of all."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    return int(context.statusStore().jobsList(None).head().jobId())  # the newest is first


@pytest.mark.parametrize("kind", ["cow", "mor_compacted"])
def test_footers_answer_what_they_hold(spark: Any, hudi_table: Tables, kind: str) -> None:
    for expressions in ANSWERED:
        assert both(spark, hudi_table(kind).path, expressions)[0] == "driver", expressions


def test_the_driver_answers_without_a_job(spark: Any, hudi_table: Tables) -> None:
    df = HudiTable(spark, hudi_table("cow").path).read()
    assert df.selectExpr("count(*)").first() == (ROWS,)  # the files are listed now, by jobs of Hudi's
    before = last_job(spark)
    assert df.selectExpr("count(*) + 1", "max(id)", "concat('#', min(small))").collect() == [(ROWS + 1, ROWS - 1, "#1")]
    assert last_job(spark) == before
    df.selectExpr("max(name)").collect()
    assert last_job(spark) > before


def test_answers_are_parts_of_larger_queries(spark: Any, hudi_table: Tables) -> None:
    """Where a query does more with the answer than to show it, Spark plans the rest as always."""
    df = HudiTable(spark, hudi_table("cow").path).read()
    df.createOrReplaceTempView("answered")
    query = """
        SELECT count(*) + (SELECT max(id) FROM answered) AS a, count(*) + 0 * round(rand()) AS b FROM answered
        UNION ALL SELECT id, max FROM range(2) JOIN (SELECT max(id) AS max FROM answered) WHERE max > id
    """
    try:
        found = spark.sql(query)
        assert sorted(found.collect()) == [(0, ROWS - 1.0), (1, ROWS - 1.0), (2 * ROWS - 1, ROWS)]
        assert who_read_footers(found) == "driver"
        # One row of a few bytes, which a join may broadcast.
        assert stats(df.selectExpr("count(*)")) == (8, 1)
    finally:
        spark.catalog.dropTempView("answered")


def test_more_files_than_the_driver_should_read_go_to_tasks(spark: Any, hudi_table: Tables) -> None:
    path = hudi_table("cow").path
    with settings(spark, **{FOOTERS_ON_DRIVER: str(REGIONS - 1)}):
        for expressions in ANSWERED:
            assert both(spark, path, expressions)[0] == "tasks"
        df = HudiTable(spark, path).read().selectExpr("count(*)")
        assert df.collect() == [(ROWS,)]
        # Four files, two cores: two tasks, of one row each.
        assert (files_read(df), rows_scanned(df)) == ([REGIONS], [2])
        assert both(spark, path, "count(*)", "region = 'r1'")[0] == "driver"
        assert both(spark, path, "count(*), max(id)", "region = 'nowhere'")[1] == (0, None)
    with (
        settings(spark, **{FOOTERS_ON_DRIVER: "many"}),
        pytest.raises(Exception, match="is 'many'; set it to a number"),
    ):
        both(spark, path, "count(*)")


@pytest.mark.parametrize("expressions", LEFT_TO_A_SCAN)
def test_what_footers_do_not_tell_is_scanned(spark: Any, hudi_table: Tables, expressions: str) -> None:
    assert both(spark, hudi_table("cow").path, expressions)[0] == "nobody"


def test_partition_filters_narrow_the_footers_read(spark: Any, hudi_table: Tables) -> None:
    answered_by, answer = both(spark, hudi_table("cow").path, "count(*), min(id)", "region IN ('r1', 'r2')")
    assert answered_by == "driver"
    assert tuple(answer) == (ROWS // 2, 1)
    df = HudiTable(spark, hudi_table("cow").path).read().where("region = 'r1'").selectExpr("count(*)")
    assert ["files: 1," in scan for scan in footer_scans(df)] == [True]


def test_other_filters_and_groups_need_a_scan(spark: Any, hudi_table: Tables) -> None:
    path = hudi_table("cow").path
    assert both(spark, path, "count(*)", "id > 7")[0] == "nobody"
    assert both(spark, path, "count(*)", "region = 'r1' AND small IS NOT NULL")[0] == "nobody"
    grouped = HudiTable(spark, path).read().groupBy("region").count()
    assert who_read_footers(grouped) == "nobody"


def test_no_file_left_counts_nothing(spark: Any, hudi_table: Tables) -> None:
    answered_by, answer = both(spark, hudi_table("cow").path, "count(*), max(id)", "region = 'nowhere'")
    assert (answered_by, tuple(answer)) == ("driver", (0, None))


@pytest.mark.parametrize("kind", ["mor_logs", "mor_deletes"])
def test_log_files_need_a_merge(spark: Any, hudi_table: Tables, kind: str) -> None:
    table = hudi_table(kind)
    assert both(spark, table.path, "count(*), max(id)")[0] == "nobody"
    # The same table without its log files is answered.
    assert both(spark, table.path, "count(*), max(id)", read_optimized=True)[0] == "driver"
    assert both(spark, table.path, "count(*)", incremental_from=table.first_completion)[0] == "nobody"


def test_time_travel_counts_the_files_of_then(spark: Any, hudi_table: Tables) -> None:
    table = hudi_table("cow")
    answered_by, answer = both(spark, table.path, "count(*)", as_of=table.first_commit)
    assert (answered_by, answer[0]) == ("driver", ROWS)


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
    answered_by, answer = both(spark, str(path), "count(*), max(empty), count(empty), min(later), count(later)")
    assert (answered_by, tuple(answer)) == ("driver", (16, None, 0, 0, 8))


def test_columns_without_statistics_are_read_in_tasks(spark: Any, hudi_table: Tables, tmp_path: Path) -> None:
    """As other writers may leave them: the driver reads no data, and a count of rows needs none."""
    path = tmp_path / "bare"
    shutil.copytree(hudi_table("cow").path, path)
    bases = list(path.glob("region=r[12]/*.parquet"))
    for file in bases:
        pq.write_table(pq.read_table(file, partitioning=None), file, write_statistics=False, row_group_size=7)
        file.with_name(f".{file.name}.crc").unlink()
    assert bases
    answered_by, answer = both(spark, str(path), "min(id), max(small), min(day), count(small), count(name), count(*)")
    assert (answered_by, answer[0], answer[-1]) == ("tasks", 0, ROWS)
    assert both(spark, str(path), "count(*)")[0] == "driver"


def test_a_file_that_is_gone_is_an_error_or_skipped_as_asked(spark: Any, hudi_table: Tables, tmp_path: Path) -> None:
    path = tmp_path / "cleaned"
    shutil.copytree(hudi_table("cow").path, path)
    df = HudiTable(spark, str(path)).read()
    assert df.selectExpr("count(*)").first() == (ROWS,)  # its files are listed now
    for file in path.glob("region=r1/*.parquet"):
        file.unlink()
    with pytest.raises(Exception, match="FileNotFound|does not exist"):
        df.selectExpr("count(*)").collect()
    with settings(spark, **{"spark.sql.files.ignoreMissingFiles": "true"}):
        assert df.selectExpr("count(*)").first() == (ROWS * 3 // 4,)
