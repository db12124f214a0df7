"""The rewrite kernels: data files are read, their deletes applied, and their rows written anew.

Rows that keep their partition go straight from file to file, as Arrow columns. Rows that move to another spec are
first sent, still as Arrow, to the task that writes their new partition. No Spark and no catalog here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mmh3
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.types import StructType

from lakeshift.iceberg.kernels.data_files import FileLayout, WrittenFile, encode_partition
from lakeshift.iceberg.kernels.even_writer import EvenWriter, Sizes
from lakeshift.iceberg.kernels.opening import opened
from lakeshift.iceberg.kernels.partitioned_writer import PartitionedWriter
from lakeshift.iceberg.kernels.prefetch import prefetched
from lakeshift.iceberg.kernels.read import FileReader, FileToRead, ReadContext, rows_in_stretch
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.partition_split import split_by_partition
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.kernel import Attempt, Batches

# A dictionary that takes up most of its column is only a detour.
_USELESS_DICTIONARY = 0.6
# Rows are read in batches of about so many bytes, as far as a file's size tells.
_BATCH_BYTES = 32 * 1024 * 1024
_UNPACKED = 6
# How many rows, or bytes, are sorted by the task that will write them at a time.
_CHUNK_ROWS = 512 * 1024
_CHUNK_BYTES = 64 * 1024 * 1024

MOVED_SCHEMA = pa.schema([("place", pa.int32()), ("rows", pa.binary())])


@dataclass(frozen=True)
class OutputSpec:
    """A spec that files are written under: the types and the paths of its partitions."""

    spec_id: int
    struct: StructType
    paths: PartitionPaths


@dataclass(frozen=True)
class RewriteJob:
    """What all tasks of a rewrite have in common. It pickles, and holds no secret."""

    layout: FileLayout
    context: ReadContext
    sizes: Sizes
    locations: DataLocations
    outputs: Mapping[int, OutputSpec]


@dataclass(frozen=True)
class RewriteTask:
    """Files whose rows go into one partition."""

    files: tuple[FileToRead, ...]
    output_spec_id: int
    partition: tuple[Any, ...]


@dataclass(frozen=True)
class MoveTask:
    """Files whose rows go to the tasks that write their partitions; ``places`` are the numbers of those."""

    files: tuple[FileToRead, ...]
    places: tuple[int, ...]


@dataclass(frozen=True)
class RewriteReport:
    """What one task wrote, and how long it took."""

    files: list[WrittenFile]
    seconds: float


def rewrite_files(task: RewriteTask, attempt: Attempt, *, job: RewriteJob, io: FileIO) -> Iterator[RewriteReport]:
    """Write the live rows of some files into one partition; if it fails, nothing of this attempt stays behind."""
    started = time.perf_counter()
    output = job.outputs[task.output_spec_id]
    path = output.paths.path(task.partition)
    layout = _with_dictionaries(job.layout, task.files, io)
    writer = EvenWriter(
        layout,
        job.sizes,
        output.spec_id,
        encode_partition(output.struct, task.partition),
        lambda name: job.locations.place(name, path),
        io,
        attempt,
    )
    try:
        with prefetched(_rows_and_share(task.files, job.context, io)) as batches:
            for batch, done in batches:
                writer.add(batch, done)
        yield RewriteReport(writer.finish(), time.perf_counter() - started)
    except BaseException:
        writer.abort()
        raise


def send_rows(task: MoveTask, attempt: Attempt, *, job: RewriteJob, spec_id: int, io: FileIO) -> Batches:
    """The live rows of some files, each with the number of the task that writes its partition."""
    values = PartitionValues(job.layout.schema, job.context.specs[spec_id])
    with prefetched(_rows_and_share(task.files, job.context, io)) as batches:
        for chunk in _chunks(batch for batch, _ in batches):
            by_place: dict[int, list[pa.RecordBatch]] = {}
            for partition, rows in split_by_partition(chunk, values.compute(chunk)):
                by_place.setdefault(_place(partition, task.places), []).append(rows)
            for place, pieces in by_place.items():
                yield _message(place, pa.concat_batches(pieces) if len(pieces) > 1 else pieces[0])


def write_moved(
    batches: Batches, attempt: Attempt, *, job: RewriteJob, spec_id: int, io: FileIO
) -> Iterator[RewriteReport]:
    """Write the rows that came to this task under their new spec; if it fails, nothing of this attempt stays behind."""
    started = time.perf_counter()
    output = job.outputs[spec_id]
    values = PartitionValues(job.layout.schema, job.context.specs[spec_id])

    def locate(partition: tuple[Any, ...], name: str) -> str:
        return job.locations.place(name, output.paths.path(partition))

    writer = PartitionedWriter(job.layout, spec_id, output.struct, locate, io, attempt)
    try:
        for batch in batches:
            for message in batch.column("rows"):
                rows = pa.ipc.read_record_batch(message.as_buffer(), job.layout.arrow)
                writer.add(split_by_partition(rows, values.compute(rows)), rows.nbytes)
        yield RewriteReport(writer.finish(), time.perf_counter() - started)
    except BaseException:
        writer.abort()
        raise


def _rows_and_share(
    files: Sequence[FileToRead], context: ReadContext, io: FileIO
) -> Iterator[tuple[pa.RecordBatch, float]]:
    """The rows of some files, each batch with the share of all input that has been read by then."""
    total = sum(_weight(file) for file in files) or 1
    reader = FileReader(_with_batch_rows(context, files), io)
    before = 0
    for file in files:
        weight = _weight(file)
        rows = 0
        expected = file.record_count if file.stretch is None else _rows_in_stretch(file, file.stretch, io)
        for batch in reader.read(file):
            rows += batch.num_rows
            within = min(1.0, rows / expected) if expected > 0 else 1.0
            yield batch, (before + weight * within) / total
        before += weight


def _weight(file: FileToRead) -> int:
    if file.stretch is None:
        return max(file.length, 1)
    return max(min(file.stretch[1], file.length) - file.stretch[0], 1)


def _rows_in_stretch(file: FileToRead, stretch: tuple[int, int], io: FileIO) -> int:
    with opened(file.path, io) as source, pq.ParquetFile(source) as parquet:
        return rows_in_stretch(parquet.metadata, stretch)


def _with_batch_rows(context: ReadContext, files: Sequence[FileToRead]) -> ReadContext:
    rows, size = sum(file.record_count for file in files), sum(file.length for file in files)
    fitting = int(_BATCH_BYTES / max(1.0, _UNPACKED * size / max(rows, 1)))
    return replace(context, batch_rows=max(1024, min(context.batch_rows, fitting)))


def _with_dictionaries(layout: FileLayout, files: Sequence[FileToRead], io: FileIO) -> FileLayout:
    """Use dictionaries where the largest input file has useful ones: trying them on other columns takes long."""
    largest = max(files, key=lambda file: file.length)
    with opened(largest.path, io) as source, pq.ParquetFile(source) as parquet:
        metadata = parquet.metadata
        if not metadata.num_row_groups:
            return layout
        group = metadata.row_group(0)
        columns = [group.column(index) for index in range(group.num_columns)]
    there = {column.path_in_schema: column for column in columns}
    paths = [leaf.parquet_path for leaf in layout.metrics.leaves]
    useful = [path for path in paths if path not in there or _is_useful(there[path])]
    arguments = {**layout.options.writer_arguments, "use_dictionary": useful}
    return replace(layout, options=replace(layout.options, writer_arguments=arguments))


def _is_useful(column: pq.ColumnChunkMetaData) -> bool:
    if not column.has_dictionary_page or column.dictionary_page_offset is None:
        return False
    dictionary = column.data_page_offset - column.dictionary_page_offset
    return bool(dictionary < _USELESS_DICTIONARY * column.total_compressed_size)


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def _place(partition: tuple[Any, ...], places: Sequence[int]) -> int:
    """The same place for the same partition, wherever it is worked out: not by Python's own hash, which varies."""
    return places[mmh3.hash(repr(partition), signed=False) % len(places)]


def _message(place: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """One row for Spark: the place, and rows as they lie in memory. The schema is known to the other side."""
    message = rows.serialize()
    offsets = pa.array([0, message.size], pa.int32()).buffers()[1]
    payload = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, message])
    return pa.RecordBatch.from_arrays([pa.array([place], pa.int32()), payload], schema=MOVED_SCHEMA)
