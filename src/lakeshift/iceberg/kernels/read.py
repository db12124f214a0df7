"""Reads data files as the table's rows: deletes applied, columns as the table's schema has them today.

Plain pyarrow over the table's FileIO: no Spark and no catalog, and little to do for each file, so that many small
files read nearly as fast as one large one. What lies in a file as it is wanted is passed on without a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField

from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.arrow_schema import arrow_schema, arrow_type_of
from lakeshift.iceberg.kernels.applied_deletes import DeleteFile, DeleteReader, KeySet, check_delete_file
from lakeshift.iceberg.kernels.file_columns import ColumnPlan, FileFields, file_fields
from lakeshift.iceberg.kernels.opening import opened
from lakeshift.iceberg.kernels.row_groups import row_groups_that_can_match
from lakeshift.iceberg.row_filter import RowFilter

Positions: TypeAlias = npt.NDArray[np.int64]

BATCH_ROWS = 131_072
_FETCHED_AT_ONCE = 128 * 1024 * 1024

# Columns that are not in any file, by the names that Iceberg gives them.
METADATA_COLUMNS: Mapping[str, pa.Field] = {
    "_file": pa.field("_file", pa.string(), nullable=False),
    "_pos": pa.field("_pos", pa.int64(), nullable=False),
    "_spec_id": pa.field("_spec_id", pa.int32(), nullable=False),
}


@dataclass(frozen=True)
class FileToRead:
    """A data file, or a stretch of one, with the delete files that apply to it.

    ``partition`` has the file's values in the order of its spec's fields, as Arrow gives them to Python. ``stretch``
    are the bytes in which the row groups to read begin, from the first up to before the second; None is all of them.
    """

    path: str
    file_format: str
    length: int
    spec_id: int
    partition: tuple[Any, ...]
    record_count: int
    deletes: tuple[DeleteFile, ...] = ()
    stretch: tuple[int, int] | None = None


@dataclass(frozen=True)
class ReadContext:
    """What reading any file of a table needs to know; picklable, without credentials.

    ``schema`` is the one that rows are read as, ``columns`` are the top-level columns of it that are wanted, in
    their order, and ``metadata_columns`` come after them. ``where`` names columns of ``schema``. It skips row
    groups; rows are only left out by it if ``exact`` says that it means the same to Spark. ``schemas`` are all of
    the table's, newest first: equality deletes may compare columns that are gone.
    """

    schema: Schema
    columns: tuple[str, ...]
    schemas: tuple[Schema, ...]
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None = None
    where: BooleanExpression | None = None
    exact: bool = False
    metadata_columns: tuple[str, ...] = ()
    batch_rows: int = BATCH_ROWS

    @cached_property
    def fields(self) -> tuple[NestedField, ...]:
        """The wanted columns."""
        by_name = {field.name: field for field in self.schema.fields}
        return tuple(by_name[name] for name in self.columns)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema of the batches that are read."""
        unknown = [name for name in self.metadata_columns if name not in METADATA_COLUMNS]
        if unknown:
            raise ConfigError(f"There is no metadata column {unknown[0]!r}; there are {', '.join(METADATA_COLUMNS)}.")
        return pa.schema([*arrow_schema(Schema(*self.fields)), *(METADATA_COLUMNS[n] for n in self.metadata_columns)])

    @cached_property
    def row_filter(self) -> RowFilter | None:
        return RowFilter(self.where, self.schema) if self.where is not None and self.exact else None


@dataclass(frozen=True)
class Chosen:
    """Rows of a file by their positions, sorted: some of them, or all but some."""

    only: Positions | None = None
    gone: Positions = field(default_factory=lambda: np.empty(0, np.int64))

    def without(self, gone: Positions) -> Chosen:
        """The same rows, less some."""
        if not len(gone):
            return self
        if self.only is not None:
            return Chosen(np.setdiff1d(self.only, gone, assume_unique=True))
        return Chosen(gone=np.union1d(self.gone, gone) if len(self.gone) else gone)

    def any_in(self, position: int, rows: int) -> bool:
        """Whether rows of a stretch may be chosen."""
        if self.only is None:
            return True
        first, last = np.searchsorted(self.only, (position, position + rows))
        return bool(last > first)

    def mask(self, position: int, rows: int) -> pa.BooleanArray | None:
        """Which rows of a batch that begins at a position are chosen; None if all are."""
        named = self.gone if self.only is None else self.only
        first, last = np.searchsorted(named, (position, position + rows))
        if self.only is None and first == last:
            return None
        found = np.full(rows, self.only is None)
        found[named[first:last] - position] = self.only is not None
        return pa.array(found)


EVERY_ROW = Chosen()


