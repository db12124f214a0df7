"""Manifests: one spec each, the right header, old ones reused or carried over without loss."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, IdentityTransform, TruncateTransform
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
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.errors import CommitConflictError, ConfigError
from lakeshift.iceberg.commit.avro import AvroFile, Codec, encode_file
from lakeshift.iceberg.commit.change_set import (
    RemovedFile,
    append_change,
    overwrite_change,
    replace_change,
    row_delta_change,
)
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.commit.entry_codec import EntryReader, EntryWriter
from lakeshift.iceberg.commit.manifests import ManifestFactory
from lakeshift.iceberg.commit.snapshot_manifests import pack_from_end
from lakeshift.iceberg.ledger import read_ledger
from tests.tables import (
    EVENTS,
    data_file,
    equality_deletes,
    events,
    files_under,
    ids,
    live_entries,
    local_catalog,
    manifest_headers,
    position_deletes,
    referenced_files,
)

BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))
NO_MERGE = {"commit.manifest-merge.enabled": "false"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """By day (spec 0), then also by region (spec 1), then by region and bucket of id (spec 2)."""
    table = local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=BY_DAY)
    with table.update_spec() as update:
        update.add_identity("region")
    with table.update_spec() as update:
        update.remove_field("ts_day")
        update.add_field("id", BucketTransform(4), "id_bucket")
    return table


def append(table: Table, *files: DataFile) -> None:
    commit(table, append_change(table.metadata, files))


def specs_of_manifests(table: Table, content: ManifestContent = ManifestContent.DATA) -> list[int]:
    return [m.partition_spec_id for m, _ in manifest_headers(table) if m.content == content]


def check_headers(table: Table) -> None:
    """Every manifest of every snapshot is of one spec, and its header says the same as the manifest list."""
    for snapshot in table.metadata.snapshots:
        for manifest, header in manifest_headers(table, snapshot):
            spec = table.specs()[manifest.partition_spec_id]
            assert header["partition-spec-id"] == str(spec.spec_id)
            fields = [PartitionField.model_validate(field) for field in json.loads(header["partition-spec"])]
            assert tuple(fields) == spec.fields
            schema = Schema.model_validate_json(header["schema"])
            assert all(schema.find_field(field.source_id) for field in spec.fields)
            assert header["format-version"] == str(table.format_version)
            if table.format_version > 1:
                assert header["content"] == ("data" if manifest.content == ManifestContent.DATA else "deletes")
            partition = next(
                field["type"]
                for field in json.loads(header["avro.schema"])["fields"][-1]["type"]["fields"]
                if field["name"] == "partition"
            )
            assert [field["field-id"] for field in partition["fields"]] == [field.field_id for field in spec.fields]
            assert all(field["type"] != "null" and "null" in field["type"] for field in partition["fields"])


def test_one_manifest_per_spec_in_the_order_of_ids(table: Table) -> None:
    append(table, *(data_file(table, events(1, first=10 * n), spec_id=n) for n in (2, 0, 1, 0)))
    assert specs_of_manifests(table) == [0, 1, 2]
    check_headers(table)
    assert ids(table) == [0, 0, 1, 1, 2, 2, 10, 11, 12, 20, 21, 22]


def test_data_and_delete_files_of_four_specs_in_one_snapshot(table: Table) -> None:
    with table.update_spec() as update:
        update.remove_field("region")
        update.remove_field("id_bucket")
    old = [data_file(table, events(1, first=10 * n), spec_id=n) for n in range(4)]
    append(table, *old)
    deletes = [position_deletes(table, file, [0]) for file in old]
    new = [data_file(table, events(2, 1, first=100 + n), spec_id=n) for n in range(4)]
    commit(table, row_delta_change(table.metadata, new, deletes, removed=[RemovedFile.of(old[3])]))
    assert specs_of_manifests(table, ManifestContent.DELETES) == [0, 1, 2, 3]
    check_headers(table)
    assert ids(table) == [1, 2, 11, 12, 21, 22, 100, 101, 102, 103]


def test_a_dropped_source_column_leaves_manifests_readable(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))
    table = local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=spec)
    eu, us = data_file(table, events(1)), data_file(table, events(1, region="us", first=10))
    append(table, eu, us)
    with table.update_spec() as update:
        update.remove_field("region")
    with table.update_schema() as schema:
        schema.delete_column("region")
    # A position delete and a rewritten manifest of the spec whose column is gone.
    commit(table, row_delta_change(table.metadata, [], [position_deletes(table, eu, [0])]))
    commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(us)]))
    check_headers(table)
    kept = live_entries(table)
    assert kept[eu.file_path].data_file.partition[0] == "eu"
    assert ids(table) == [1, 2]


def test_untouched_manifests_are_reused_as_they_are(table: Table) -> None:
    first, second = data_file(table, events(1)), data_file(table, events(2, region="us", first=10))
    append(table, first)
    append(table, second)
    before = {m.manifest_path: m for m, _ in manifest_headers(table)}
    commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(second)]))
    after = {m.manifest_path: m for m, _ in manifest_headers(table)}
    shared = set(before) & set(after)
    assert len(shared) == 1
    assert all(after[path]._data == before[path]._data for path in shared)


def test_rewritten_entries_keep_all_they_said(table: Table) -> None:
    kept, gone = data_file(table, events(1)), data_file(table, events(1, first=10))
    append(table, kept, gone)
    before = live_entries(table)[kept.file_path]
    commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(gone)]))
    (manifest,) = [m for m, _ in manifest_headers(table)]
    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    after = {entry.data_file.file_path: entry for entry in entries}
    assert after[kept.file_path].status == ManifestEntryStatus.EXISTING
    assert after[gone.file_path].status == ManifestEntryStatus.DELETED
    assert after[gone.file_path].snapshot_id == table.metadata.current_snapshot_id
    assert after[kept.file_path].snapshot_id == before.snapshot_id
    for name in ("sequence_number", "file_sequence_number"):
        assert getattr(after[kept.file_path], name) == getattr(before, name) == 1
    assert after[kept.file_path].data_file._data == before.data_file._data
    assert (manifest.existing_files_count, manifest.deleted_files_count, manifest.added_files_count) == (1, 1, 0)
    assert (manifest.existing_rows_count, manifest.deleted_rows_count) == (3, 3)
    assert (manifest.sequence_number, manifest.min_sequence_number) == (2, 1)


def test_a_manifest_of_deleted_entries_only_is_dropped_by_the_next_commit(table: Table) -> None:
    file = data_file(table, events(1))
    append(table, file)
    commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(file)]))
    assert len(manifest_headers(table)) == 1
    append(table, data_file(table, events(2)))
    (only,) = [m for m, _ in manifest_headers(table)]
    assert (only.added_files_count, only.deleted_files_count) == (1, 0)


def test_manifests_written_by_pyiceberg_are_carried_over(tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=BY_DAY)
    arrow = table.scan().to_arrow().schema.empty_table()
    for day in (1, 2):
        table.append(arrow.from_pylist(events(day, first=10 * day), schema=arrow.schema))
    entries = live_entries(table)
    gone = next(path for path, entry in entries.items() if entry.data_file.partition[0] == 20454)
    commit(table, overwrite_change(table.metadata, [], [RemovedFile(gone, 0)]))
    assert len(live_entries(table)) == 1
    assert sorted({*ids(table)} & {10, 11, 12, 20, 21, 22}) == ids(table)
    check = {path: entry.data_file._data for path, entry in live_entries(table).items()}
    assert check == {path: entries[path].data_file._data for path in check}


def test_a_removed_file_that_is_not_there_is_a_conflict(table: Table) -> None:
    file = data_file(table, events(1))
    append(table, file)
    new = data_file(table, events(2))
    before = files_under(table.location()) - {new.file_path.removeprefix("file://")}
    change = overwrite_change(table.metadata, [new], [RemovedFile("file:///nowhere.parquet", 2)])
    with pytest.raises(CommitConflictError, match=r"no longer in the table.*nowhere\.parquet") as raised:
        commit(table, change)
    assert raised.value.retryable
    assert files_under(table.location()) == before


def test_a_hint_that_is_wrong_does_not_matter(table: Table) -> None:
    file = data_file(table, events(1), spec_id=0)
    append(table, file)
    mistaken = RemovedFile(file.file_path, spec_id=2, manifest_path="file:///no-such-manifest.avro")
    result = commit(table, overwrite_change(table.metadata, [], [mistaken]))
    assert result.by_spec[0].removed_data_files == 1
    assert live_entries(table) == {}


def test_compaction_keeps_the_planned_data_sequence_number(table: Table) -> None:
    old = data_file(table, events(1))
    append(table, old)
    append(table, data_file(table, events(3, region="us")))
    new = data_file(table, events(1))
    commit(table, replace_change(table.metadata, [new], [RemovedFile.of(old)], data_sequence_number=1))
    entry = live_entries(table)[new.file_path]
    assert (entry.sequence_number, entry.file_sequence_number) == (1, 3)
    (manifest,) = [m for m, _ in manifest_headers(table) if m.added_files_count and m.sequence_number == 3]
    assert manifest.min_sequence_number == 1


def test_added_files_inherit_their_sequence_number(table: Table) -> None:
    for number in (1, 2):
        file = data_file(table, events(number, first=10 * number))
        append(table, file)
        entry = live_entries(table)[file.file_path]
        assert (entry.sequence_number, entry.file_sequence_number) == (number, number)


def test_small_manifests_of_one_spec_are_merged(tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table(
        "db.events", EVENTS, partition_spec=BY_DAY, properties={"commit.manifest.min-count-to-merge": "4"}
    )
    with table.update_spec() as update:
        update.add_identity("region")
    other = data_file(table, events(9, first=90))
    append(table, other)
    for day in range(1, 4):
        append(table, data_file(table, events(day, first=10 * day), spec_id=0))
    assert specs_of_manifests(table) == [0, 0, 0, 1]
    append(table, data_file(table, events(4, first=40), spec_id=0))
    assert specs_of_manifests(table) == [0, 1]
    merged = manifest_headers(table)[0][0]
    assert (merged.added_files_count, merged.existing_files_count) == (1, 3)
    assert (merged.sequence_number, merged.min_sequence_number) == (5, 2)
    numbers = [entry.sequence_number for entry in live_entries(table).values() if entry.data_file.spec_id == 0]
    assert sorted(numbers) == [2, 3, 4, 5]
    day_of = {field.lower_bound for field in merged.partitions} | {field.upper_bound for field in merged.partitions}
    assert day_of == {(20454).to_bytes(4, "little"), (20457).to_bytes(4, "little")}
    check_headers(table)
    assert ids(table) == [n + 10 * day for day in (1, 2, 3, 4, 9) for n in range(3)]
    # The manifest of the added file went into the merge, and nothing of it is left.
    assert files_under(table.location()) == referenced_files(table)


def test_merging_can_be_switched_off(tmp_path: Path) -> None:
    properties = {"commit.manifest.min-count-to-merge": "2", **NO_MERGE}
    table = local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=BY_DAY, properties=properties)
    for day in range(1, 5):
        append(table, data_file(table, events(day)))
    assert specs_of_manifests(table) == [0, 0, 0, 0]


def test_merging_mixes_manifests_of_several_writers(tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table(
        "db.events", EVENTS, partition_spec=BY_DAY, properties={"commit.manifest.min-count-to-merge": "2"}
    )
    arrow = table.scan().to_arrow().schema.empty_table()
    table.append(arrow.from_pylist(events(1, first=10), schema=arrow.schema))
    (path,) = live_entries(table)
    before = live_entries(table)[path].data_file._data
    append(table, data_file(table, events(2, first=20)))
    assert specs_of_manifests(table) == [0]
    assert live_entries(table)[path].data_file._data == before
    assert ids(table) == [10, 11, 12, 20, 21, 22]


def test_deletes_of_this_snapshot_survive_a_merge_and_older_ones_do_not(tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table(
        "db.events", EVENTS, partition_spec=BY_DAY, properties={"commit.manifest.min-count-to-merge": "2"}
    )
    a, b, c = (data_file(table, events(day, first=10 * day)) for day in (1, 2, 3))
    append(table, a, b, c)
    commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(a)]))
    commit(table, overwrite_change(table.metadata, [data_file(table, events(4, first=40))], [RemovedFile.of(b)]))
    (manifest,) = [m for m, _ in manifest_headers(table)]
    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    deleted = [entry.data_file.file_path for entry in entries if entry.status == ManifestEntryStatus.DELETED]
    assert deleted == [b.file_path]
    assert ids(table) == [30, 31, 32, 40, 41, 42]


class _Sized:
    def __init__(self, size: int) -> None:
        self.manifest_length = size


@pytest.mark.parametrize(
    ("sizes", "packs"),
    [
        ([], []),
        ([5], [[5]]),
        ([2, 4, 4, 4, 4], [[2], [4, 4], [4, 4]]),
        ([1, 4, 4, 4, 4], [[1, 4, 4], [4, 4]]),
        ([9, 1, 1], [[9], [1, 1]]),
        ([3, 3, 3], [[3, 3, 3]]),
    ],
)
def test_packing_leaves_the_newest_pack_underfilled(sizes: list[int], packs: list[list[int]]) -> None:
    found = pack_from_end([_Sized(size) for size in sizes], 9)  # type: ignore[misc]
    assert [[each.manifest_length for each in pack] for pack in found] == packs


def test_a_manifest_of_very_many_files_is_split_at_the_target_size(table: Table, tmp_path: Path) -> None:
    template = data_file(table, events(1))
    files = []
    for _ in range(1200):
        file = DataFile(*template._data)
        file._data[1] = f"file://{tmp_path}/{uuid.uuid4()}.parquet"
        file.spec_id = template.spec_id
        files.append(file)
    with ThreadPoolExecutor(2) as executor:
        factory = ManifestFactory(table.io, 7, uuid.uuid4(), Codec("deflate"), 12_000, executor)
        manifests = factory.write_added(table.metadata, files, ManifestContent.DATA)
    assert len(manifests) > 1
    assert sum(manifest.added_files_count for manifest in manifests) == 1200
    assert all(manifest.manifest_length < 30_000 for manifest in manifests)
    paths = [e.data_file.file_path for m in manifests for e in m.fetch_manifest_entry(table.io)]
    assert paths == [file.file_path for file in files]


@pytest.mark.parametrize("codec", ["gzip", "zstd", "snappy", "bzip2", "uncompressed"])
def test_manifests_are_compressed_as_the_table_says(tmp_path: Path, codec: str) -> None:
    properties = {"write.manifest.compression-codec": codec, "commit.manifest.min-count-to-merge": "2"}
    table = local_catalog(tmp_path).create_table("db.events", EVENTS, properties=properties)
    names = {"gzip": "deflate", "zstd": "zstandard", "uncompressed": "null"}
    for day in (1, 2, 3):  # each commit also reads the one before, to merge it
        append(table, data_file(table, events(day, first=10 * day)))
        assert {header["avro.codec"] for _, header in manifest_headers(table)} == {names.get(codec, codec)}
    if codec != "snappy":  # PyIceberg reads it with an extra package only
        assert ids(table) == [10, 11, 12, 20, 21, 22, 30, 31, 32]
    (only,) = [manifest for manifest, _ in manifest_headers(table)]
    assert (only.added_files_count, only.existing_files_count) == (1, 2)


def test_an_unknown_codec_is_refused(tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table(
        "db.events", EVENTS, properties={"write.manifest.compression-codec": "lzma"}
    )
    with pytest.raises(ConfigError, match=r"write\.manifest\.compression-codec is 'lzma'.*gzip"):
        append(table, data_file(table, events(1)))


def test_v1_tables_get_v1_manifests(tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table(
        "db.old", EVENTS, partition_spec=BY_DAY, properties={"format-version": "1", **NO_MERGE}
    )
    with table.update_spec() as update:
        update.remove_field("ts_day")
        update.add_identity("region")
    assert [str(field.transform) for field in table.spec().fields] == ["void", "identity"]
    old = data_file(table, events(1), spec_id=0)
    new = data_file(table, events(2, first=10), spec_id=1)
    unsaid = DataFile(*data_file(table, events(3, first=20), spec_id=0)._data)
    append(table, old, new, unsaid)
    check_headers(table)
    assert specs_of_manifests(table) == [0, 1]
    commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(old)]))
    check_headers(table)
    assert ids(table) == [10, 11, 12, 20, 21, 22]
    fields = json.loads(manifest_headers(table)[0][1]["avro.schema"])["fields"]
    assert [field["name"] for field in fields] == ["status", "snapshot_id", "data_file"]
    assert "block_size_in_bytes" in [field["name"] for field in fields[-1]["type"]["fields"]]
    assert table.metadata.current_snapshot().sequence_number == 0


def test_v1_manifests_of_an_upgraded_table_are_carried_over(tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table(
        "db.old", EVENTS, partition_spec=BY_DAY, properties={"format-version": "1"}
    )
    kept, gone = data_file(table, events(1)), data_file(table, events(2, first=10))
    append(table, kept, gone)
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.refresh()
    before = live_entries(table)[kept.file_path]
    commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(gone)]))
    check_headers_of_current(table)
    after = live_entries(table)[kept.file_path]
    assert (after.sequence_number, after.file_sequence_number, after.snapshot_id) == (0, 0, before.snapshot_id)
    assert after.data_file._data == before.data_file._data
    deletes = equality_deletes(table, events(1, 1), ["id"])
    commit(table, row_delta_change(table.metadata, [], [deletes]))
    assert live_entries(table)[deletes.file_path].sequence_number == 2


def check_headers_of_current(table: Table) -> None:
    for _, header in manifest_headers(table):
        assert header["format-version"] == "2"


def test_the_referenced_data_file_of_a_delete_survives_a_rewrite(table: Table) -> None:
    """Java writes it into v2 manifests; PyIceberg's own v2 schema does not have it."""
    file, other = data_file(table, events(1)), data_file(table, events(2))
    append(table, file, other)
    plain = position_deletes(table, file, [0])
    # The v3 form of a DataFile has room for the field.
    marked = DataFile(*plain._data, None, file.file_path, None, None)
    marked.spec_id = plain.spec_id
    gone = position_deletes(table, other, [0])
    commit(table, row_delta_change(table.metadata, [], [marked, gone]))
    commit(table, row_delta_change(table.metadata, [], [], removed_deletes=[RemovedFile.of(gone)]))
    (manifest,) = [m for m, _ in manifest_headers(table) if m.content == ManifestContent.DELETES]
    content = Path(manifest.manifest_path.removeprefix("file://")).read_bytes()
    avro = AvroFile.parse(content, manifest.manifest_path)
    reader = EntryReader.of(avro.schema, manifest.manifest_path)
    found = {
        entry.file_path: reader.file(block, entry)[143]
        for count, block in avro.blocks()
        for entry in reader.entries(count, block)
    }
    assert found == {marked.file_path: file.file_path, gone.file_path: None}


