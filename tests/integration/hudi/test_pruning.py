"""What is not read: partitions, files, columns, rows past a limit, and exchanges computed twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as f

from lakeshift.hudi.reader import HudiTable
from tests.conftest import FULL
from tests.integration.hudi.conftest import VECTORIZED
from tests.integration.hudi.plans import _scan_nodes, files_read, nodes, text
from tests.integration.hudi.tables import REGIONS, ROWS, HudiFixture, options_of, rows, write
from tests.integration.hudi.test_statistics import settings

Tables = Callable[..., HudiFixture]


FILES_OF_CONDITIONS = {
    "region = 'r1'": 1,
    "region IN ('r1', 'r3')": 2,
    "region > 'r1' AND id > 10": 2,
    "region LIKE 'r%' AND region <> 'r0'": 3,
    "region = 'r1' OR id = 4": 4,
    "region = 'nowhere'": 0,
    "upper(region) = 'R2'": 1,
}


@pytest.mark.parametrize("layout", ["hive_style", *(["plain_partitions"] if FULL else [])])
def test_partition_filters_leave_out_files(spark: Any, hudi_table: Tables, layout: str) -> None:
    reader = HudiTable(spark, hudi_table("cow", layout).path)
    ours, theirs = (reader.read(dsv2=dsv2).select("id", "region") for dsv2 in (True, False))
    for condition, files in FILES_OF_CONDITIONS.items():
        found = ours.where(condition)
        ids = {row.id for row in found.collect()}
        assert ids == {row.id for row in theirs.where(condition).collect()}, condition
        assert sum(files_read(found)) == files, condition


@pytest.mark.parametrize("kind", ["cow", "mor_logs"])
def test_dynamic_partition_pruning_skips_files(spark: Any, hudi_table: Tables, kind: str) -> None:
    regions = spark.range(REGIONS).selectExpr("concat('r', id) AS region", "id AS label")
    facts = HudiTable(spark, hudi_table(kind).path).read()
    joined = facts.join(f.broadcast(regions.where("label = 2")), "region").select("id", "label")
    assert len(joined.collect()) == ROWS / REGIONS
    assert "dynamicpruning" in text(joined)
    assert files_read(joined) == [1]


@pytest.mark.parametrize("kind", ["cow", "mor_compacted"])
def test_a_limit_reads_only_as_many_files_as_it_needs(spark: Any, hudi_table: Tables, kind: str) -> None:
    df = HudiTable(spark, hudi_table(kind).path).read()
    one, two = df.limit(3), df.limit(ROWS // REGIONS + 1)
    assert (len(one.collect()), files_read(one)) == (3, [1])
    assert (len(two.collect()), files_read(two)) == (ROWS // REGIONS + 1, [2])
    pruned = df.where("region = 'r3'").select("id").limit(5)
    assert {row.id % REGIONS for row in pruned.collect()} == {3}


def test_a_limit_over_log_files_still_gives_its_rows(spark: Any, hudi_table: Tables) -> None:
    table = hudi_table("mor_deletes")
    df = HudiTable(spark, table.path).read()
    assert len(df.limit(200).collect()) == 200
    assert len(df.limit(10_000).collect()) == ROWS - 20
    fresh = HudiTable(spark, table.path).read(incremental_from=table.first_completion)
    assert len(fresh.limit(7).collect()) == 7


def test_nested_fields_are_read_alone(spark: Any, hudi_table: Tables) -> None:
    df = HudiTable(spark, hudi_table("cow").path).read().select("info.geo.lat")
    (scan,) = _scan_nodes(df._jdf.queryExecution().executedPlan())
    assert scan.scan().readSchema().simpleString() == "struct<info:struct<geo:struct<lat:double>>,region:string>"


def test_data_filters_reach_the_reader(spark: Any, hudi_table: Tables) -> None:
    df = HudiTable(spark, hudi_table("cow").path).read().where("id > 100 AND name = 'name7'")
    assert "pushed filters: [GreaterThan(id,100), EqualTo(name,name7)]" in text(df)
    assert df.count() == 0


def test_column_statistics_of_the_metadata_table_skip_files(spark: Any, tmp_path: Path) -> None:
    indexed = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    slots = rows(spark, 0, ROWS).selectExpr("id", f"CAST(id % {REGIONS} AS INT) AS slot", "region", "ts")
    write(slots, tmp_path / "indexed", "bulk_insert", **{**options_of("cow", "hive_style"), **indexed})
    reader = HudiTable(spark, str(tmp_path / "indexed"))
    df = reader.read(options={"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"})
    found = df.where("slot = 3").select("id")
    assert found.count() == ROWS / REGIONS
    skipping = found.agg(f.max("id"))
    skipping.collect()
    assert files_read(skipping) == [1]


def test_two_loads_of_one_table_share_an_exchange(spark: Any, hudi_table: Tables) -> None:
    reader = HudiTable(spark, hudi_table("mor_logs").path)
    sums = [reader.read().where("id > 5").groupBy("region").agg(f.sum("id").alias("total")) for _ in range(2)]
    other = reader.read().where("id > 6").groupBy("region").agg(f.sum("id").alias("total"))
    with settings(spark, spark__sql__autoBroadcastJoinThreshold="-1"):
        same = sums[0].alias("a").join(sums[1].alias("b"), "region")
        assert same.where("a.total <> b.total").count() == 0
        rerun = same.select("region", "a.total", "b.total")
        rerun.collect()
        assert "ReusedExchangeExec" in nodes(rerun)
        different = sums[0].alias("a").join(other.alias("b"), "region").select("region", "a.total", "b.total")
        different.collect()
        assert "ReusedExchangeExec" not in nodes(different)


def test_input_file_name_tells_the_file(spark: Any, hudi_table: Tables) -> None:
    reader = HudiTable(spark, hudi_table("cow").path)
    ours, theirs = (
        reader.read(dsv2=dsv2).select(f.input_file_name().alias("file")).distinct().collect() for dsv2 in (True, False)
    )
    assert sorted(ours) == sorted(theirs)
    assert len(ours) == REGIONS


def test_vectorized_reads_stay_on_after_incremental_ones(spark: Any, hudi_table: Tables) -> None:
    """V1 leaves the session's setting off after an incremental read; V2 puts it back."""
    table = hudi_table("cow")
    reader = HudiTable(spark, table.path)
    reader.read(incremental_from=table.first_completion).collect()
    assert spark.conf.get(VECTORIZED) == "true"
    assert "ColumnarToRowExec" in nodes(reader.read().select("id"))
    # V2 cannot tell what V1 left behind from what the user has set, and keeps to it.
    reader.read(dsv2=False, incremental_from=table.first_completion).collect()
    assert spark.conf.get(VECTORIZED) == "false"
    assert "ColumnarToRowExec" not in nodes(reader.read().select("id"))


def test_partitions_by_a_formatted_timestamp_read_alike(spark: Any, tmp_path: Path) -> None:
    """The path holds the day of a value, not the value: such partitions take no part in dynamic pruning."""
    generator = {
        **options_of("cow", "plain_partitions"),
        "hoodie.datasource.write.partitionpath.field": "moment",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
    }
    moments = spark.range(0, 40, numPartitions=1).selectExpr(
        "id", "1767225600000 + id * 10000000 AS moment", "id AS ts"
    )
    write(moments, tmp_path / "moments", "bulk_insert", **generator)
    reader = HudiTable(spark, str(tmp_path / "moments"))
    some = f.broadcast(moments.where("id = 7").select("moment"))
    for shape in (
        lambda df: df.select("id", "moment"),
        lambda df: df.where("moment > 1767425600000").select("id"),
        lambda df: df.selectExpr("count(*)", "max(id)"),
    ):
        ours, theirs = (sorted(map(repr, shape(reader.read(dsv2=dsv2)).collect())) for dsv2 in (True, False))
        assert ours == theirs
    # V1 does prune here, by comparing the value with the path's day, and finds no row.
    assert [row.id for row in reader.read().join(some, "moment").select("id").collect()] == [7]