def check_readable(files: Iterable[FileToRead]) -> None:
    """Raise an UnsupportedTableError that names the first file which cannot be read, before anything runs."""
    checked: set[str] = set()
    for file in files:
        if file.file_format.upper() != FileFormat.PARQUET.value:
            raise UnsupportedTableError(
                f"{file.path} is a data file in {file.file_format}; lakeshift reads {FileFormat.PARQUET.value}. "
                "Rewrite the table's files with another engine first."
            )
        for delete in file.deletes:
            if delete.path not in checked:
                check_delete_file(delete)
                checked.add(delete.path)


def read_file(file: FileToRead, context: ReadContext, io: FileIO) -> Iterator[pa.RecordBatch]:
    """The rows of one data file; to read several, a `FileReader` keeps what they share."""
    return FileReader(context, io).read(file)


class FileReader:
    """Reads the files of one task, and keeps what they share: delete files, and how columns are to be read."""

    def __init__(self, context: ReadContext, io: FileIO) -> None:
        self._context = context
        self._io = io
        self._deletes = DeleteReader(io, context.schemas)
        self._fields: dict[bytes, FileFields] = {}
        self._plans: dict[tuple[bytes, tuple[tuple[int, ...], ...]], _Plan] = {}

    def read(self, file: FileToRead, chosen: Chosen = EVERY_ROW) -> Iterator[pa.RecordBatch]:
        """The live rows of a data file, in the order of the file; no batch is empty."""
        chosen = chosen.without(self._deletes.positions(file.path, file.deletes))
        key_sets = self._deletes.key_sets(file.deletes)
        few = chosen.only is not None or self._context.row_filter is not None
        with opened(file.path, self._io) as source, _parquet(source, file, few_rows=few) as parquet:
            fields, plan = self._plan(parquet.schema_arrow, file, key_sets)
            identity = self._identity(file)
            names = list(dict.fromkeys([*plan.wanted.names(identity), *plan.tested.names(identity)]))
            for start, groups in self._runs(parquet, file, fields, chosen):
                position = start
                for batch in _batches(parquet, groups, names, self._context.batch_rows):
                    rows = self._rows(batch, file, plan, identity, position, chosen, key_sets)
                    if rows.num_rows:
                        yield rows
                    position += batch.num_rows

    def _plan(self, schema: pa.Schema, file: FileToRead, key_sets: list[KeySet]) -> tuple[FileFields, _Plan]:
        written = schema.remove_metadata().serialize().to_pybytes()
        if written not in self._fields:
            self._fields[written] = file_fields(schema, self._context.name_mapping, file.path)
        keys = tuple(key_set.ids for key_set in key_sets)
        if (written, keys) not in self._plans:
            self._plans[written, keys] = _Plan.of(self._context, self._fields[written], key_sets, file.path)
        return self._fields[written], self._plans[written, keys]

    def _identity(self, file: FileToRead) -> dict[int, Any]:
        """The values of the columns by which a file is partitioned as they are."""
        spec = self._context.specs[file.spec_id]
        return {
            field.source_id: value
            for field, value in zip(spec.fields, file.partition, strict=True)
            if isinstance(field.transform, IdentityTransform)
        }

    def _runs(
        self, parquet: pq.ParquetFile, file: FileToRead, fields: FileFields, chosen: Chosen
    ) -> Iterator[tuple[int, list[int]]]:
        """The row groups to read, those that follow each other together, each with the position of its first row."""
        metadata = parquet.metadata
        everything = self._context.where is None and chosen.only is None
        if file.stretch is None and (metadata.num_row_groups == 1 or everything):
            yield 0, list(range(metadata.num_row_groups))
            return
        wanted = _groups_in(metadata, file.stretch)
        if self._context.where is not None and metadata.num_row_groups > 1:
            matching = row_groups_that_can_match(metadata, fields, self._context.where, self._context.schema)
            wanted = [group for group in wanted if matching[group]]
        run: list[int] = []
        start = run_start = 0
        for group in range(metadata.num_row_groups):
            if group in wanted and chosen.any_in(start, metadata.row_group(group).num_rows):
                run_start = run_start if run else start
                run.append(group)
            elif run:
                yield run_start, run
                run = []
            start += metadata.row_group(group).num_rows
        if run:
            yield run_start, run

    def _rows(
        self,
        batch: pa.RecordBatch,
        file: FileToRead,
        plan: _Plan,
        identity: Mapping[int, Any],
        position: int,
        chosen: Chosen,
        key_sets: list[KeySet],
    ) -> pa.RecordBatch:
        keep = chosen.mask(position, batch.num_rows)
        tested = plan.tested.arrays(batch, identity)
        for keys, columns in zip(key_sets, plan.keys, strict=True):
            keep = _and(keep, pc.invert(keys.deleted([tested[index] for index in columns])))
        if plan.row_filter is not None:
            filtered = [tested[index] for index in plan.filtered]
            keep = _and(keep, plan.row_filter.mask(pa.RecordBatch.from_arrays(filtered, names=plan.filter_names)))
        own = [_metadata_column(name, file, position, batch.num_rows) for name in self._context.metadata_columns]
        # Rows go before columns are brought to the table's types: there is less to bring.
        if keep is not None and keep.true_count < len(keep):
            batch, own = batch.filter(keep), [column.filter(keep) for column in own]
        arrays = plan.wanted.arrays(batch, identity)
        return pa.RecordBatch.from_arrays([*arrays, *own], schema=self._context.arrow)


