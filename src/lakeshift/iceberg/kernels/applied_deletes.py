"""The deletes that apply to a data file, as something that can be asked about its rows.

Position deletes and deletion vectors become sorted positions, equality deletes sets of keys in which null equals
null. What was read is kept for the other data files of the same task. Which delete files apply to which data file
was decided before: here they are taken as given.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.types import NestedField, StructType

from lakeshift.errors import UnsupportedTableError
from lakeshift.iceberg.arrow_schema import FIELD_ID, arrow_type_of
from lakeshift.iceberg.avro_files import LocalAvro, decoding_context, fields_by_id, local_avro
from lakeshift.iceberg.kernels.deletion_vector import Positions, deleted_positions
from lakeshift.iceberg.kernels.file_columns import ColumnPlan, file_fields
from lakeshift.iceberg.kernels.opening import opened
from lakeshift.iceberg.partition_key import PartitionNumbers
from lakeshift.locations import canonical_location, canonical_locations

# Names and field ids of the Iceberg spec.
_PATH, _POSITION = "file_path", "pos"
_PATH_ID, _POSITION_ID = 2147483546, 2147483545
_READABLE = {
    DataFileContent.POSITION_DELETES: (FileFormat.PARQUET, FileFormat.AVRO, FileFormat.ORC, FileFormat.PUFFIN),
    DataFileContent.EQUALITY_DELETES: (FileFormat.PARQUET, FileFormat.AVRO),
}


@dataclass(frozen=True)
class DeleteFile:
    """A delete file, as far as it has to be known to apply it."""

    path: str
    file_format: str
    content: int
    length: int
    equality_ids: tuple[int, ...] = ()
    content_offset: int | None = None
    content_size: int | None = None

    @property
    def is_equality(self) -> bool:
        return self.content == DataFileContent.EQUALITY_DELETES.value


def check_delete_file(file: DeleteFile) -> None:
    """Raise an UnsupportedTableError unless a delete file of this kind and format can be applied."""
    kind = DataFileContent(file.content)
    if file.file_format.upper() not in {known.value for known in _READABLE[kind]}:
        raise UnsupportedTableError(
            f"{file.path} holds {kind.name.lower().replace('_', ' ')} as {file.file_format}; lakeshift reads "
            f"{', '.join(known.value for known in _READABLE[kind])}. Compact the table with another engine first."
        )


@dataclass(frozen=True)
class KeyField:
    """A column that equality deletes compare: by the newest schema that has it, for it may have been dropped since."""

    field: NestedField
    arrow: pa.DataType
    path: tuple[str, ...]

    @classmethod
    def of(cls, field_id: int, schemas: Iterable[Schema]) -> KeyField:
        for schema in schemas:
            if field_id in schema.field_ids:
                pruned = prune_columns(schema, {field_id}, select_full_types=False)
                field = _optional(pruned.fields[0])
                return cls(field, arrow_type_of(field.field_type), tuple(_names(field)))
        raise UnsupportedTableError(
            f"An equality delete compares the column of id {field_id}, which no schema of the table has."
        )

    def values(self, column: Any) -> Any:
        return pc.struct_field(column, list(self.path)) if self.path else column


def _optional(field: NestedField) -> NestedField:
    """A file that lacks the column has null in it, whatever a schema demands."""
    kind = field.field_type
    if isinstance(kind, StructType):
        kind = StructType(*(_optional(child) for child in kind.fields))
    return NestedField(field.field_id, field.name, kind, required=False, initial_default=field.initial_default)


def _names(field: NestedField) -> Iterator[str]:
    """The names that lead from a top-level field, pruned to one path, down to its leaf."""
    while isinstance(field.field_type, StructType):
        field = field.field_type.fields[0]
        yield field.name


class KeySet:
    """Keys that equality deletes have deleted, over one set of columns."""

    def __init__(self, ids: tuple[int, ...], fields: tuple[KeyField, ...], batches: Sequence[Sequence[Any]]) -> None:
        self.ids = ids
        self.fields = fields
        keys = _keys(batches or [[field.values(pa.array([], field.arrow)) for field in fields]])
        self._numbering: PartitionNumbers | None = None
        self._sorted: npt.NDArray[np.int64] | None = None
        self._has_null = False
        single = pc.struct_field(keys, [0])
        if len(fields) == 1 and _is_whole_number(single.type):
            # Arrow would build its hash table anew for every batch; a sorted list is searched as it is.
            self._has_null = single.null_count > 0
            self._sorted = np.unique(_numbers(single.combine_chunks().drop_null()))
        else:
            self._numbering, _ = PartitionNumbers.of(keys)

    def deleted(self, columns: Sequence[Any]) -> Any:
        """For each row whether its key is in the set; ``columns`` are those of the fields, in their order."""
        values = [field.values(column) for field, column in zip(self.fields, columns, strict=True)]
        if self._numbering is not None:
            return self._numbering.look_up(_keys([values])).is_valid()
        assert self._sorted is not None
        numbers = _numbers(values[0])
        if not len(self._sorted):
            found = np.zeros(len(numbers), bool)
        else:
            places = np.searchsorted(self._sorted, numbers)
            found = self._sorted[np.minimum(places, len(self._sorted) - 1)] == numbers
        if values[0].null_count:
            found = np.where(values[0].is_null().to_numpy(zero_copy_only=False), self._has_null, found)
        return pa.array(found)


def _keys(batches: Sequence[Sequence[Any]]) -> pa.ChunkedArray:
    names = [str(index) for index in range(len(batches[0]))]
    return pa.chunked_array([pa.StructArray.from_arrays(list(values), names) for values in batches])


def _is_whole_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    """Whole numbers, dates and times as plain numbers; what stands for null is any."""
    plain = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    numbers: npt.NDArray[np.int64] = plain.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


class DeleteReader:
    """Reads delete files, each once."""

    def __init__(self, io: FileIO, schemas: Sequence[Schema]) -> None:
        self._io = io
        self._schemas = tuple(schemas)
        self._positions: dict[str, dict[str, Positions]] = {}
        self._vectors: dict[tuple[str, int | None], Positions] = {}
        self._keys: dict[tuple[str, tuple[int, ...]], list[list[Any]]] = {}
        self._sets: dict[tuple[tuple[int, ...], frozenset[str]], KeySet] = {}

    def positions(self, data_path: str, deletes: Iterable[DeleteFile]) -> Positions:
        """The deleted positions of a data file, sorted, each once."""
        found = [self._positions_in(file, data_path) for file in deletes if not file.is_equality]
        found = [positions for positions in found if len(positions)]
        if not found:
            return np.empty(0, np.int64)
        return np.unique(np.concatenate(found))

    def key_sets(self, deletes: Iterable[DeleteFile]) -> list[KeySet]:
        """The deleted keys, one set for each combination of columns."""
        by_ids: dict[tuple[int, ...], list[DeleteFile]] = {}
        for file in deletes:
            if file.is_equality:
                by_ids.setdefault(tuple(sorted(file.equality_ids)), []).append(file)
        return [self._key_set(ids, files) for ids, files in by_ids.items()]

    def _positions_in(self, file: DeleteFile, data_path: str) -> Positions:
        if file.file_format.upper() == FileFormat.PUFFIN.value:
            key = (file.path, file.content_offset)
            if key not in self._vectors:
                self._vectors[key] = self._read_vector(file)
            return self._vectors[key]
        if file.path not in self._positions:
            self._positions[file.path] = _by_path(self._read_positions(file))
        return self._positions[file.path].get(canonical_location(data_path), np.empty(0, np.int64))

    def _read_vector(self, file: DeleteFile) -> Positions:
        if file.content_offset is None or file.content_size is None:
            raise UnsupportedTableError(f"The manifest does not say where in {file.path} the deletion vector is.")
        with opened(file.path, self._io) as source:
            source.seek(file.content_offset)
            return deleted_positions(source.read(file.content_size), file.path)

    def _read_positions(self, file: DeleteFile) -> Iterator[tuple[Any, Any]]:
        """Paths and positions, batch by batch."""
        kind = file.file_format.upper()
        if kind == FileFormat.AVRO.value:
            with _avro(file, self._io) as avro:
                ids = fields_by_id(avro.header.schema)
                path, position = ids[_PATH_ID]["name"], ids[_POSITION_ID]["name"]
                for batch in avro.batches(decoding_context(), structs={}):
                    yield batch.column(path), batch.column(position)
        elif kind == FileFormat.ORC.value:
            with opened(file.path, self._io) as source:
                table = orc.ORCFile(source).read(columns=[_PATH, _POSITION])
                for batch in table.to_batches():
                    yield batch.column(_PATH), batch.column(_POSITION)
        else:
            with opened(file.path, self._io) as source, pq.ParquetFile(source, read_dictionary=[_PATH]) as parquet:
                for batch in parquet.iter_batches(columns=[_PATH, _POSITION], use_threads=False):
                    yield batch.column(_PATH), batch.column(_POSITION)

    def _key_set(self, ids: tuple[int, ...], files: list[DeleteFile]) -> KeySet:
        key = (ids, frozenset(file.path for file in files))
        if key not in self._sets:
            fields = tuple(KeyField.of(field_id, self._schemas) for field_id in ids)
            batches = [batch for file in files for batch in self._keys_in(file, ids, fields)]
            self._sets[key] = KeySet(ids, fields, batches)
        return self._sets[key]

    def _keys_in(self, file: DeleteFile, ids: tuple[int, ...], fields: tuple[KeyField, ...]) -> list[list[Any]]:
        if (file.path, ids) not in self._keys:
            self._keys[file.path, ids] = list(self._read_keys(file, fields))
        return self._keys[file.path, ids]

    def _read_keys(self, file: DeleteFile, fields: tuple[KeyField, ...]) -> Iterator[list[Any]]:
        wanted, arrow = [key.field for key in fields], [key.arrow for key in fields]
        if file.file_format.upper() == FileFormat.AVRO.value:
            for batch in self._avro_rows(file, fields):
                plan = ColumnPlan(file_fields(batch.schema, None, file.path), wanted, arrow, file.path)
                yield [key.values(column) for key, column in zip(fields, plan.arrays(batch, {}), strict=True)]
            return
        with opened(file.path, self._io) as source, pq.ParquetFile(source) as parquet:
            plan = ColumnPlan(file_fields(parquet.schema_arrow, None, file.path), wanted, arrow, file.path)
            for batch in parquet.iter_batches(columns=plan.names({}), use_threads=False):
                yield [key.values(column) for key, column in zip(fields, plan.arrays(batch, {}), strict=True)]

    def _avro_rows(self, file: DeleteFile, fields: tuple[KeyField, ...]) -> Iterator[pa.RecordBatch]:
        """The rows with their top-level field ids, which Arrow does not take over from Avro."""
        if nested := [key for key in fields if key.path]:
            raise UnsupportedTableError(
                f"{file.path} deletes by the nested column {nested[0].field.name!r} in Avro, which lakeshift cannot "
                "read. Compact the table with another engine first."
            )
        with _avro(file, self._io) as avro:
            ids = {field["name"]: str(number) for number, field in fields_by_id(avro.header.schema).items()}
            for batch in avro.batches(decoding_context(), structs={}):
                named = [field.with_metadata({FIELD_ID: ids[field.name].encode()}) for field in batch.schema]
                yield batch.cast(pa.schema(named))


@contextmanager
def _avro(file: DeleteFile, io: FileIO) -> Iterator[LocalAvro]:
    """An Avro file where it can be decoded, for as long as the block lasts."""
    with (
        tempfile.TemporaryDirectory(prefix="lakeshift-deletes-") as staging,
        local_avro(file.path, io, Path(staging, "deletes.avro"), file.length) as avro,
    ):
        yield avro


def _by_path(batches: Iterable[tuple[Any, Any]]) -> dict[str, Positions]:
    """Positions by the data file they are in, by the one spelling of its path."""
    found: dict[str, list[Positions]] = {}
    for paths, positions in batches:
        encoded = paths if pa.types.is_dictionary(paths.type) else paths.dictionary_encode()
        spelled = canonical_locations(encoded.dictionary.cast(pa.string())).to_pylist()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        numbers = positions.to_numpy(zero_copy_only=False).astype(np.int64)
        order = np.argsort(codes, kind="stable")
        bounds = np.flatnonzero(np.diff(codes[order])) + 1
        for chunk in np.split(order, bounds):
            if len(chunk):
                found.setdefault(spelled[codes[chunk[0]]], []).append(numbers[chunk])
    return {path: np.concatenate(chunks) for path, chunks in found.items()}
