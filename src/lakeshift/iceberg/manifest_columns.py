"""One manifest as Arrow columns: names, types and the values that an entry inherits from its manifest.

Names in a manifest are only decoration: fields are found by the ids that the Iceberg spec gives them,
read from the Avro header. Nothing here knows of snapshots, and no Python object is made per file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from datafusion import SessionContext
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import UnknownTransform

from lakeshift.errors import ConfigError
from lakeshift.iceberg.avro_files import LocalAvro, fields_by_id
from lakeshift.iceberg.partition_types import arrow_type, partition_field_type

_COUNTS = pa.map_(pa.int32(), pa.int64())
_BOUNDS = pa.map_(pa.int32(), pa.binary())
_PARTITION = "partition"
# Field ids of the Iceberg spec.
_DATA_FILE_ID = 2
_PARTITION_ID = 102
_LIST_MANIFEST_PATH = 500
_LIST_FIRST_ROW_ID = 520

# Every column of a ledger row: its type, and the field id under which a manifest stores it. Those with
# no id are known from the manifest itself. The partition's type is the spec's own.
_ENTRY_FIELDS: Mapping[str, tuple[pa.DataType, int]] = {
    "status": (pa.int32(), 0),
    "snapshot_id": (pa.int64(), 1),
    "sequence_number": (pa.int64(), 3),
    "file_sequence_number": (pa.int64(), 4),
}
_MANIFEST_FIELDS: Mapping[str, pa.DataType] = {
    "spec_id": pa.int32(),
    "manifest_path": pa.dictionary(pa.int32(), pa.string()),
}
_FILE_FIELDS: Mapping[str, tuple[pa.DataType, int]] = {
    "content": (pa.int32(), 134),
    "file_path": (pa.string(), 100),
    "file_format": (pa.string(), 101),
    _PARTITION: (pa.struct([]), _PARTITION_ID),
    "record_count": (pa.int64(), 103),
    "file_size_in_bytes": (pa.int64(), 104),
    "column_sizes": (_COUNTS, 108),
    "value_counts": (_COUNTS, 109),
    "null_value_counts": (_COUNTS, 110),
    "nan_value_counts": (_COUNTS, 137),
    "lower_bounds": (_BOUNDS, 125),
    "upper_bounds": (_BOUNDS, 128),
    "key_metadata": (pa.binary(), 131),
    "split_offsets": (pa.list_(pa.int64()), 132),
    "equality_ids": (pa.list_(pa.int32()), 135),
    "sort_order_id": (pa.int32(), 140),
    "first_row_id": (pa.int64(), 142),
    "referenced_data_file": (pa.string(), 143),
    "content_offset": (pa.int64(), 144),
    "content_size_in_bytes": (pa.int64(), 145),
}

COLUMNS: tuple[str, ...] = (*_ENTRY_FIELDS, *_MANIFEST_FIELDS, *_FILE_FIELDS)


def check_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns asked for, all if None; a name that no ledger row has is an error."""
    if columns is None:
        return COLUMNS
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise ConfigError(f"The ledger has no column {unknown[0]!r}; it has {', '.join(COLUMNS)}.")
    return tuple(dict.fromkeys(columns))


def read_first_row_ids(context: SessionContext, manifest_list: LocalAvro) -> dict[str, int]:
    """From a v3 manifest list: where the row ids of each data manifest begin, by manifest path."""
    fields = fields_by_id(manifest_list.header.schema)
    if _LIST_FIRST_ROW_ID not in fields:  # the list was written before the table became v3
        return {}
    paths, firsts = fields[_LIST_MANIFEST_PATH]["name"], fields[_LIST_FIRST_ROW_ID]["name"]
    return {
        manifest: first
        for batch in manifest_list.batches(context, structs={})
        for manifest, first in zip(batch.column(paths).to_pylist(), batch.column(firsts).to_pylist(), strict=True)
        if first is not None
    }


