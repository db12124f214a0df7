"""Marks rows of data files, and reads files by what was marked. No Spark and no catalog here.

Marking decides once which rows an operation changes. Whatever happens to them afterwards goes by these marks, so that
no condition is evaluated twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema

from lakeshift.iceberg.kernels.applied_deletes import DeleteFile, DeleteReader
from lakeshift.iceberg.kernels.position_deletes import (
    DeleteLayout,
    MarkedFile,
    PositionDeleteWriter,
    Positions,
    WrittenDeletes,
    row_ids,
    row_positions,
)
from lakeshift.iceberg.kernels.read import Chosen, FileReader, FileToRead, ReadContext
from lakeshift.iceberg.spark_types import to_spark
from lakeshift.kernel import Attempt, Batches

ROW_ID = "__lakeshift_row"
# Whether a row that was found is to be changed; those that are not still count as found.
ACTS = "__lakeshift_acts"


class NumberedFile(Protocol):
    """A data file with the number that its rows are marked with."""

    @property
    def number(self) -> int: ...
    @property
    def read(self) -> FileToRead: ...
    @property
    def marked(self) -> MarkedFile: ...


@dataclass(frozen=True)
class MarkedCount:
    """How many rows of a data file were marked."""

    number: int
    rows: int


@dataclass(frozen=True)
class MarkReport:
    """What one task marked. ``found_twice`` counts rows that came more than once."""

    deletes: list[WrittenDeletes]
    counts: list[MarkedCount]
    found_twice: int = 0


def mark_matching(
    task: Iterable[NumberedFile], attempt: Attempt, *, context: ReadContext, layout: DeleteLayout | None, io: FileIO
) -> Iterator[MarkReport]:
    """Mark the rows that the context's exact filter takes. It reads no other columns than the filter's.

    Without a layout rows are only counted.
    """
    files = list(task)
    reader = FileReader(replace(context, columns=(), metadata_columns=("_pos",)), io)

    def found() -> Iterator[tuple[int, Positions]]:
        for file in files:
            batches = [batch.column(0).to_numpy() for batch in reader.read(file.read)]
            yield file.number, np.concatenate(batches) if batches else np.empty(0, np.int64)

    yield _mark(found(), {file.number: file.marked for file in files}, attempt, layout, io)


def mark_rows(
    batches: Batches, attempt: Attempt, *, files: Mapping[int, MarkedFile], layout: DeleteLayout | None, io: FileIO
) -> Iterator[MarkReport]:
    """Mark rows that Spark found, by their ids; a row that came twice is marked once."""
    acting: list[pa.Array] = []
    twice = 0
    everything: list[pa.Array] = []
    for batch in batches:
        rows = batch.column(ROW_ID)
        if ACTS in batch.schema.names:
            everything.append(rows)
            rows = rows.filter(batch.column(ACTS))
        acting.append(rows)
    if everything:
        twice = sum(int(np.sum(np.diff(found) == 0)) for found in row_positions(everything).values())
    found = ((number, np.unique(positions)) for number, positions in row_positions(acting).items())
    yield replace(_mark(found, files, attempt, layout, io), found_twice=twice)


def _mark(
    found: Iterable[tuple[int, Positions]],
    files: Mapping[int, MarkedFile],
    attempt: Attempt,
    layout: DeleteLayout | None,
    io: FileIO,
) -> MarkReport:
    writer = None if layout is None else PositionDeleteWriter(layout, files, io, attempt)
    counts = []
    try:
        for number, positions in found:
            if len(positions):
                counts.append(MarkedCount(number, len(positions)))
                if writer is not None:
                    writer.add(number, positions)
        return MarkReport([] if writer is None else writer.finish(), counts)
    except BaseException:
        if writer is not None:
            writer.abort()
        raise


@dataclass(frozen=True)
class Keys:
    """Values that a column must have one of, as Arrow streams."""

    column: str
    streams: tuple[bytes, ...]

    def values(self) -> pa.Array:
        """All of them."""
        tables = [pa.ipc.open_stream(stream).read_all() for stream in self.streams]
        return pa.concat_tables(tables).column(0).combine_chunks()


@dataclass(frozen=True)
class PackedKeys:
    """The distinct keys that one task saw, as an Arrow stream."""

    stream: bytes


def pack_keys(batches: Batches, attempt: Attempt) -> Iterator[PackedKeys]:
    """The distinct values, without null, of the one column of a frame."""
    found = [pc.unique(batch.column(0)).drop_null() for batch in batches if batch.num_rows]
    if found:
        batch = pa.RecordBatch.from_arrays([pc.unique(pa.chunked_array(found))], names=["key"])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield PackedKeys(sink.getvalue().to_pybytes())


def read_with_ids(
    task: Iterable[NumberedFile], attempt: Attempt, *, context: ReadContext, io: FileIO, keys: Keys | None = None
) -> Batches:
    """The rows of some files as Spark takes them, and after their columns the id of each row.

    With ``keys`` only the rows that have one of them: the others need not go through Spark at all.
    """
    reader = FileReader(replace(context, metadata_columns=("_pos",)), io)
    convert = to_spark(Schema(*context.fields))
    wanted = None if keys is None else keys.values()
    for file in task:
        for batch in reader.read(file.read):
            chosen = batch
            if keys is not None:
                chosen = batch.filter(pc.is_in(batch.column(keys.column), value_set=wanted))
            if chosen.num_rows:
                yield _with_ids(chosen, file.number, convert)


@dataclass(frozen=True)
class FileWithMarks:
    """A data file, and the delete files that mark rows of it."""

    number: int
    read: FileToRead
    marks: tuple[tuple[str, int], ...]


def read_by_marks(
    task: Iterable[FileWithMarks],
    attempt: Attempt,
    *,
    context: ReadContext,
    io: FileIO,
    which: Literal["marked", "unmarked"],
) -> Batches:
    """The marked rows of some files with the id of each, or the unmarked ones, as Spark takes them."""
    reader = FileReader(replace(context, metadata_columns=("_pos",)), io)
    marks = DeleteReader(io, context.schemas)
    convert = to_spark(Schema(*context.fields))
    for file in task:
        marked = marks.positions(file.read.path, [_as_delete(*mark) for mark in file.marks])
        for batch in reader.read(file.read, Chosen(only=marked) if which == "marked" else Chosen(gone=marked)):
            yield _with_ids(batch, file.number, convert) if which == "marked" else convert(_without_last(batch))


def _as_delete(location: str, size: int) -> DeleteFile:
    return DeleteFile(location, FileFormat.PARQUET.value, DataFileContent.POSITION_DELETES.value, size)


def _without_last(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(list(range(batch.num_columns - 1)))


def _with_ids(batch: pa.RecordBatch, number: int, convert: object) -> pa.RecordBatch:
    assert callable(convert)
    rows = convert(_without_last(batch))
    ids = row_ids(number, batch.column(batch.num_columns - 1))
    return pa.RecordBatch.from_arrays(
        [*rows.columns, ids], schema=rows.schema.append(pa.field(ROW_ID, pa.int64(), nullable=False))
    )
