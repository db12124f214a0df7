"""What stays on V1 although the gate is open: it still reads right, and says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeshift.hudi.reader import GATE, HudiTable, read_paths
from tests.integration.hudi.plans import V2_SCAN, scans
from tests.integration.hudi.tables import ROWS, HudiFixture, completed_commits, options_of, rows, write

Tables = Callable[..., HudiFixture]


@pytest.fixture(autouse=True)
def _open_gate(_gate_unset: None, gate: Callable[[bool | None], None]) -> None:
    gate(True)


def test_streaming_reads_stay_on_v1(spark: Any, hudi_table: Tables, tmp_path: Path) -> None:
    stream = spark.readStream.format("hudi").load(hudi_table("cow").path)
    assert [(path.uses_v2, path.reason) for path in read_paths(stream)] == [(False, "streaming reads stay on V1")]
    query = (
        stream.writeStream.format("memory")
        .queryName("hudi_stream")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.table("hudi_stream").select("id").distinct().count() == ROWS


def test_change_data_capture_stays_on_v1(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "cdc"
    options = {**options_of("cow", "hive_style"), "hoodie.table.cdc.enabled": "true"}
    write(rows(spark, 0, 8), path, "upsert", **options)
    write(rows(spark, 6, 10, ts=2), path, "upsert", **options)
    first = completed_commits(path)[0][1]
    reader = HudiTable(spark, str(path))
    changes = reader.read(incremental_from=first, options={"hoodie.datasource.query.incremental.format": "cdc"})
    assert [(p.uses_v2, p.reason) for p in read_paths(changes)] == [(False, "change data capture queries stay on V1")]
    assert V2_SCAN not in scans(changes)
    assert sorted(row.op for row in changes.collect()) == ["i", "i", "u", "u"]


def test_bootstrap_tables_stay_on_v1(spark: Any, tmp_path: Path) -> None:
    rows(spark, 0, 12).drop("info", "tags", "labels", "at").write.partitionBy("region").parquet(
        str(tmp_path / "source")
    )
    path = tmp_path / "bootstrapped"
    bootstrap = {
        "hoodie.bootstrap.base.path": str(tmp_path / "source"),
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.datasource.write.partitionpath.field": "region",
    }
    write(spark.createDataFrame([], "id long"), path, "bootstrap", mode="overwrite", **bootstrap)
    reader = HudiTable(spark, str(path))
    assert reader.explain().reason == "bootstrap tables stay on V1"
    assert sorted(row.id for row in reader.read().select("id").collect()) == list(range(12))


def test_a_table_without_commits_stays_on_v1(spark: Any) -> None:
    spark.sql("CREATE TABLE never_written (id BIGINT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    try:
        df = spark.table("never_written")
        assert [(p.uses_v2, p.reason) for p in read_paths(df)] == [(False, "the table has no completed commit")]
        assert df.collect() == []
    finally:
        spark.sql("DROP TABLE never_written")


@pytest.mark.full
def test_other_base_file_formats_stay_on_v1(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "orc"
    plain = rows(spark, 0, 6).select("id", "name", "region", "ts")
    write(plain, path, "insert", **options_of("cow", "hive_style"), **{"hoodie.table.base.file.format": "ORC"})
    reader = HudiTable(spark, str(path))
    assert reader.explain().reason == "base files are ORC, V2 reads Parquet"
    assert reader.read().count() == 6


def test_other_formats_are_left_alone(spark: Any, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "parquet"))
    assert read_paths(spark.read.parquet(str(tmp_path / "parquet"))) == []


def test_the_gate_as_an_option_of_a_stream_changes_nothing(spark: Any, hudi_table: Tables) -> None:
    stream = spark.readStream.format("hudi").option(GATE, "true").load(hudi_table("cow").path)
    assert not read_paths(stream)[0].uses_v2
