"""`IcebergTable.read` beside Iceberg Java's reader, on tables that Java wrote, evolved and deleted from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, ListType, LongType, NestedField, UUIDType

import lakeshift
from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.read import plan_read
from tests.conftest import FULL
from tests.peer_iceberg import PeerTable

MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
)


@dataclass
class Lake:
    """One warehouse that Java writes and lakeshift reads."""

    spark: Any
    name: str
    lake: lakeshift.Lake
    folder: Path

    def sql(self, text: str) -> Any:
        return self.spark.sql(text.replace("lake.", f"{self.name}."))

    def ours(self, table: str, **read: Any) -> Counter[str]:
        return _bag(self.lake.iceberg(table).read(**read))

    def java(self, query: str) -> Counter[str]:
        return _bag(self.sql(query))

    def planned(self, table: str, **read: Any) -> tuple[int, int]:
        """How many files a read would open, of how many."""
        opened = self.lake.iceberg(table).table
        plan = plan_read(opened.metadata, opened.io, **read, session_time_zone="UTC")
        return len(plan.scan.files), plan.scan.live_files

    def snapshots(self, table: str) -> list[int]:
        return [snapshot.snapshot_id for snapshot in self.lake.iceberg(table).table.metadata.snapshots]


def _bag(frame: Any) -> Counter[str]:
    return Counter(repr(row) for row in frame.collect())


@pytest.fixture(scope="module")
def lake(spark: Any, java_catalog: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("lake")
    name = java_catalog(folder)
    made = Lake(spark, name, lakeshift.connect(name, spark=spark), folder)
    made.sql("CREATE NAMESPACE lake.db")
    return made


@pytest.fixture(scope="module")
def evolved(lake: Lake) -> str:
    """Three specs and a schema that changed between them, with deletes of every kind."""
    table = "db.evolved"
    lake.sql(
        f"CREATE TABLE lake.{table} (id INT NOT NULL, ts TIMESTAMP, region STRING, amount FLOAT, gone STRING, "
        "st STRUCT<a: INT, b: STRING>, tags ARRAY<STRUCT<k: INT, v: STRING>>, props MAP<STRING, STRUCT<n: FLOAT>>, "
        f"price DECIMAL(7, 2)) USING iceberg TBLPROPERTIES ('format-version'='2', {MERGE_ON_READ})"
    )
    _insert(lake, table, 0)
    lake.sql(f"ALTER TABLE lake.{table} ADD PARTITION FIELD region")
    _insert(lake, table, 20)
    for change in (
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN amount TYPE DOUBLE",
        "ALTER COLUMN price TYPE DECIMAL(12, 2)",
        "RENAME COLUMN amount TO total",
        "RENAME COLUMN st.b TO bb",
        "ADD COLUMN st.c DOUBLE",
        "ALTER COLUMN st.a TYPE BIGINT",
        "ADD COLUMN tags.element.w INT",
        "RENAME COLUMN tags.element.v TO vv",
        "ALTER COLUMN props.value.n TYPE DOUBLE",
        "ADD COLUMN added STRING AFTER id",
        "ADD PARTITION FIELD days(ts)",
    ):
        lake.sql(f"ALTER TABLE lake.{table} {change}")
    lake.sql(
        f"INSERT INTO lake.{table} SELECT /*+ COALESCE(1) */ id, 'new', {_TS}, {_REGION}, id * 2.5D, string(id), "
        "IF(id % 7 = 0, NULL, named_struct('a', id, 'bb', 'x', 'c', 1.5D)), "
        "array(named_struct('k', 1, 'vv', 'y', 'w', 5)), map('key', named_struct('n', 2.5D)), decimal(id) / 4 "
        "FROM range(40, 60)"
    )
    peer = PeerTable(lake.spark, f"{lake.name}.{table}")
    # By position, over all specs; then by equality: by columns that were widened, by several, in Avro.
    lake.sql(f"DELETE FROM lake.{table} WHERE id % 10 = 3")
    peer.delete_equal("price", rows={"id": 4}, spec_id=0)
    peer.delete_equal("id", rows={"id": 45}, spec_id=0)
    peer.delete_equal("region", "ts", rows={"id": 26}, spec_id=1)
    peer.delete_equal("id", rows={"id": 27}, spec_id=1, file_format="AVRO")
    lake.sql(f"DELETE FROM lake.{table} WHERE id IN (1, 21, 41)")
    lake.sql(f"ALTER TABLE lake.{table} DROP COLUMN gone")
    # Newer than the deletes, which do not apply to it.
    lake.sql(
        f"INSERT INTO lake.{table} SELECT id, NULL, ts, region, NULL, NULL, NULL, NULL, NULL FROM VALUES "
        "(4L, TIMESTAMP '2026-01-01 00:00:00', 'eu'), (45L, NULL, NULL), (3L, TIMESTAMP '2026-02-01 00:00:00', 'us') "
        "AS t(id, ts, region)"
    )
    return table


_TS = "TIMESTAMP '2026-01-01 12:00:00' + make_dt_interval(int(id % 3))"
_REGION = "CASE id % 4 WHEN 0 THEN 'eu' WHEN 1 THEN 'us' WHEN 2 THEN 'ap' END"


def _insert(lake: Lake, table: str, first: int) -> None:
    lake.sql(
        f"INSERT INTO lake.{table} SELECT /*+ COALESCE(1) */ int(id), {_TS}, {_REGION}, float(id) / 2, string(id), "
        "IF(id % 7 = 0, NULL, named_struct('a', int(id), 'b', 'x')), array(named_struct('k', 1, 'v', 'y'), NULL), "
        f"map('key', named_struct('n', float(id))), decimal(id) / 4 FROM range({first}, {first + 20})"
    )


CONDITIONS = [
    "NOT (region IN ('eu', 'us') OR id = 3)",
    "ts >= '2026-01-02' AND ts < TIMESTAMP '2026-01-03 00:00:00' AND region <> 'eu'",
    "total > 12.5 AND upper(region) = 'US'",
    "st.c = 1.5 OR price >= 5.25",
    "id IN (3, 4, 45, NULL) OR (region IS NULL AND added IS NULL)",
]
MORE_CONDITIONS = [
    "id < 25",
    "region = 'eu'",
    "region IS NULL AND id > 30",
    "region <> 'eu'",
    "added IS NULL",
    "st.a BETWEEN 10 AND 50",
    "size(tags) = 2 AND region LIKE 'e%'",
]


@pytest.mark.parametrize("columns", [None, ["total", "id"], ["region"], ["props", "added", "st"]])
def test_an_evolved_table_with_all_kinds_of_deletes_reads_as_java_reads_it(
    lake: Lake, evolved: str, columns: list[str] | None
) -> None:
    chosen = ", ".join(columns or ["*"])
    expected = lake.java(f"SELECT {chosen} FROM lake.{evolved}")
    assert lake.ours(evolved, columns=columns) == expected
    assert sum(expected.values()) == 49


@pytest.mark.once_first
def test_conditions_take_the_rows_that_java_takes(lake: Lake, evolved: str) -> None:
    for where in [*CONDITIONS, *(MORE_CONDITIONS if FULL else ())]:
        expected = lake.java(f"SELECT id, price FROM lake.{evolved} WHERE {where}")
        assert expected, where
        assert lake.ours(evolved, columns=["id", "price"], where=where) == expected, where
    from pyspark.sql import functions

    column = (functions.col("total") > 12.5) & functions.col("region").startswith("u")
    assert lake.ours(evolved, columns=["id"], where=column) == lake.java(
        f"SELECT id FROM lake.{evolved} WHERE total > 12.5 AND region LIKE 'u%'"
    )


def test_the_frame_has_spark_s_schema_of_the_table(lake: Lake, evolved: str) -> None:
    found, expected = lake.lake.iceberg(evolved).read().schema, lake.sql(f"SELECT * FROM lake.{evolved}").schema
    assert found.simpleString() == expected.simpleString()
    assert [(field.name, field.nullable) for field in found] == [(field.name, field.nullable) for field in expected]
    assert not found["id"].nullable


@pytest.mark.once_last
def test_files_that_cannot_match_are_not_opened(lake: Lake, evolved: str) -> None:
    opened, live = lake.planned(evolved)
    assert opened == live
    assert lake.planned(evolved, where="region = 'eu' AND id >= 40")[0] <= 4
    assert lake.planned(evolved, where="ts < '2020-01-01'") == (0, live)
    assert lake.planned(evolved, where="ID = 1000") == (0, live)
    # What only Spark can decide opens everything.
    assert lake.planned(evolved, where="upper(region) = 'EU'") == (live, live)
    assert lake.ours(evolved, where="id = 1000") == Counter()


@pytest.mark.once_last
def test_what_does_not_exist_is_named_before_anything_runs(lake: Lake, evolved: str) -> None:
    table = lake.lake.iceberg(evolved)
    for read, said in [
        ({"columns": ["nobody"]}, "The column 'nobody' does not exist; top-level columns are: id, added"),
        ({"columns": []}, "columns must be a list of column names"),
        ({"columns": ["id", "ID"]}, "'ID' was asked for twice"),
        ({"where": "nobody = 1"}, "'nobody' of the condition does not exist; there are: id, added"),
        ({"snapshot_id": 17}, f"has no snapshot 17; it has: {lake.snapshots(evolved)[0]}"),
        ({"from_snapshot_id": 17}, "has no snapshot 17"),
    ]:
        with pytest.raises(ConfigError, match=said):
            table.read(**read)


@pytest.mark.once_last
def test_names_follow_spark_s_case_sensitivity(lake: Lake, evolved: str) -> None:
    assert lake.ours(evolved, columns=["ID"], where="ReGion = 'eu'") == lake.java(
        f"SELECT id FROM lake.{evolved} WHERE region = 'eu'"
    )
    lake.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(ConfigError, match="'ID' does not exist"):
            lake.lake.iceberg(evolved).read(columns=["ID"])
    finally:
        lake.spark.conf.set("spark.sql.caseSensitive", "false")


@pytest.mark.once_first
def test_time_travel_reads_with_the_schema_of_the_time(lake: Lake, evolved: str) -> None:
    first, second = lake.snapshots(evolved)[:2]
    for snapshot in (first, second):
        expected = lake.java(f"SELECT * FROM lake.{evolved}.snapshot_id_{snapshot}")
        assert lake.ours(evolved, snapshot_id=snapshot) == expected
    where = "amount > 3.5 AND gone <> '9'"
    # Plain rows: Iceberg 1.11 looks for a filter's columns in the current schema, and fails.
    whole = lake.sql(f"SELECT gone, amount FROM lake.{evolved}.snapshot_id_{second}")
    expected = _bag(lake.spark.createDataFrame(whole.collect(), whole.schema).filter(where))
    assert sum(expected.values()) > 10
    assert lake.ours(evolved, columns=["gone", "amount"], where=where, snapshot_id=second) == expected
    with pytest.raises(ConfigError, match="'amount' of the condition does not exist"):
        lake.lake.iceberg(evolved).read(where="amount > 3.5")


@pytest.mark.once_last
def test_appends_are_read_incrementally(lake: Lake) -> None:
    table = "db.growing"
    lake.sql(f"CREATE TABLE lake.{table} (id BIGINT, region STRING) USING iceberg")
    for first, added in ((0, ""), (10, ", 1"), (20, ", 1, 2")):
        lake.sql(f"INSERT INTO lake.{table} SELECT id, 'eu'{added} FROM range({first}, {first + 10})")
        lake.sql(f"ALTER TABLE lake.{table} ADD COLUMN c{first} INT")
    lake.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
    ).collect()
    lake.sql(f"INSERT INTO lake.{table} SELECT id, 'us', 1, 2, 3 FROM range(30, 40)")
    snapshots = lake.snapshots(table)
    assert len(snapshots) == 5

    def ids(**read: Any) -> list[int]:
        return sorted(row.id for row in lake.lake.iceberg(table).read(**read).collect())

    assert ids(from_snapshot_id=snapshots[0]) == list(range(10, 40))
    assert ids(from_snapshot_id=snapshots[0], snapshot_id=snapshots[2]) == list(range(10, 30))
    assert ids(from_snapshot_id=snapshots[2], where="region = 'us'") == list(range(30, 40))
    assert ids(from_snapshot_id=snapshots[4]) == []
    options = {"start-snapshot-id": str(snapshots[0]), "end-snapshot-id": str(snapshots[4])}
    java = lake.spark.read.format("iceberg").options(**options).load(f"{lake.name}.{table}")
    assert lake.ours(table, from_snapshot_id=snapshots[0], snapshot_id=snapshots[4]) == _bag(java)
    with pytest.raises(ConfigError, match=f"{snapshots[2]} is not an ancestor of snapshot {snapshots[1]}"):
        ids(from_snapshot_id=snapshots[2], snapshot_id=snapshots[1])
    lake.sql(f"DELETE FROM lake.{table} WHERE id = 35")
    changed = lake.snapshots(table)[-1]
    with pytest.raises(ConfigError, match=f"Snapshot {changed}, after {snapshots[0]}, is overwrite"):
        ids(from_snapshot_id=snapshots[0])


@pytest.mark.once_first
def test_rows_of_a_partition_whose_column_was_dropped_are_read(lake: Lake) -> None:
    table = "db.dropped"
    lake.sql(
        f"CREATE TABLE lake.{table} (id BIGINT, region STRING, n INT) USING iceberg PARTITIONED BY (region) "
        f"TBLPROPERTIES ('format-version'='2', {MERGE_ON_READ})"
    )
    lake.sql(f"INSERT INTO lake.{table} SELECT id, IF(id < 5, 'eu', NULL), int(id) FROM range(10)")
    lake.sql(f"DELETE FROM lake.{table} WHERE id = 7")
    PeerTable(lake.spark, f"{lake.name}.{table}").delete_equal("n", rows={"id": 2})
    lake.sql(f"ALTER TABLE lake.{table} DROP PARTITION FIELD region")
    lake.sql(f"ALTER TABLE lake.{table} DROP COLUMN region")
    lake.sql(f"INSERT INTO lake.{table} VALUES (2, 2), (11, NULL)")
    for where in ("id >= 0", "n < 6", "n IS NULL"):
        assert lake.ours(table, where=where) == lake.java(f"SELECT * FROM lake.{table} WHERE {where}")
    assert sum(lake.ours(table).values()) == 10


@pytest.mark.once_last
def test_equality_deletes_outlive_the_column_they_compare(lake: Lake) -> None:
    table = "db.forgotten"
    lake.sql(f"CREATE TABLE lake.{table} (id BIGINT, note STRING) USING iceberg TBLPROPERTIES ('format-version'='2')")
    lake.sql(f"INSERT INTO lake.{table} SELECT /*+ COALESCE(1) */ id, IF(id % 3 = 0, NULL, string(id)) FROM range(9)")
    peer = PeerTable(lake.spark, f"{lake.name}.{table}")
    peer.delete_equal("note", rows={"id": 2})
    peer.delete_equal("note", rows={"note": None, "id": 3})
    expected = lake.java(f"SELECT id FROM lake.{table}")
    assert sum(expected.values()) == 5
    lake.sql(f"ALTER TABLE lake.{table} DROP COLUMN note")
    # Java can no longer read this table: it looks for the column in the current schema.
    assert lake.ours(table) == expected


@pytest.mark.once_last
def test_imported_files_are_read_by_the_name_mapping(lake: Lake) -> None:
    table, folder = "db.imported", lake.folder / "hive"
    rows = lake.spark.range(20).selectExpr(
        "id", "named_struct('a', int(id)) AS st", "string(id % 2) AS part", "id AS old"
    )
    rows.write.partitionBy("part").parquet(str(folder))
    lake.sql(
        f"CREATE TABLE lake.{table} (id BIGINT, st STRUCT<a: INT>, old BIGINT, part STRING) USING iceberg "
        "PARTITIONED BY (part)"
    )
    lake.sql(f"CALL lake.system.add_files(table => '{table}', source_table => '`parquet`.`{folder}`')").collect()
    lake.sql(f"ALTER TABLE lake.{table} RENAME COLUMN old TO renamed")
    lake.sql(f"ALTER TABLE lake.{table} ADD COLUMN st.b STRING")
    lake.sql(f"INSERT INTO lake.{table} VALUES (100, named_struct('a', 1, 'b', 'x'), 100, '1')")
    assert lake.ours(table) == lake.java(f"SELECT * FROM lake.{table}")
    where = "part = '1' AND renamed > 10"
    assert lake.ours(table, columns=["st", "part"], where=where) == lake.java(
        f"SELECT st, part FROM lake.{table} WHERE {where}"
    )
    opened, live = lake.planned(table, where=where)
    assert opened < live


@pytest.mark.once_last
@pytest.mark.parametrize("version", [1, 3])
def test_other_format_versions_are_read(lake: Lake, version: int) -> None:
    table = f"db.v{version}"
    lake.sql(
        f"CREATE TABLE lake.{table} (id BIGINT, region STRING) USING iceberg PARTITIONED BY (region) "
        f"TBLPROPERTIES ('format-version'='{version}'{', ' + MERGE_ON_READ if version > 1 else ''})"
    )
    lake.sql(f"INSERT INTO lake.{table} SELECT id, IF(id % 2 = 0, 'eu', 'us') FROM range(10000)")
    if version > 1:
        # Deletion vectors: a sparse one, and runs long enough for other kinds of containers.
        lake.sql(f"DELETE FROM lake.{table} WHERE region = 'eu' AND (id % 50 = 4 OR id BETWEEN 2000 AND 9000)")
        lake.sql(f"DELETE FROM lake.{table} WHERE id IN (1, 4001)")
    lake.sql(f"ALTER TABLE lake.{table} ADD PARTITION FIELD bucket(2, id)")
    lake.sql(f"INSERT INTO lake.{table} VALUES (-1, 'eu')")
    assert lake.ours(table) == lake.java(f"SELECT * FROM lake.{table}")
    where = "region = 'eu' AND id < 3000"
    assert lake.ours(table, where=where) == lake.java(f"SELECT * FROM lake.{table} WHERE {where}")


def test_types_that_spark_lacks_come_as_java_gives_them(lake: Lake) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "u", UUIDType(), required=False),
        NestedField(3, "fx", FixedType(2), required=False),
        NestedField(4, "us", ListType(5, UUIDType(), element_required=False), required=False),
    )
    made = lake.lake.create_iceberg_table("db.rare", schema).table
    rows = [{"id": 1, "u": UUID(int=5).bytes, "fx": b"ab", "us": [UUID(int=6).bytes, None]}, {"id": 2}]
    made.append(pa.Table.from_pylist(rows, schema=arrow_schema(made.schema())))
    assert lake.ours("db.rare") == lake.java("SELECT * FROM lake.db.rare")
    where = f"u = '{UUID(int=5)}'"
    assert lake.ours("db.rare", where=where) == lake.java(f"SELECT * FROM lake.db.rare WHERE {where}")
    assert sum(lake.ours("db.rare", columns=["us"], where=where).values()) == 1


@pytest.mark.once_last
def test_data_files_in_another_format_are_refused_beforehand(lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.db.avro (id BIGINT) USING iceberg TBLPROPERTIES ('write.format.default'='avro')")
    assert lake.ours("db.avro") == Counter()
    lake.sql("INSERT INTO lake.db.avro VALUES (1)")
    with pytest.raises(UnsupportedTableError, match=r"avro is a data file in AVRO; lakeshift reads PARQUET"):
        lake.lake.iceberg("db.avro").read()