@dataclass(frozen=True)
class _Plan:
    """The columns to make of a file: those that are wanted, and those that deletes and the filter look at."""

    wanted: ColumnPlan
    tested: ColumnPlan
    keys: tuple[tuple[int, ...], ...]
    row_filter: RowFilter | None
    filtered: tuple[int, ...]
    filter_names: list[str]

    @classmethod
    def of(cls, context: ReadContext, fields: FileFields, key_sets: list[KeySet], location: str) -> _Plan:
        wanted = list(context.fields)
        types = [context.arrow.field(index).type for index in range(len(wanted))]
        tested: list[NestedField] = []
        tested_types: list[pa.DataType] = []
        keys = []
        for key_set in key_sets:
            keys.append(tuple(range(len(tested), len(tested) + len(key_set.fields))))
            tested += [key.field for key in key_set.fields]
            tested_types += [key.arrow for key in key_set.fields]
        filtered, names = [], []
        if context.row_filter is not None:
            for field in context.row_filter.needed_schema().fields:
                whole = context.schema.find_field(field.field_id)
                filtered.append(len(tested))
                names.append(whole.name)
                tested.append(whole)
                tested_types.append(arrow_type_of(whole.field_type))
        return cls(
            ColumnPlan(fields, wanted, types, location),
            ColumnPlan(fields, tested, tested_types, location),
            tuple(keys),
            context.row_filter,
            tuple(filtered),
            names,
        )


def _parquet(source: Any, file: FileToRead, *, few_rows: bool) -> pq.ParquetFile:
    # An object store is asked for all columns at once, unless that might take too much memory.
    remote = not isinstance(source, pa.MemoryMappedFile) and file.length <= _FETCHED_AT_ONCE
    # Old writers' INT96 would otherwise become nanoseconds, which end in 2262.
    options: dict[str, Any] = {"pre_buffer": remote, "coerce_int96_timestamp_unit": "us"}
    if few_rows:
        # Where most rows go at once, their text need not be made of the dictionary first: that is half of the work.
        options["metadata"] = metadata = pq.read_metadata(source)
        options["read_dictionary"] = _of_few_values(metadata)
    return pq.ParquetFile(source, **options)


def _of_few_values(metadata: pq.FileMetaData) -> list[int]:
    """The top-level text columns that are stored by dictionary, and not as they are from some page on."""
    found = []
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        if column.physical_type == "BYTE_ARRAY" and column.path == column.name:
            chunks = [metadata.row_group(group).column(index) for group in range(metadata.num_row_groups)]
            # As it is, a text takes four bytes for its length alone.
            if all(c.has_dictionary_page and c.total_uncompressed_size < 4 * c.num_values for c in chunks):
                found.append(index)
    return found


def _batches(parquet: pq.ParquetFile, groups: list[int], names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    if names:
        yield from parquet.iter_batches(rows, row_groups=groups, columns=names, use_threads=False)
        return
    # Nothing of the file is wanted but the number of its rows.
    left = sum(parquet.metadata.row_group(group).num_rows for group in groups)
    while left > 0:
        count = min(left, rows)
        yield pa.RecordBatch.from_arrays([pa.nulls(count)], names=[""])
        left -= count


def _groups_in(metadata: pq.FileMetaData, stretch: tuple[int, int] | None) -> list[int]:
    groups = range(metadata.num_row_groups)
    if stretch is None:
        return list(groups)
    return [group for group in groups if stretch[0] <= _begin(metadata.row_group(group)) < stretch[1]]


def rows_in_stretch(metadata: pq.FileMetaData, stretch: tuple[int, int]) -> int:
    """How many rows the row groups have that begin in these bytes."""
    return sum(metadata.row_group(group).num_rows for group in _groups_in(metadata, stretch))


def _begin(group: pq.RowGroupMetaData) -> int:
    """The byte at which a row group begins."""
    column = group.column(0)
    begin = column.data_page_offset
    return int(min(begin, column.dictionary_page_offset) if column.has_dictionary_page else begin)


def _metadata_column(name: str, file: FileToRead, position: int, rows: int) -> pa.Array:
    match name:
        case "_file":
            return pa.repeat(pa.scalar(file.path), rows)
        case "_pos":
            return pa.array(np.arange(position, position + rows))
        case _:
            return pa.repeat(pa.scalar(file.spec_id, pa.int32()), rows)


def _and(left: Any, right: Any) -> Any:
    return right if left is None else pc.and_(left, right)