EVERY_TYPE: list[tuple[Any, Any]] = [
    (BooleanType(), True),
    (IntegerType(), -7),
    (LongType(), 2**40),
    (FloatType(), 1.5),
    (DoubleType(), float("nan")),
    (DecimalType(9, 2), Decimal("-12.34")),
    (DecimalType(9, 2), Decimal("99.00")),
    (DateType(), 20454),
    (TimeType(), 3_600_000_000),
    (TimestampType(), 1_767_225_600_000_000),
    (TimestamptzType(), 1_767_225_600_000_000),
    (StringType(), "größer/als=1"),
    (UUIDType(), uuid.UUID(int=5)),
    (UUIDType(), uuid.UUID(int=2**127)),
    (FixedType(3), b"abc"),
    (BinaryType(), b"\x00\xff"),
]


def test_partition_values_of_every_type_survive_writing_filtering_and_merging(tmp_path: Path) -> None:
    fields = [
        NestedField(number, f"c{number}", kind, required=False) for number, (kind, _) in enumerate(EVERY_TYPE, start=1)
    ]
    spec = PartitionSpec(*(PartitionField(f.field_id, 999 + f.field_id, IdentityTransform(), f.name) for f in fields))
    table = local_catalog(tmp_path).create_table(
        "db.t", Schema(*fields), partition_spec=spec, properties={"commit.manifest.min-count-to-merge": "2"}
    )
    values = [value for _, value in EVERY_TYPE]
    empty = [None] * len(values)
    rows = [{"c1": True}]
    kept = data_file(table, rows, partition=values)
    null, gone = data_file(table, rows, partition=empty), data_file(table, rows, partition=values)
    append(table, kept, null, gone)

    def check() -> None:
        found = live_entries(table)
        assert repr(found[kept.file_path].data_file.partition) == repr(kept.partition)
        assert found[null.file_path].data_file.partition._data == empty

    check()
    result = commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(gone)]))
    assert result.removed_data_files == 1
    check()
    append(table, data_file(table, rows, partition=values))  # merges
    assert len(manifest_headers(table)) == 1
    check()
    (manifest,) = [m for m, _ in manifest_headers(table)]
    assert [summary.contains_null for summary in manifest.partitions] == [True] * len(values)
    assert [bool(s.contains_nan) for s in manifest.partitions] == [isinstance(v, float) and v != v for v in values]


