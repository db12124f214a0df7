"""The ledger on tables made by hand: liveness, inheritance, partition types, specs, and where files may lie."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, VoidTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.errors import ConfigError, LakeshiftError, UnknownSpecError
from lakeshift.iceberg.ledger import read_entries, read_ledger
from lakeshift.iceberg.manifest_columns import COLUMNS
from tests.handmade import HandmadeTable

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "ts", TimestampType()), NestedField(3, "region", StringType())
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"), spec_id=0)
BY_REGION = PartitionSpec(PartitionField(3, 1001, IdentityTransform(), "region"), spec_id=1)
UNPARTITIONED = PartitionSpec(spec_id=2)


@pytest.fixture
def table(tmp_path: Path) -> HandmadeTable:
    return HandmadeTable(tmp_path, SCHEMA, BY_DAY, BY_REGION, UNPARTITIONED)


def column(table: pa.Table, name: str) -> list[Any]:
    values: list[Any] = table.column(name).to_pylist()
    return values


def test_table_without_snapshot_has_an_empty_ledger(table: HandmadeTable) -> None:
    ledger = read_ledger(table.metadata, table.io)
    assert ledger.snapshot is None
    assert (dict(ledger.data), dict(ledger.deletes)) == ({}, {})


def test_files_come_by_spec_with_the_partition_of_that_spec(table: HandmadeTable) -> None:
    table.commit(table.data_file(0, 19000), table.data_file(1, "eu"), table.data_file(1, None), table.data_file(2))
    ledger = read_ledger(table.metadata, table.io)
    assert list(ledger.data) == [0, 1, 2]
    assert column(ledger.data[0], "partition") == [{"ts_day": dt.date(2022, 1, 8)}]
    assert column(ledger.data[1], "partition") == [{"region": "eu"}, {"region": None}]
    assert column(ledger.data[2], "partition") == [{}]
    assert column(ledger.data[1], "spec_id") == [1, 1]
    assert ledger.deletes == {}


def test_delete_files_are_apart_from_data_files(table: HandmadeTable) -> None:
    data = table.data_file(1, "eu")
    table.commit(data)
    table.commit(table.position_deletes([data.file_path], 1, "eu"), table.equality_deletes(2, ids=[1, 3]))
    ledger = read_ledger(table.metadata, table.io)
    assert column(ledger.data[1], "file_path") == [data.file_path]
    assert column(ledger.deletes[1], "content") == [1]
    assert column(ledger.deletes[2], "content") == [2]
    assert column(ledger.deletes[2], "equality_ids") == [[1, 3]]


def test_removed_files_leave_the_ledger_but_not_the_entries(table: HandmadeTable) -> None:
    first, second = table.data_file(1, "eu"), table.data_file(1, "us")
    table.commit(first, second)
    snapshot = table.commit(removed=[first.file_path])
    assert column(read_ledger(table.metadata, table.io).data[1], "file_path") == [second.file_path]
    entries = read_entries(snapshot.manifests(table.io), table.metadata, table.io)[1]
    assert dict(zip(column(entries, "file_path"), column(entries, "status"), strict=True)) == {
        first.file_path: 2,
        second.file_path: 0,
    }


def test_sequence_numbers_and_snapshot_ids_are_inherited(table: HandmadeTable) -> None:
    first, second = table.data_file(1, "eu"), table.data_file(1, "us")
    one = table.commit(first)
    two = table.commit(second, sequence_number=1)  # as a compaction writes it: data older than the file
    ledger = read_ledger(table.metadata, table.io, columns=["snapshot_id", "sequence_number", "file_sequence_number"])
    rows = sorted(ledger.data[1].to_pylist(), key=lambda row: row["snapshot_id"])
    assert rows == [
        {"snapshot_id": one.snapshot_id, "sequence_number": 1, "file_sequence_number": 1},
        {"snapshot_id": two.snapshot_id, "sequence_number": 1, "file_sequence_number": 2},
    ]


def test_existing_entries_keep_their_own_numbers(table: HandmadeTable) -> None:
    first, second = table.data_file(1, "eu"), table.data_file(1, "us")
    one = table.commit(first, second)
    table.commit(table.data_file(1, "us"))
    table.commit(removed=[second.file_path])  # rewrites the first manifest: its other entry becomes existing
    ledger = read_ledger(table.metadata, table.io)
    row = next(row for row in ledger.data[1].to_pylist() if row["file_path"] == first.file_path)
    assert (row["status"], row["snapshot_id"], row["sequence_number"]) == (0, one.snapshot_id, 1)


def test_v1_manifests_have_sequence_number_zero(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, SCHEMA, BY_DAY, format_version=1)
    snapshot = table.commit(table.data_file(0, 19000), table.data_file(0, None))
    row = read_ledger(table.metadata, table.io).data[0].to_pylist()[0]
    assert (row["sequence_number"], row["file_sequence_number"]) == (0, 0)
    assert (row["snapshot_id"], row["content"]) == (snapshot.snapshot_id, 0)
    assert row["partition"] == {"ts_day": dt.date(2022, 1, 8)}


def test_an_older_snapshot_can_be_asked_for(table: HandmadeTable) -> None:
    first = table.commit(table.data_file(1, "eu"))
    table.commit(table.data_file(1, "us"))
    ledger = read_ledger(table.metadata, table.io, first.snapshot_id)
    assert ledger.snapshot == first
    assert ledger.data[1].num_rows == 1


def test_unknown_snapshot_is_named(table: HandmadeTable) -> None:
    with pytest.raises(ConfigError, match="4711"):
        read_ledger(table.metadata, table.io, 4711)


def test_only_the_columns_asked_for_come_back_in_their_order(table: HandmadeTable) -> None:
    table.commit(table.data_file(1, "eu"))
    ledger = read_ledger(table.metadata, table.io, columns=["record_count", "status"])
    assert ledger.data[1].schema.names == ["record_count", "status"]
    everything = read_ledger(table.metadata, table.io)
    assert everything.data[1].schema.names == list(COLUMNS)


def test_unknown_column_is_named_with_the_known_ones(table: HandmadeTable) -> None:
    with pytest.raises(ConfigError, match=r"'path'.*file_path"):
        read_ledger(table.metadata, table.io, columns=["path"])


def test_manifest_filter_decides_what_is_read(table: HandmadeTable) -> None:
    table.commit(table.data_file(0, 19000), table.data_file(1, "eu"))
    ledger = read_ledger(table.metadata, table.io, manifest_filter=lambda manifest: manifest.partition_spec_id == 1)
    assert list(ledger.data) == [1]


def test_manifest_path_is_one_dictionary_over_all_manifests(table: HandmadeTable) -> None:
    table.commit(table.data_file(1, "eu"), table.data_file(1, "us"))
    snapshot = table.commit(table.data_file(1, "eu"))
    paths = read_ledger(table.metadata, table.io, columns=["manifest_path"]).data[1].column("manifest_path")
    assert pa.types.is_dictionary(paths.type)
    assert sorted(set(paths.to_pylist())) == sorted(m.manifest_path for m in snapshot.manifests(table.io))
    assert len({str(chunk.dictionary.to_pylist()) for chunk in paths.chunks}) == 1


def test_metrics_are_maps_by_field_id(table: HandmadeTable) -> None:
    table.commit(
        table.data_file(
            1, "eu", value_counts={1: 10, 3: 10}, lower_bounds={1: b"\x01"}, upper_bounds=None, nan_value_counts={}
        ),
        table.data_file(1, "us", value_counts=None, lower_bounds={1: b"\x02", 3: b"a"}),
    )
    rows = read_ledger(table.metadata, table.io).data[1]
    assert rows.schema.field("lower_bounds").type == pa.map_(pa.int32(), pa.binary())
    assert column(rows, "value_counts") == [[(1, 10), (3, 10)], None]
    assert column(rows, "lower_bounds") == [[(1, b"\x01")], [(1, b"\x02"), (3, b"a")]]
    assert column(rows, "upper_bounds") == [None, []]
    rows.validate(full=True)


EVERY_TYPE = {
    "b": (BooleanType(), True, True, pa.bool_()),
    "i": (IntegerType(), 7, 7, pa.int32()),
    "l": (LongType(), 2**40, 2**40, pa.int64()),
    "f": (FloatType(), 1.5, 1.5, pa.float32()),
    "d": (DoubleType(), 2.5, 2.5, pa.float64()),
    "date": (DateType(), 19000, dt.date(2022, 1, 8), pa.date32()),
    "time": (TimeType(), 3723000004, dt.time(1, 2, 3, 4), pa.time64("us")),
    "ts": (TimestampType(), 1704074584000005, dt.datetime(2024, 1, 1, 2, 3, 4, 5), pa.timestamp("us")),
    "tz": (
        TimestamptzType(),
        1704074584000005,
        dt.datetime(2024, 1, 1, 2, 3, 4, 5, dt.UTC),
        pa.timestamp("us", tz="UTC"),
    ),
    "s": (StringType(), "x/é", "x/é", pa.string()),
    "u": (UUIDType(), uuid.UUID(int=99), uuid.UUID(int=99).bytes, pa.binary(16)),
    "bin": (BinaryType(), b"abc", b"abc", pa.binary()),
    "fixed": (FixedType(5), b"12345", b"12345", pa.binary(5)),
    "dec": (DecimalType(9, 2), decimal.Decimal("-1.25"), decimal.Decimal("-1.25"), pa.decimal128(9, 2)),
    "wide": (
        DecimalType(38, 3),
        decimal.Decimal("1" * 30 + ".125"),
        decimal.Decimal("1" * 30 + ".125"),
        pa.decimal128(38, 3),
    ),
}


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "null"])
def test_partition_values_of_every_type_are_typed_by_the_spec(tmp_path: Path, codec: str) -> None:
    schema = Schema(*(NestedField(i, name, kind[0]) for i, (name, kind) in enumerate(EVERY_TYPE.items(), 1)))
    spec = PartitionSpec(
        *(PartitionField(i, 999 + i, IdentityTransform(), f"{name}-part") for i, name in enumerate(EVERY_TYPE, 1))
    )
    table = HandmadeTable(tmp_path, schema, spec, codec=codec)
    table.commit(
        table.data_file(0, *(kind[1] for kind in EVERY_TYPE.values())), table.data_file(0, *[None] * len(EVERY_TYPE))
    )
    partition = read_ledger(table.metadata, table.io, columns=["partition"]).data[0].column("partition")
    assert {field.name: field.type for field in partition.type} == {f"{n}-part": k[3] for n, k in EVERY_TYPE.items()}
    full, empty = partition.to_pylist()
    assert full == {f"{name}-part": kind[2] for name, kind in EVERY_TYPE.items()}
    assert set(empty.values()) == {None}


def test_a_widened_source_column_widens_old_partition_values(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "n"))
    table = HandmadeTable(tmp_path, Schema(NestedField(1, "n", IntegerType())), spec)
    table.commit(table.data_file(0, 7))
    table.add_schema(Schema(NestedField(1, "n", LongType()), schema_id=1))
    table.commit(table.data_file(0, 2**40))
    partition = read_ledger(table.metadata, table.io, columns=["partition"]).data[0].column("partition")
    assert partition.type == pa.struct([pa.field("n", pa.int64())])
    assert sorted(row["n"] for row in partition.to_pylist()) == [7, 2**40]


def test_a_dropped_source_column_is_typed_by_a_historical_schema(tmp_path: Path) -> None:
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "ts"), PartitionField(3, 1001, BucketTransform(4), "region_bucket")
    )
    table = HandmadeTable(tmp_path, SCHEMA, spec)
    table.commit(table.data_file(0, 1704074584000005, 3))
    table.add_spec(PartitionSpec(spec_id=1))
    table.add_schema(Schema(NestedField(1, "id", LongType()), schema_id=1))
    partition = read_ledger(table.metadata, table.io, columns=["partition"]).data[0].column("partition")
    assert partition.to_pylist() == [{"ts": dt.datetime(2024, 1, 1, 2, 3, 4, 5), "region_bucket": 3}]


def test_a_source_column_in_no_schema_is_typed_by_the_manifest(tmp_path: Path) -> None:
    """Java's metadata clean-up removes historical schemas that no snapshot refers to."""
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "ts"), PartitionField(2, 1001, DayTransform(), "day")
    )
    table = HandmadeTable(tmp_path, SCHEMA, spec)
    table.commit(table.data_file(0, 1704074584000005, 19000))
    table.add_spec(PartitionSpec(spec_id=1))
    table.add_schema(Schema(NestedField(1, "id", LongType()), schema_id=1))
    cleaned = table.metadata.model_copy(update={"schemas": [table.metadata.schema()]})
    partition = read_ledger(cleaned, table.io, columns=["partition"]).data[0].column("partition")
    assert partition.to_pylist() == [{"ts": dt.datetime(2024, 1, 1, 2, 3, 4, 5), "day": dt.date(2022, 1, 8)}]


