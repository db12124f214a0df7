"""One SQLite catalog for lakeshift and Iceberg's Java runtime: what either makes or evolves, the other sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakeshift
from lakeshift.errors import ConfigError

Register = Callable[..., str]


@pytest.fixture
def warehouse(tmp_path: Path, java_catalog: Register) -> tuple[str, Path]:
    return java_catalog(tmp_path), tmp_path


def _lake(name: str, warehouse: Path, spark: Any) -> lakeshift.Lake:
    # Nothing but the name is given: the rest comes from the session's spark.sql.catalog.* settings.
    return lakeshift.connect(name, spark=spark)


def _java_partitions(spark: Any, table: str) -> list[str]:
    rows = spark.sql(f"DESCRIBE TABLE {table}").collect()
    parts = [row.data_type for row in rows if row.col_name.startswith("Part ")]
    names = [row.col_name for row in rows]
    if not parts and "# Partition Information" in names:
        # Iceberg shows identity-only partitioning as Hive does: the columns under a second heading.
        parts = names[names.index("# Partition Information") + 2 :]
    return [part for part in parts if part]


def test_java_sees_what_lakeshift_creates_and_evolves(spark: Any, warehouse: tuple[str, Path]) -> None:
    name, folder = warehouse
    lake = _lake(name, folder, spark)
    spark.sql(f"CREATE NAMESPACE {name}.db")
    events = lake.create_iceberg_table(
        "db.events",
        "id bigint, ts timestamp, sku string, address struct<city: string>",
        partition_by=["day(ts)", "bucket(16, id)", "truncate(4, sku)", "address.city"],
    )
    table = f"{name}.db.events"
    assert _java_partitions(spark, table) == ["days(ts)", "bucket(16, id)", "truncate(4, sku)", "address.city"]
    spark.sql(f"INSERT INTO {table} VALUES (1, TIMESTAMP'2026-01-02 03:04:05', 'abcdef', struct('Oslo'))")

    assert events.evolve_partitions(drop=["day(ts)", "sku_trunc_4"], add=["hours(ts)"]) == 1
    assert _java_partitions(spark, table) == ["bucket(16, id)", "address.city", "hours(ts)"]
    spark.sql(f"INSERT INTO {table} VALUES (2, TIMESTAMP'2026-01-02 03:04:05', 'x', struct('Lima'))")

    assert [
        (row.spec_id, row.n)
        for row in spark.sql(
            f"SELECT spec_id, count(*) AS n FROM {table}.files GROUP BY spec_id ORDER BY spec_id"
        ).collect()
    ] == [(0, 1), (1, 1)]
    assert [(spec.spec_id, spec.rows) for spec in events.refresh().layout()] == [(0, 1), (1, 1)]
    assert [row.id for row in spark.sql(f"SELECT id FROM {table} WHERE ts >= '2026-01-02' ORDER BY id").collect()] == [
        1,
        2,
    ]


def test_lakeshift_sees_what_java_creates_and_evolves(spark: Any, warehouse: tuple[str, Path]) -> None:
    name, folder = warehouse
    table = f"{name}.db.orders"
    spark.sql(f"CREATE NAMESPACE {name}.db")
    spark.sql(f"CREATE TABLE {table} (id BIGINT, ts TIMESTAMP, region STRING) USING iceberg PARTITIONED BY (days(ts))")
    spark.sql(f"INSERT INTO {table} VALUES (1, TIMESTAMP'2026-01-02 00:00:00', 'eu')")
    lake = _lake(name, folder, spark)
    orders = lake.iceberg("db.orders")
    assert lake.iceberg_tables() == ["db.orders"]
    assert [spec.fields for spec in orders.layout()] == [("day(ts)",)]

    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD region")
    spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD days(ts)")
    spark.sql(f"INSERT INTO {table} VALUES (2, TIMESTAMP'2026-01-03 00:00:00', 'us')")
    orders.refresh()
    assert [(spec.fields, spec.rows) for spec in orders.layout()] == [
        (("day(ts)",), 1),
        (("day(ts)", "region"), 0),
        (("region",), 1),
    ]
    # Back to the first partitioning: the spec of old, not a copy, and Java agrees.
    assert orders.evolve_partitions(drop=["region"], add=["day(ts)"]) == 0
    assert _java_partitions(spark, table) == ["days(ts)"]


def test_an_evolved_v1_table_keeps_void_fields_in_both(spark: Any, warehouse: tuple[str, Path]) -> None:
    name, folder = warehouse
    spark.sql(f"CREATE NAMESPACE {name}.db")
    lake = _lake(name, folder, spark)
    old = lake.create_iceberg_table("db.old", "id bigint, region string", ["region"], {"format-version": "1"})
    spark.sql(f"INSERT INTO {name}.db.old VALUES (1, 'eu')")
    old.evolve_partitions(drop=["region"], add=["bucket(4, id)"])
    spark.sql(f"INSERT INTO {name}.db.old VALUES (2, 'us')")
    assert [spec.fields for spec in old.refresh().layout()] == [("region",), ("void(region)", "bucket(4, id)")]
    assert [row.id for row in spark.sql(f"SELECT id FROM {name}.db.old WHERE region = 'us'").collect()] == [2]


def test_a_table_that_java_dropped_is_named_as_missing(spark: Any, warehouse: tuple[str, Path]) -> None:
    name, folder = warehouse
    spark.sql(f"CREATE NAMESPACE {name}.db")
    lake = _lake(name, folder, spark)
    lake.create_iceberg_table("db.here", "id bigint")
    lake.create_iceberg_table("db.gone", "id bigint")
    spark.sql(f"DROP TABLE {name}.db.gone")
    with pytest.raises(ConfigError, match="no table 'db.gone'.*tables there: db.here"):
        lake.iceberg("db.gone")