@dataclass(frozen=True)
class ManifestColumns:
    """Reads the asked-for columns of one manifest, batch by batch."""

    manifest: ManifestFile
    spec: PartitionSpec
    schemas: Sequence[Schema]
    columns: tuple[str, ...]
    live_only: bool
    manifest_path: pa.DictionaryScalar
    first_row_id: int | None = None

    def read(self, context: SessionContext, avro: LocalAvro) -> list[pa.RecordBatch]:
        """Decode the manifest from where it lies on this machine."""
        entry_fields = fields_by_id(avro.header.schema)
        file_fields = fields_by_id(entry_fields[_DATA_FILE_ID]["type"])
        entries = _stored_names(_ENTRY_FIELDS, entry_fields)
        files = {
            name: stored for name, stored in _stored_names(_FILE_FIELDS, file_fields).items() if name in self._needed
        }
        data_file = entry_fields[_DATA_FILE_ID]["name"]
        partition = self._partition_retyping(avro, file_fields.get(_PARTITION_ID))
        row_ids = _RowIds(self.first_row_id)
        batches = []
        for raw in avro.batches(context, structs={data_file: frozenset(files.values())}):
            stored = {name: raw.column(column) for name, column in entries.items()}
            # The struct's own validity is not looked at: the file of an entry is required.
            stored |= {name: raw.column(data_file).field(column) for name, column in files.items()}
            batch = self._finish(stored, raw.num_rows, partition, row_ids)
            if batch.num_rows:
                batches.append(batch)
        # Decoders leave buffers with room to grow; over a million files that would be hundreds of megabytes.
        return pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []

    def _partition_retyping(self, avro: LocalAvro, stored: Mapping[str, Any] | None) -> _PartitionRetyping:
        by_id = fields_by_id(stored["type"]) if stored else {}
        return _PartitionRetyping(
            tuple(field.name for field in self.spec.fields),
            tuple(by_id[field.field_id]["name"] if field.field_id in by_id else None for field in self.spec.fields),
            tuple(self._partition_type(field, avro) for field in self.spec.fields),
        )

    def _partition_type(self, field: PartitionField, avro: LocalAvro) -> pa.DataType | None:
        """The type of a partition field's values; None leaves them as they were decoded."""
        if isinstance(field.transform, UnknownTransform):  # which says nothing about its results
            return None
        known = partition_field_type(field, self.schemas)
        written_with = avro.header.metadata.get("schema")
        if known is None and written_with:
            known = partition_field_type(field, [Schema.model_validate_json(written_with)])
        return None if known is None else arrow_type(known)

    @property
    def _needed(self) -> frozenset[str]:
        more = {"record_count"} if "first_row_id" in self.columns else set()
        return frozenset(self.columns) | more

    def _finish(
        self, stored: Mapping[str, pa.Array], rows: int, partition: _PartitionRetyping, row_ids: _RowIds
    ) -> pa.RecordBatch:
        status = stored["status"].cast(pa.int32())
        finished: list[pa.Array] = []
        fields: list[pa.Field] = []
        for name in self.columns:
            if name == _PARTITION:
                array = partition.apply(stored.get(name), rows)
            elif name == "first_row_id":
                array = row_ids.inherit(stored, status)
            elif name in _ENTRY_FIELDS:
                array = self._inherit(name, stored.get(name), status)
            elif name == "spec_id":
                array = _constant(pa.scalar(self.manifest.partition_spec_id, pa.int32()), rows)
            elif name == "manifest_path":
                array = pa.DictionaryArray.from_arrays(
                    _constant(self.manifest_path.index, rows), self.manifest_path.dictionary
                )
            else:
                array = _retyped_file_field(name, stored.get(name), rows)
            finished.append(array)
            fields.append(pa.field(name, array.type))
        batch = pa.record_batch(finished, schema=pa.schema(fields))
        if self.live_only and self.manifest.deleted_files_count != 0:
            live = pc.not_equal(status, ManifestEntryStatus.DELETED.value)
            if not pc.all(live).as_py():
                batch = batch.filter(live)
        return batch

    def _inherit(self, name: str, array: pa.Array | None, status: pa.Array) -> pa.Array:
        """Fill in what the writer left to the manifest list to say, as the Iceberg spec describes inheritance."""
        if name == "status":
            return status
        values = pa.nulls(len(status), pa.int64()) if array is None else array.cast(pa.int64())
        if values.null_count == 0:
            return values
        if name == "snapshot_id":
            added_by = self.manifest.added_snapshot_id
            return values if added_by is None else values.fill_null(added_by)
        sequence_number = self.manifest.sequence_number
        if sequence_number == 0:  # a v1 manifest: all its files are older than every sequence number
            return values.fill_null(0)
        inherits = pc.and_(values.is_null(), pc.equal(status, ManifestEntryStatus.ADDED.value))
        return pc.if_else(inherits, pa.scalar(sequence_number, pa.int64()), values)