def test_void_fields_are_null_of_the_source_type(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, VoidTransform(), "region"))
    table = HandmadeTable(tmp_path, SCHEMA, spec, format_version=1)
    table.commit(table.data_file(0, None))
    partition = read_ledger(table.metadata, table.io, columns=["partition"]).data[0].column("partition")
    assert partition.type == pa.struct([pa.field("region", pa.string())])
    assert partition.to_pylist() == [{"region": None}]


def test_partition_fields_may_have_letters_that_avro_does_not_know(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "größe", StringType()), NestedField(2, "地域", StringType()))
    fields = [
        PartitionField(1, 1000, IdentityTransform(), "größe"),
        PartitionField(2, 1001, IdentityTransform(), "地域"),
    ]
    table = HandmadeTable(tmp_path, schema, PartitionSpec(*fields, spec_id=0))
    table.commit(table.data_file(0, "klein", "東"), table.data_file(0, None, "西"))
    files = read_ledger(table.metadata, table.io).data[0]
    assert files.column("partition").to_pylist() == [{"größe": "klein", "地域": "東"}, {"größe": None, "地域": "西"}]


def test_a_manifest_of_an_unknown_spec_is_rejected_by_number(table: HandmadeTable) -> None:
    table.commit(table.data_file(1, "eu"))
    forgetful = table.metadata.model_copy(update={"partition_specs": [BY_DAY]})
    with pytest.raises(UnknownSpecError, match=r"no partition spec 1; it has 0"):
        read_ledger(forgetful, table.io)


