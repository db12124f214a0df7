"""The kernels of a move to another spec: rows are sent to the task that writes their new partition. No Spark here.

What travels are messages of at most about a megabyte. Larger ones would each take memory of their own in the JVM,
where they are copied several times. Files whose rows all belong to one new partition are not taken apart: the task
that writes the partition is told of them, and reads them itself.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mmh3
import pyarrow as pa
from pyiceberg.io import FileIO

from lakeshift.iceberg.kernels.partitioned_writer import PartitionedWriter
from lakeshift.iceberg.kernels.prefetch import prefetched
from lakeshift.iceberg.kernels.read import FileToRead
from lakeshift.iceberg.kernels.rewrite import RewriteJob, RewriteReport, rows_and_share, with_dictionaries
from lakeshift.iceberg.partition_split import Partition, split_by_partition, split_by_place
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.kernel import Attempt, Batches

# How much is sorted by place at a time: enough for messages of a good size, whatever the number of places.
_CHUNK_BYTES = 8 * 1024 * 1024
_CHUNK_BYTES_PER_PLACE = 256 * 1024
_MOST_CHUNK_BYTES = 64 * 1024 * 1024
_MESSAGE_BYTES = 1024 * 1024

MOVED_COLUMNS = "place int, rows binary, files binary"
_MOVED_SCHEMA = pa.schema([("place", pa.int32()), ("rows", pa.binary()), ("files", pa.binary())])


@dataclass(frozen=True)
class Places:
    """Which task writes which partition: ``homes`` for those that were given one, any of ``numbers`` for others.

    Homes go by the text of a partition, as `partition_text` writes it.
    """

    numbers: tuple[int, ...]
    homes: Mapping[str, int]

    def of(self, partition: Partition) -> int:
        """The same place for the same partition, wherever it is asked for: not by Python's own hash, which varies."""
        return self.of_text(partition_text(partition))

    def of_text(self, text: str) -> int:
        home = self.homes.get(text)
        return self.numbers[mmh3.hash(text, signed=False) % len(self.numbers)] if home is None else home


def partition_text(partition: Partition) -> str:
    """A partition as text that is the same for the same values."""
    return repr(partition)


@dataclass(frozen=True)
class WholeFiles:
    """Files whose rows all belong to one partition, and the number of the task that reads and writes them."""

    place: int
    partition: str
    files: tuple[FileToRead, ...]


@dataclass(frozen=True)
class MoveTask:
    """Files whose rows are sent to the tasks that write their partitions, and files that those tasks are told of."""

    files: tuple[FileToRead, ...]
    places: Places
    whole: tuple[WholeFiles, ...] = ()


def send_rows(task: MoveTask, attempt: Attempt, *, job: RewriteJob, spec_id: int, io: FileIO) -> Batches:
    """The live rows of some files, each with the number of the task that writes its partition."""
    for whole in task.whole:
        yield _message(whole.place, files=pickle.dumps((whole.partition, whole.files)))
    values = PartitionValues(job.layout.schema, job.context.specs[spec_id])
    chunk_bytes = min(max(_CHUNK_BYTES, len(task.places.numbers) * _CHUNK_BYTES_PER_PLACE), _MOST_CHUNK_BYTES)
    with prefetched(rows_and_share(task.files, job.context, io)) as batches:
        for chunk in _chunks((batch for batch, _ in batches), chunk_bytes):
            for place, rows in split_by_place(chunk, values.compute(chunk), task.places.of):
                for piece in _pieces(rows):
                    # The schema is known to the other side.
                    yield _message(place, rows=piece.serialize())


def write_moved(
    batches: Batches, attempt: Attempt, *, job: RewriteJob, spec_id: int, io: FileIO, sample: FileToRead
) -> Iterator[RewriteReport]:
    """Write the rows that came to this task under their new spec; if it fails, nothing of this attempt stays behind.

    Whatever is known of a file's partition only decided which task reads it: rows go where their values belong.
    ``sample`` is the input file whose dictionaries are taken as an example.
    """
    started = time.perf_counter()
    output = job.outputs[spec_id]
    values = PartitionValues(job.layout.schema, job.context.specs[spec_id])

    def locate(partition: tuple[Any, ...], name: str) -> str:
        return job.locations.place(name, output.paths.path(partition))

    layout = with_dictionaries(job.layout, [sample], io)
    writer = PartitionedWriter(layout, spec_id, output.struct, locate, io, attempt)
    whole: dict[str, list[FileToRead]] = {}
    try:
        for batch in batches:
            for message, files in zip(batch.column("rows"), batch.column("files"), strict=True):
                if files.is_valid:
                    # Pickled by the driver with the rest of its task: trusted like Spark's closures.
                    partition, told = pickle.loads(files.as_buffer())  # noqa: S301
                    whole.setdefault(partition, []).extend(told)
                else:
                    rows = pa.ipc.read_record_batch(message.as_buffer(), job.layout.arrow)
                    writer.add(split_by_partition(rows, values.compute(rows)), rows.nbytes)
        for same in whole.values():
            seen: dict[Partition, None] = {}
            with prefetched(rows_and_share(same, job.context, io)) as read:
                for rows, _ in read:
                    split = list(split_by_partition(rows, values.compute(rows)))
                    seen.update((partition, None) for partition, _ in split)
                    writer.add(split, rows.nbytes)
            # All of their rows are here by now, and need not wait in memory for those of other partitions.
            for partition in seen:
                writer.finish_partition(partition)
        yield RewriteReport(writer.finish(), time.perf_counter() - started)
    except BaseException:
        writer.abort()
        raise


def _chunks(batches: Iterator[pa.RecordBatch], chunk_bytes: int) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= chunk_bytes:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    count = max(1, -(-rows.nbytes // _MESSAGE_BYTES))
    each = -(-rows.num_rows // count)
    for start in range(0, rows.num_rows, each):
        yield rows.slice(start, each)


def _message(place: int, *, rows: pa.Buffer | None = None, files: bytes | None = None) -> pa.RecordBatch:
    """One row for Spark: the place, and either rows as they lie in memory or files to read."""
    columns = [_binary(rows), _binary(None if files is None else pa.py_buffer(files))]
    return pa.RecordBatch.from_arrays([pa.array([place], pa.int32()), *columns], schema=_MOVED_SCHEMA)


def _binary(content: pa.Buffer | None) -> pa.Array:
    if content is None:
        return pa.nulls(1, pa.binary())
    offsets = pa.array([0, content.size], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, content])
