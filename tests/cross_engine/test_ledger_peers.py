"""The ledger beside Java's metadata tables and PyIceberg's `inspect`, on tables that Java wrote and evolved."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from lakeshift.iceberg.deletes import DATA_COLUMNS, DELETE_COLUMNS, match_deletes
from lakeshift.iceberg.ledger import Ledger, read_entries, read_ledger
from tests.peer_iceberg import PeerTable

pytestmark = pytest.mark.once_last  # what it shows is of the catalog and the files, not of a Spark line

COMPARED = [
    "content",
    "file_path",
    "file_format",
    "spec_id",
    "record_count",
    "file_size_in_bytes",
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
    "key_metadata",
    "split_offsets",
    "equality_ids",
    "sort_order_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
]
MERGE_ON_READ = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'"


@dataclass
class Lake:
    """One warehouse that Java writes and lakeshift reads."""

    spark: Any
    name: str
    catalog: SqlCatalog

    def sql(self, text: str) -> list[Any]:
        rows: list[Any] = self.spark.sql(text.replace("lake.", f"{self.name}.")).collect()
        return rows

    def table(self, name: str) -> Table:
        return self.catalog.load_table(name)

    def peer(self, name: str) -> PeerTable:
        return PeerTable(self.spark, f"{self.name}.{name}")

    def ledger(self, name: str, **options: Any) -> Ledger:
        table = self.table(name)
        return read_ledger(table.metadata, table.io, **options)


@pytest.fixture(scope="module")
def lake(spark: Any, java_catalog: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    warehouse = tmp_path_factory.mktemp("lake")
    name = java_catalog(warehouse)
    catalog = SqlCatalog(name, uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")
    made = Lake(spark, name, catalog)
    made.sql("CREATE NAMESPACE lake.db")
    return made


def make_evolved(lake: Lake, name: str, version: int, codec: str = "gzip") -> None:
    """Four specs, each with data, and deletes of every kind that the version has."""
    mode = f", {MERGE_ON_READ}" if version > 1 else ""  # v1 has no delete files
    lake.sql(
        f"CREATE TABLE lake.{name} (id BIGINT, ts TIMESTAMP_NTZ, region STRING, amount DOUBLE) USING iceberg "
        f"PARTITIONED BY (days(ts)) TBLPROPERTIES ('format-version'='{version}'{mode}, "
        f"'write.manifest.compression-codec'='{codec}')"
    )

    def insert(first: int) -> None:
        lake.sql(
            f"INSERT INTO lake.{name} SELECT /*+ COALESCE(1) */ id, TIMESTAMP_NTZ '2026-01-01 06:00:00' + "
            "make_dt_interval(id % 3), CASE id % 4 WHEN 0 THEN 'eu' WHEN 1 THEN 'us' WHEN 2 THEN 'ap' END, "
            f"IF(id % 5 = 0, double('NaN'), id * 1.5) FROM range({first}, {first + 24})"
        )

    insert(0)
    lake.sql(f"ALTER TABLE lake.{name} ADD PARTITION FIELD region")
    insert(100)
    lake.sql(f"ALTER TABLE lake.{name} DROP PARTITION FIELD ts_day")
    lake.sql(f"ALTER TABLE lake.{name} REPLACE PARTITION FIELD region WITH bucket(3, id)")
    insert(200)
    lake.sql(f"ALTER TABLE lake.{name} DROP PARTITION FIELD id_bucket_3")
    insert(300)
    lake.sql(f"DELETE FROM lake.{name} WHERE id IN (3, 103, 203, 303)")
    lake.sql(f"DELETE FROM lake.{name} WHERE region = 'us' AND id >= 100 AND id < 124")


@pytest.fixture(scope="module")
def evolved(lake: Lake) -> str:
    """A v2 table with position deletes, and equality deletes in one partition and everywhere."""
    make_evolved(lake, "db.evolved", 2)
    peer = lake.peer("db.evolved")
    peer.delete_equal("id", rows={"id": 12}, spec_id=0)
    peer.delete_equal("id", "region", rows={"id": 110}, spec_id=1, file_format="AVRO")
    peer.delete_equal("region", rows={"id": 107}, spec_id=1)
    peer.delete_equal("id", rows={"id": 207}, spec_id=2)
    peer.delete_equal("id", rows={"id": 0})
    lake.sql("INSERT INTO lake.db.evolved VALUES (900, TIMESTAMP_NTZ '2026-01-01 00:00:00', 'eu', 1.0)")
    return "db.evolved"


@pytest.fixture(scope="module")
def version_1(lake: Lake) -> str:
    make_evolved(lake, "db.version_1", 1)
    return "db.version_1"


@pytest.fixture(scope="module")
def version_3(lake: Lake) -> str:
    make_evolved(lake, "db.version_3", 3)
    return "db.version_3"


@pytest.fixture(scope="module")
def upgraded(lake: Lake) -> str:
    """A table that began as v1: its old manifests have no sequence numbers, and files of them are carried over."""
    make_evolved(lake, "db.upgraded", 1)
    lake.sql(f"ALTER TABLE lake.db.upgraded SET TBLPROPERTIES ('format-version'='2', {MERGE_ON_READ})")
    lake.sql("INSERT INTO lake.db.upgraded VALUES (900, TIMESTAMP_NTZ '2026-01-01 00:00:00', 'eu', 1.0)")
    lake.sql("DELETE FROM lake.db.upgraded WHERE id IN (5, 105, 900)")
    lake.peer("db.upgraded").delete_equal("id", rows={"id": 106})
    lake.sql("DELETE FROM lake.db.upgraded WHERE ts < TIMESTAMP_NTZ '2026-01-02 00:00:00' AND id < 24")
    return "db.upgraded"


EVOLVED = ["evolved", "version_1", "upgraded", "version_3"]


def plain(value: Any) -> Any:
    """A value as both engines can agree to spell it."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return sorted((key, plain(item)) for key, item in value.items())
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def ours(tables: Iterable[pa.Table], columns: Iterable[str]) -> list[Any]:
    """Ledger rows as comparable tuples; an empty map and no map are the same to Java's tables."""
    wanted = [*columns]
    rows = []
    for table in tables:
        for row in table.to_pylist():
            values = [
                sorted(row[n]) if isinstance(table.schema.field(n).type, pa.MapType) and row[n] else row[n]
                for n in wanted
            ]
            rows.append([*(plain(value) or None for value in values), sorted(plain(row["partition"]))])
    return sorted(rows, key=repr)