@pytest.mark.parametrize("name", ["with space", "100%25", "a*b?[c]", "été#1"])
def test_unusual_folder_names_are_read_rightly(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    table = HandmadeTable(tmp_path, SCHEMA, BY_REGION)
    table.io = _Renaming(folder)
    table.location = "renamed://"
    table.commit(table.data_file(1, "eu"))
    assert any(folder.rglob("*.avro"))
    table.io = PyArrowFileIO()
    snapshot = table.head()
    assert snapshot is not None
    manifests = snapshot.manifests(_Renaming(folder))
    for manifest in manifests:
        manifest._data[0] = f"file:{folder}/{manifest.manifest_path.removeprefix('renamed:///')}"
    assert column(read_entries(manifests, table.metadata, table.io)[1], "partition") == [{"region": "eu"}]


class _Renaming(PyArrowFileIO):
    """A FileIO whose files have a scheme that only it knows, as an object store's have."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.opened: list[str] = []

    def _path(self, location: str) -> str:
        return str(self.folder / location.removeprefix("renamed:///"))

    def new_input(self, location: str) -> Any:
        self.opened.append(location)
        made = super().new_input(self._path(location))
        made._location = location
        return made

    def new_output(self, location: str) -> Any:
        made = super().new_output(self._path(location))
        made._location = location
        return made


def test_files_elsewhere_are_read_through_the_file_io(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging, stored = tmp_path / "staging", tmp_path / "stored"
    staging.mkdir()
    stored.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(staging))
    table = HandmadeTable(tmp_path, SCHEMA, BY_REGION, UNPARTITIONED)
    io = _Renaming(stored)
    table.io, table.location = io, "renamed://"
    table.commit(table.data_file(1, "eu"), table.data_file(2))
    io.opened.clear()
    ledger = read_ledger(table.metadata, io)
    assert column(ledger.data[1], "partition") == [{"region": "eu"}]
    assert ledger.data[2].num_rows == 1
    assert len(io.opened) == 3  # the list and two manifests, once each
    assert list(staging.iterdir()) == []


def test_a_file_that_is_not_avro_is_named(table: HandmadeTable) -> None:
    snapshot = table.commit(table.data_file(1, "eu"))
    path = Path(snapshot.manifests(table.io)[0].manifest_path.removeprefix("file://"))
    path.write_bytes(b"PAR1" + path.read_bytes())
    with pytest.raises(LakeshiftError, match=r"-m\.avro is not an Avro file"):
        read_ledger(table.metadata, table.io)


@pytest.mark.parametrize("spec_id", [1, 2])  # a manifest that is decoded in place, and one that is copied first
def test_a_manifest_that_was_cut_off_is_named(table: HandmadeTable, spec_id: int) -> None:
    """DataFusion reads what is there and says nothing: a lost block would be lost files."""
    partition = ["eu"] if spec_id == 1 else []
    snapshot = table.commit(*(table.data_file(spec_id, *partition) for _ in range(3)))
    path = Path(snapshot.manifests(table.io)[0].manifest_path.removeprefix("file://"))
    whole = path.read_bytes()
    for length, message in [(100, "ends within its Avro header"), (len(whole) - 40, "was cut off")]:
        path.write_bytes(whole[:length])
        with pytest.raises(LakeshiftError, match=rf"-m\.avro {message}"):
            read_ledger(table.metadata, table.io)