class _RowIds:
    """Hands out v3 row ids to files that have none yet, in the order of the manifest."""

    def __init__(self, first: int | None) -> None:
        self._next = first

    def inherit(self, stored: Mapping[str, pa.Array], status: pa.Array) -> pa.Array:
        array = stored.get("first_row_id")
        values = pa.nulls(len(status), pa.int64()) if array is None else array.cast(pa.int64())
        if self._next is None or values.null_count == 0:
            return values
        assigned = pc.and_(values.is_null(), pc.not_equal(status, ManifestEntryStatus.DELETED.value))
        counts = pc.if_else(assigned, stored["record_count"], 0)
        ends = pc.cumulative_sum(counts, start=pa.scalar(self._next, pa.int64()))
        self._next = ends[-1].as_py()
        return pc.if_else(assigned, pc.subtract(ends, counts), values)


@dataclass(frozen=True)
class _PartitionRetyping:
    """Brings a decoded partition struct to the spec's field names and result types."""

    names: tuple[str, ...]
    stored_names: tuple[str | None, ...]
    types: tuple[pa.DataType | None, ...]

    def apply(self, struct: pa.StructArray | None, rows: int) -> pa.StructArray:
        if not self.names:
            return pa.Array.from_buffers(pa.struct([]), rows, [None])
        children, fields = [], []
        for name, stored_name, wanted in zip(self.names, self.stored_names, self.types, strict=True):
            if struct is None or stored_name is None:
                child = pa.nulls(rows, wanted or pa.null())
            else:
                child = struct.field(stored_name)
            child = child if wanted is None or child.type == wanted else _retyped(child, wanted)
            children.append(child)
            fields.append(pa.field(name, child.type))
        return pa.StructArray.from_arrays(children, fields=fields)


def _stored_names(
    fields: Mapping[str, tuple[pa.DataType, int]], avro_fields: Mapping[int, Mapping[str, Any]]
) -> dict[str, str]:
    return {name: avro_fields[number]["name"] for name, (_, number) in fields.items() if number in avro_fields}


def _retyped_file_field(name: str, array: pa.Array | None, rows: int) -> pa.Array:
    wanted, _ = _FILE_FIELDS[name]
    if array is None:
        # v1 manifests hold data files only and do not say so.
        return _constant(pa.scalar(0, wanted), rows) if name == "content" else pa.nulls(rows, wanted)
    if name == "file_format":
        array = pc.utf8_upper(array)  # the case of format names differs between writers
    return array if array.type == wanted else _retyped(array, wanted)


def _retyped(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_map(wanted):
        return _list_to_map(array, wanted)
    return array.cast(wanted)


def _list_to_map(array: pa.ListArray, wanted: pa.MapType) -> pa.MapArray:
    """Avro has no maps with integer keys: writers store lists of pairs, which have the very layout of a map."""
    entries = array.values
    pairs = pa.StructArray.from_arrays(
        [_retyped_pair(entries.field(0), wanted.key_type), _retyped_pair(entries.field(1), wanted.item_type)],
        fields=[wanted.key_field, wanted.item_field],
    )
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        wanted, len(array), [validity, offsets], array.null_count, array.offset, children=[pairs]
    )


def _retyped_pair(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return array if array.type == wanted else array.cast(wanted)


def _constant(value: pa.Scalar, rows: int) -> pa.Array:
    return pa.repeat(value, rows)