def theirs(rows: Iterable[Any], columns: Iterable[str], specs: Mapping[int, Any]) -> list[Any]:
    """Rows of a metadata table; of the partition, which Java gives for all specs at once, only a file's own fields."""
    wanted = [*columns]
    found = []
    for row in rows:
        fields = row.asDict()
        partition = fields["partition"].asDict() if fields.get("partition") else {}
        own = {field.name: partition.get(field.name) for field in specs[fields["spec_id"]].fields}
        found.append([*(plain(fields.get(name)) or None for name in wanted), sorted(plain(own))])
    return sorted(found, key=repr)


@pytest.mark.parametrize("name", EVOLVED)
def test_files_are_those_of_java(lake: Lake, request: pytest.FixtureRequest, name: str) -> None:
    table = lake.table(request.getfixturevalue(name))
    ledger = lake.ledger(f"db.{name}")
    expected = theirs(lake.sql(f"SELECT * FROM lake.db.{name}.files"), COMPARED, table.specs())
    assert ours([*ledger.data.values(), *ledger.deletes.values()], COMPARED) == expected
    assert len({row[3] for row in expected}) >= 4  # every spec that was written is there


@pytest.mark.parametrize("name", ["evolved", "version_3"])
def test_delete_files_are_those_of_java(lake: Lake, request: pytest.FixtureRequest, name: str) -> None:
    table = lake.table(request.getfixturevalue(name))
    deletes = lake.ledger(f"db.{name}").deletes.values()
    expected = theirs(lake.sql(f"SELECT * FROM lake.db.{name}.delete_files"), COMPARED, table.specs())
    assert ours(deletes, COMPARED) == expected
    assert len(expected) >= 4


