"""What we append under any spec, read by Iceberg Java and PyIceberg; and the reverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.table import Table

import lakeshift
from lakeshift.iceberg.table import IcebergTable

Register = Callable[..., str]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, java_catalog: Register, spark: Any) -> lakeshift.Lake:
    warehouse = tmp_path_factory.mktemp("append-peers")
    name = java_catalog(warehouse)
    spark.sql(f"CREATE NAMESPACE {name}.db")
    return lakeshift.connect(name, spark=spark)


def rows(spark: Any, first: int, count: int = 48) -> Any:
    """Rows over two days and their hours, four regions and texts of several lengths."""
    return spark.range(first, first + count).selectExpr(
        "id",
        "timestamp_micros(1767225600000000 + (id % 48) * 3600000000) AS ts",
        "concat('r', id % 4) AS region",
        "repeat(chr(97 + CAST(id % 3 AS INT)), CAST(1 + id % 7 AS INT)) AS sku",
        "CAST(id AS DECIMAL(9,2)) / 2 AS price",
    )


COLUMNS = "id bigint, ts timestamp, region string, sku string, price decimal(9,2)"


def java_ids(spark: Any, table: str, where: str = "true") -> list[int]:
    return sorted(row.id for row in spark.sql(f"SELECT id FROM {table} WHERE {where}").collect())


def manifests_by_spec(table: Table) -> dict[int, int]:
    """How many manifests the last snapshot added for each spec."""
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    found: dict[int, int] = {}
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            found[manifest.partition_spec_id] = found.get(manifest.partition_spec_id, 0) + 1
    return found


STEPS = [
    "ADD PARTITION FIELD days(ts)",
    "ADD PARTITION FIELD bucket(16, id)",
    "DROP PARTITION FIELD days(ts)",
    "REPLACE PARTITION FIELD bucket(16, id) WITH truncate(2, sku)",
    "ADD PARTITION FIELD region",
]
FILTERS = {
    "region = 'r1'": lambda n: n % 4 == 1,
    "ts >= TIMESTAMP '2026-01-02 00:00:00'": lambda n: n % 48 >= 24,
    "id = 77": lambda n: n == 77,
    "sku = 'bb'": lambda n: n % 3 == 1 and n % 7 == 1,
    "sku LIKE 'c%'": lambda n: n % 3 == 2,
    "price < 5": lambda n: n / 2 < 5,
    "region = 'r2' AND ts < TIMESTAMP '2026-01-01 05:00:00' AND sku > 'b'": (
        lambda n: n % 4 == 2 and n % 48 < 5 and ("abc"[n % 3] * (1 + n % 7)) > "b"
    ),
}


def test_a_table_that_java_evolved_through_five_specs_is_written_under_each(spark: Any, lake: lakeshift.Lake) -> None:
    name = f"{lake.name}.db.evolved"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg TBLPROPERTIES ('commit.manifest-merge.enabled'='false')")
    for step in STEPS:
        spark.sql(f"ALTER TABLE {name} {step}")
    table = lake.iceberg("db.evolved")
    specs = sorted(table.table.specs())
    assert len(specs) == 6
    last = 0
    for spec_id in specs:
        result = table.append(rows(spark, last), spec_id=spec_id)
        assert set(result.by_spec) == {spec_id}
        assert manifests_by_spec(table.table) == {spec_id: 1}
        last += 48
    for where, chosen in FILTERS.items():
        expected = [number for number in range(last) if chosen(number)]
        assert java_ids(spark, name, where) == expected, where
        assert sorted(row.id for row in table.read(where=where, columns=["id"]).collect()) == expected, where
    assert _pyiceberg_ids(table, EqualTo("region", "r1")) == [n for n in range(last) if n % 4 == 1]
    day = And(GreaterThanOrEqual("ts", "2026-01-02T00:00:00+00:00"), LessThan("ts", "2026-01-03T00:00:00+00:00"))
    assert _pyiceberg_ids(table, day) == [n for n in range(last) if n % 48 >= 24]
    assert _pyiceberg_ids(table, EqualTo("id", 77)) == [77]
    _check_partitions(spark, name, last)

    # Java writes on, under its default spec, and compacts what we wrote.
    rows(spark, last).writeTo(name).append()
    spark.sql(
        f"CALL {lake.name}.system.rewrite_data_files(table => 'db.evolved', options => map('rewrite-all', 'true'))"
    )
    assert sorted(row.id for row in table.read().collect()) == list(range(last + 48))


def _pyiceberg_ids(table: IcebergTable, where: Any) -> list[int]:
    return sorted(table.refresh().table.scan(where, ("id",)).to_arrow().column("id").to_pylist())


def _check_partitions(spark: Any, name: str, last: int) -> None:
    """Java's own functions give, for the rows of each file, the partition values that its metadata has."""
    wrong = spark.sql(
        f"""WITH rows AS (SELECT _file, region, id, ts, sku FROM {name}),
            files AS (SELECT file_path, spec_id, partition FROM {name}.files)
        SELECT * FROM rows JOIN files ON _file = file_path WHERE
            (spec_id IN (1, 2) AND NOT partition.ts_day <=> date(ts)) OR
            (spec_id IN (2, 3) AND NOT partition.id_bucket_16 <=> {name.split(".")[0]}.system.bucket(16, id)) OR
            (spec_id IN (4, 5) AND NOT partition.sku_trunc_2 <=> {name.split(".")[0]}.system.truncate(2, sku)) OR
            (spec_id = 5 AND NOT partition.region <=> region)"""
    ).count()
    assert wrong == 0
    by_spec = spark.sql(f"SELECT spec_id, sum(record_count) AS n FROM {name}.files GROUP BY spec_id").collect()
    assert {row.spec_id: row.n for row in by_spec} == dict.fromkeys(range(6), 48)


@pytest.mark.once_first
@pytest.mark.parametrize(
    ("first", "add", "drop"),
    [
        (("day(ts)",), ["bucket(16, id)"], []),
        (("day(ts)", "bucket(16, id)"), [], ["id_bucket_16"]),
        (("bucket(16, id)",), ["bucket(32, id)"], ["id_bucket_16"]),
    ],
    ids=["a field added", "a field dropped", "16 buckets to 32"],
)
def test_an_evolved_table_takes_rows_under_its_new_and_its_old_spec(
    spark: Any, lake: lakeshift.Lake, first: tuple[str, ...], add: list[str], drop: list[str]
) -> None:
    table = lake.create_iceberg_table(f"db.example{len(lake.iceberg_tables())}", COLUMNS, first)
    table.append(rows(spark, 0))
    assert table.evolve_partitions(add=add, drop=drop) == 1
    assert set(table.append(rows(spark, 48)).by_spec) == {1}
    assert set(table.append(rows(spark, 96), spec_id=0).by_spec) == {0}
    name = f"{lake.name}.{table.name}"
    assert java_ids(spark, name) == list(range(144))
    assert java_ids(spark, name, "id IN (3, 50, 100)") == [3, 50, 100]
    assert java_ids(spark, name, "ts < TIMESTAMP '2026-01-01 02:00:00'") == [0, 1, 48, 49, 96, 97]
    assert [(spec.spec_id, spec.rows) for spec in table.refresh().layout()] == [(0, 96), (1, 48)]
    # What we made and evolved, Java writes on.
    rows(spark, 144).writeTo(name).append()
    assert java_ids(spark, name) == list(range(192))
    assert sorted(row.id for row in table.read(where="id >= 140").collect()) == list(range(140, 192))
