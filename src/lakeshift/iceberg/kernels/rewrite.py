"""The rewrite kernel: data files are read, their deletes applied, and their rows written anew into one partition.

Rows go straight from file to file, as Arrow columns. Those that move to partitions which only they can tell are the
business of `move`. No Spark and no catalog here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.types import StructType

from lakeshift.iceberg.kernels.data_files import FileLayout, WrittenFile, encode_partition
from lakeshift.iceberg.kernels.even_writer import EvenWriter, Sizes
from lakeshift.iceberg.kernels.opening import opened
from lakeshift.iceberg.kernels.prefetch import prefetched
from lakeshift.iceberg.kernels.read import FileReader, FileToRead, ReadContext, rows_in_stretch
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.kernel import Attempt

# A dictionary that takes up most of its column is only a detour.
_USELESS_DICTIONARY = 0.6
# Rows are read in batches of about so many bytes, as far as a file's size tells.
_BATCH_BYTES = 32 * 1024 * 1024
_UNPACKED = 6


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
class RewriteReport:
    """What one task wrote, and how long it took."""

    files: list[WrittenFile]
    seconds: float


def rewrite_files(task: RewriteTask, attempt: Attempt, *, job: RewriteJob, io: FileIO) -> Iterator[RewriteReport]:
    """Write the live rows of some files into one partition; if it fails, nothing of this attempt stays behind."""
    started = time.perf_counter()
    output = job.outputs[task.output_spec_id]
    path = output.paths.path(task.partition)
    layout = with_dictionaries(job.layout, task.files, io)
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
        with prefetched(rows_and_share(task.files, job.context, io)) as batches:
            for batch, done in batches:
                writer.add(batch, done)
        yield RewriteReport(writer.finish(), time.perf_counter() - started)
    except BaseException:
        writer.abort()
        raise


def rows_and_share(
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


def with_dictionaries(layout: FileLayout, files: Sequence[FileToRead], io: FileIO) -> FileLayout:
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