@pytest.mark.parametrize("name", EVOLVED)
@pytest.mark.parametrize("whole_history", [False, True])
def test_entries_are_those_of_java(lake: Lake, request: pytest.FixtureRequest, name: str, whole_history: bool) -> None:
    """With inherited numbers and ids, entries of deleted files, and all manifests that any snapshot has."""
    table = lake.table(request.getfixturevalue(name))
    snapshots = table.snapshots() if whole_history else [table.current_snapshot()]
    manifests = list(
        {m.manifest_path: m for snapshot in snapshots if snapshot for m in snapshot.manifests(table.io)}.values()
    )
    numbers = ["status", "snapshot_id", "sequence_number", "file_sequence_number"]
    columns = ["file_path", "content_offset", *numbers]
    found = [
        tuple(row[column] for column in columns)
        for entries in read_entries(manifests, table.metadata, table.io, columns).values()
        for row in entries.to_pylist()
    ]
    which = "all_entries" if whole_history else "entries"
    # Java's tables know no content offset before v3.
    offset = "data_file.content_offset" if name == "version_3" else "CAST(NULL AS BIGINT)"
    expected = [
        tuple(row)
        for row in lake.sql(f"SELECT data_file.file_path, {offset}, {', '.join(numbers)} FROM lake.db.{name}.{which}")
    ]
    if whole_history:  # where Java repeats a manifest for every snapshot that has it
        found, expected = list(set(found)), list(set(expected))
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("name", EVOLVED)
def test_every_snapshot_has_the_files_that_java_sees_in_it(
    lake: Lake, request: pytest.FixtureRequest, name: str
) -> None:
    table = lake.table(request.getfixturevalue(name))
    for snapshot in table.snapshots():
        ledger = lake.ledger(f"db.{name}", snapshot_id=snapshot.snapshot_id, columns=["file_path", "record_count"])
        found = [
            (row["file_path"], row["record_count"])
            for table in (*ledger.data.values(), *ledger.deletes.values())
            for row in table.to_pylist()
        ]
        # Iceberg 1.12 has only Spark's own option, which 1.11 does not take for metadata tables.
        option = "snapshot-id" if lake.spark.version.startswith("3.") else "versionAsOf"
        reader = lake.spark.read.format("iceberg").option(option, snapshot.snapshot_id)
        expected = reader.load(f"{lake.name}.db.{name}.files").select("file_path", "record_count").collect()
        assert sorted(found) == sorted((row.file_path, row.record_count) for row in expected)


@pytest.mark.parametrize("name", ["evolved", "version_1"])
def test_entries_are_those_of_pyiceberg(lake: Lake, request: pytest.FixtureRequest, name: str) -> None:
    table = lake.table(request.getfixturevalue(name))
    snapshot = table.current_snapshot()
    assert snapshot
    columns = [
        "status",
        "snapshot_id",
        "sequence_number",
        "file_sequence_number",
        "content",
        "file_path",
        "record_count",
    ]
    found = [
        tuple(row[column] for column in columns)
        for entries in read_entries(snapshot.manifests(table.io), table.metadata, table.io, columns).values()
        for row in entries.to_pylist()
    ]
    # Not by inspect.entries(): it fails on delete files that have no bounds.
    expected = [
        (
            *(int(entry.status), entry.snapshot_id, entry.sequence_number, entry.file_sequence_number),
            *(int(entry.data_file.content), entry.data_file.file_path, entry.data_file.record_count),
        )
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    ]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("name", ["evolved", "version_1"])
def test_files_are_those_of_pyiceberg(lake: Lake, request: pytest.FixtureRequest, name: str) -> None:
    table = lake.table(request.getfixturevalue(name))
    ledger = lake.ledger(f"db.{name}")
    columns = ["content", "file_path", "record_count", "lower_bounds", "upper_bounds", "null_value_counts", "spec_id"]

    def comparable(rows: Iterable[Mapping[str, Any]]) -> list[Any]:
        return sorted(
            ([plain(row[c]) if not isinstance(row[c], list) else sorted(row[c]) for c in columns] for row in rows),
            key=repr,
        )

    found = [row for rows in (*ledger.data.values(), *ledger.deletes.values()) for row in rows.to_pylist()]
    assert comparable(found) == comparable(table.inspect.files().to_pylist())


@pytest.mark.parametrize("name", EVOLVED)
def test_deletes_apply_as_java_plans_them(lake: Lake, request: pytest.FixtureRequest, name: str) -> None:
    ledger = lake.ledger(request.getfixturevalue(name), columns=sorted({*DATA_COLUMNS, *DELETE_COLUMNS}))
    found: dict[str, set[str]] = {}
    for spec_id, applied in match_deletes(ledger).items():
        paths = ledger.data[spec_id].column("file_path").to_pylist()
        found |= {path: set() for path in paths}
        for pair in applied.pairs().to_pylist():
            deletes = ledger.deletes[pair["delete_spec_id"]].column("file_path")
            found[paths[pair["data_row"]]].add(deletes[pair["delete_row"]].as_py())
    expected = lake.peer(f"db.{name}").planned_deletes()
    assert found.keys() == expected.keys()
    # Java leaves out an equality delete whose values lie outside the file's bounds, which deletes nothing there.
    equality = {
        path
        for rows in ledger.deletes.values()
        for path, content in zip(rows.column("file_path").to_pylist(), rows.column("content").to_pylist(), strict=True)
        if content == 2
    }
    for path, deletes in expected.items():
        assert deletes <= found[path]
        assert found[path] - deletes <= equality
    assert name == "version_1" or any(expected.values())