def test_a_widened_partition_column_does_not_disturb_a_merge(tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=False), NestedField(2, "x", FloatType(), required=False)
    )
    spec = PartitionSpec(
        PartitionField(1, 1000, IdentityTransform(), "id"), PartitionField(2, 1001, IdentityTransform(), "x")
    )
    table = local_catalog(tmp_path).create_table(
        "db.t", schema, partition_spec=spec, properties={"commit.manifest.min-count-to-merge": "2"}
    )
    append(table, data_file(table, [{"id": -5, "x": 0.5}]))
    with table.update_schema() as update:
        update.update_column("id", LongType())
        update.update_column("x", DoubleType())
    append(table, data_file(table, [{"id": 2**40, "x": 0.25}]))
    (manifest,) = [m for m, _ in manifest_headers(table)]
    bounds = [(s.lower_bound, s.upper_bound) for s in manifest.partitions]
    assert bounds[0] == ((-5).to_bytes(8, "little", signed=True), (2**40).to_bytes(8, "little"))
    assert sorted(tuple(e.data_file.partition._data) for e in live_entries(table).values()) == [
        (-5, 0.5),
        (2**40, 0.25),
    ]


def test_transforms_of_hours_and_prefixes_are_plain_values(tmp_path: Path) -> None:
    spec = PartitionSpec(
        PartitionField(2, 1000, HourTransform(), "ts_hour"),
        PartitionField(3, 1001, TruncateTransform(1), "region_trunc"),
    )
    table = local_catalog(tmp_path).create_table("db.t", EVENTS, partition_spec=spec)
    append(table, data_file(table, events(1, hour=5)))
    (entry,) = live_entries(table).values()
    hours = int((datetime(2026, 1, 1, 5) - datetime(1970, 1, 1)).total_seconds() // 3600)
    assert entry.data_file.partition._data == [hours, "e"]


def test_struct_without_fields_has_no_summary(tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table("db.t", EVENTS)
    append(table, data_file(table, events(1)))
    (manifest,) = [m for m, _ in manifest_headers(table)]
    assert manifest.partitions == []
    assert table.specs()[0].partition_type(EVENTS) == StructType()


def test_partitions_that_java_wrote_without_a_type_are_read_and_carried_over(tmp_path: Path) -> None:
    """Java's rewrite_manifests does that where the source column was dropped; the values are lost then."""
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))
    table = local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=spec)
    kept, gone = data_file(table, events(1)), data_file(table, events(1, first=10))
    append(table, kept, gone)
    (manifest,) = [m for m, _ in manifest_headers(table)]
    path = Path(manifest.manifest_path.removeprefix("file://"))
    avro = AvroFile.parse(path.read_bytes(), manifest.manifest_path)
    reader = EntryReader.of(avro.schema, manifest.manifest_path)
    untyped = avro.schema
    (partition,) = [f["type"] for f in untyped["fields"][-1]["type"]["fields"] if f["name"] == "partition"]
    partition["fields"][0]["type"] = "null"
    writer = EntryWriter.of(untyped)
    entries = [
        writer.entry(entry.status, entry.snapshot_id, None, None, writer.file(reader.file(block, entry)))
        for count, block in avro.blocks()
        for entry in reader.entries(count, block)
    ]
    # As long as the manifest list says, or longer: a shorter file would count as cut off.
    header = {**avro.metadata, "avro.schema": json.dumps(untyped).encode(), "padding": b" " * 100}
    with ThreadPoolExecutor(1) as executor:
        path.write_bytes(encode_file(header, [(2, b"".join(entries))], Codec("deflate"), executor))
    (rows,) = read_ledger(table.metadata, table.io).data.values()
    assert rows.column("partition").to_pylist() == [{"region": None}, {"region": None}]
    commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(gone)]))
    (rows,) = read_ledger(table.metadata, table.io).data.values()
    assert rows.column("file_path").to_pylist() == [kept.file_path]