def test_a_dropped_source_column_leaves_partition_values_as_they_were(lake: Lake) -> None:
    """Java's metadata tables forget such values, and PyIceberg's `inspect` fails."""
    name = "db.dropped"
    lake.sql(f"CREATE TABLE lake.{name} (id BIGINT, region STRING) USING iceberg PARTITIONED BY (region)")
    lake.sql(f"INSERT INTO lake.{name} VALUES (1, 'eu'), (2, NULL)")
    before = theirs(lake.sql(f"SELECT * FROM lake.{name}.files"), COMPARED, lake.table(name).specs())
    lake.sql(f"ALTER TABLE lake.{name} DROP PARTITION FIELD region")
    lake.sql(f"ALTER TABLE lake.{name} DROP COLUMN region")
    lake.sql(f"INSERT INTO lake.{name} VALUES (3)")
    ledger = lake.ledger(name)
    assert ours([ledger.data[0]], COMPARED) == before
    assert ledger.data[1].num_rows == 1


def test_row_ids_are_inherited_as_java_does_it(lake: Lake, version_3: str) -> None:
    ledger = lake.ledger(version_3, columns=["file_path", "first_row_id"])
    found = {row["file_path"]: row["first_row_id"] for rows in ledger.data.values() for row in rows.to_pylist()}
    expected = {row.file_path: row.first_row_id for row in lake.sql(f"SELECT * FROM lake.{version_3}.data_files")}
    assert found == expected
    assert all(number is not None for number in found.values())


@pytest.mark.parametrize("codec", ["gzip", "zstd", "snappy", "uncompressed"])
def test_manifests_of_every_codec_are_read(lake: Lake, codec: str) -> None:
    name = f"db.codec_{codec}"
    lake.sql(
        f"CREATE TABLE lake.{name} (id BIGINT, region STRING) USING iceberg PARTITIONED BY (region) "
        f"TBLPROPERTIES ('write.manifest.compression-codec'='{codec}')"
    )
    lake.sql(f"INSERT INTO lake.{name} VALUES (1, 'eu'), (2, NULL)")
    expected = theirs(lake.sql(f"SELECT * FROM lake.{name}.files"), COMPARED, lake.table(name).specs())
    assert ours(lake.ledger(name).data.values(), COMPARED) == expected


EVERY_TYPE = {
    "b": ("BOOLEAN", "true"),
    "i": ("INT", "7"),
    "l": ("BIGINT", "1099511627776"),
    "f": ("FLOAT", "1.5"),
    "d": ("DOUBLE", "double('NaN')"),
    "day": ("DATE", "DATE '1969-12-30'"),
    "tz": ("TIMESTAMP", "TIMESTAMP '2026-01-01 02:03:04.000005'"),
    "ntz": ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ '1960-01-01 02:03:04.000005'"),
    "s": ("STRING", "'x/é '"),
    "bin": ("BINARY", "X'00FF10'"),
    "dec": ("DECIMAL(9, 2)", "-1.25"),
    "wide": ("DECIMAL(38, 10)", "12345678901234567890.0123456789"),
}
TRANSFORMS = ["months(tz)", "hours(ntz)", "bucket(16, s)", "truncate(2, s)", "truncate(3, wide)", "truncate(4, i)"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_partitions_of_every_type_are_those_of_java(lake: Lake, version: int) -> None:
    name = f"db.every_type_{version}"
    columns = ", ".join(f"{column} {kind}" for column, (kind, _) in EVERY_TYPE.items())
    lake.sql(
        f"CREATE TABLE lake.{name} ({columns}) USING iceberg PARTITIONED BY ({', '.join([*EVERY_TYPE, *TRANSFORMS])}) "
        f"TBLPROPERTIES ('format-version'='{version}')"
    )
    lake.sql(f"INSERT INTO lake.{name} SELECT {', '.join(value for _, value in EVERY_TYPE.values())}")
    lake.sql(f"INSERT INTO lake.{name} SELECT {', '.join('NULL' for _ in EVERY_TYPE)}")
    expected = theirs(lake.sql(f"SELECT * FROM lake.{name}.files"), COMPARED, lake.table(name).specs())
    assert ours(lake.ledger(name).data.values(), COMPARED) == expected
    assert len(expected) == 2
