"""Rows into data files, one partition to a file at a time, in bounded memory. No Spark and no catalog here.

Rows wait in memory until their partition has a row group's worth of them. When too much waits, all of it
moves to local disk, sorted by partition, and waits there. So a partition's file is opened once and has few
large row groups, however many partitions one task sees and in whatever order their rows come.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.types import StructType

from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.kernels.data_files import (
    MAX_ROW_GROUP_ROWS,
    FileLayout,
    OpenFile,
    WrittenFile,
    encode_partition,
)
from lakeshift.iceberg.partition_key import PartitionKey
from lakeshift.kernel import Attempt

# What may wait in memory. An executor's Python needs about as much again for itself and for one row group.
WAITING_BYTES = 192 * 1024 * 1024

Partition = tuple[Any, ...]
# From a partition and a file's name to where the file goes.
Locate = Callable[[Partition, str], str]


@dataclass
class _Chunk:
    """Rows that came together and share their memory, which is free only when the last of their pieces is."""

    size: int
    pieces: int


@dataclass
class _Waiting:
    """The rows of one partition that no file has yet, in the order in which they came."""

    spilled: list[tuple[int, int]] = field(default_factory=list)
    pieces: list[tuple[pa.RecordBatch, _Chunk]] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    file: OpenFile | None = None


class PartitionedWriter:
    """Writes the rows of one attempt. Give it rows with ``add``; ``finish`` tells what it wrote."""

    def __init__(
        self,
        layout: FileLayout,
        spec_id: int,
        partition_struct: StructType,
        locate: Locate,
        io: FileIO,
        attempt: Attempt,
        *,
        first_file: int = 0,
        waiting_bytes: int = WAITING_BYTES,
    ) -> None:
        self._layout = layout
        self._spec_id = spec_id
        self._struct = partition_struct
        self._locate = locate
        self._io = io
        self._attempt = attempt
        # An attempt may have several writers, whose files must not have the same names.
        self._first_file = first_file
        self._limit = waiting_bytes
        self._partitions: dict[PartitionKey, _Waiting] = {}
        self._in_memory = 0
        self._spill = _Spill(layout.arrow)
        self._locations: list[str] = []
        self._written: list[WrittenFile] = []
        self._ratio = 1.0

    def add(self, pieces: Iterable[tuple[Partition, pa.RecordBatch]], size: int) -> None:
        """Take rows that came together, split by partition; ``size`` is the memory which they share."""
        split = list(pieces)
        chunk = _Chunk(size, len(split))
        self._in_memory += size
        full = []
        for partition, rows in split:
            waiting = self._waiting(partition)
            waiting.pieces.append((rows, chunk))
            waiting.rows += rows.num_rows
            waiting.size += rows.nbytes
            if waiting.size >= self._row_group_size(waiting) or waiting.rows >= MAX_ROW_GROUP_ROWS:
                full.append((partition, waiting))
        for partition, waiting in full:
            self._write_row_group(partition, waiting)
        if self._in_memory > self._limit:
            self._spill_all()

    def finish_partition(self, partition: Partition) -> None:
        """Write what still waits of one partition, and close its file. Rows that come later have another file."""
        key = PartitionKey(self._spec_id, partition)
        waiting = self._partitions.get(key)
        if waiting is None:
            return
        if waiting.rows:
            self._write_row_group(partition, waiting)
        if waiting.file is not None:
            self._close(partition, waiting)
        # Not before: if it fails, the file that is open is abandoned with the others.
        del self._partitions[key]

    def finish(self) -> list[WrittenFile]:
        """Write what still waits, close every file, and tell what was written."""
        for key in list(self._partitions):
            self.finish_partition(key.partition or ())
        self._spill.remove()
        return self._written

    def abort(self) -> None:
        """Remove every file of this attempt, finished or not."""
        for waiting in self._partitions.values():
            if waiting.file is not None:
                with contextlib.suppress(Exception):
                    waiting.file.abandon()
        self._partitions.clear()
        self._spill.remove()
        remove_files(self._io, self._locations)

    def _waiting(self, partition: Partition) -> _Waiting:
        return self._partitions.setdefault(PartitionKey(self._spec_id, partition), _Waiting())

    def _row_group_size(self, waiting: _Waiting) -> float:
        """How many bytes of rows the next row group takes: no more than the file has room for."""
        room = self._layout.options.target_file_size - (waiting.file.size if waiting.file else 0)
        return max(1, min(self._layout.options.row_group_size, room / self._ratio))

    def _write_row_group(self, partition: Partition, waiting: _Waiting) -> None:
        rows = pa.Table.from_batches(list(self._take(waiting)), self._layout.arrow)
        size = max(rows.nbytes, 1)
        start = 0
        while start < rows.num_rows:
            if waiting.file is None:
                waiting.file = self._open(partition)
            share = self._row_group_size(waiting) / size
            # Rounded up, so that what was a whole row group when it came is not cut in two.
            count = max(1, min(rows.num_rows - start, -int(-rows.num_rows * share // 1), MAX_ROW_GROUP_ROWS))
            before = waiting.file.size
            waiting.file.write_row_group(rows.slice(start, count))
            self._ratio = max(0.001, (waiting.file.size - before) / (size * count / rows.num_rows))
            start += count
            if waiting.file.size >= self._layout.options.target_file_size:
                self._close(partition, waiting)

    def _take(self, waiting: _Waiting) -> Iterator[pa.RecordBatch]:
        spilled, pieces = waiting.spilled, waiting.pieces
        waiting.spilled, waiting.pieces, waiting.rows, waiting.size = [], [], 0, 0
        for run, position in spilled:
            yield self._spill.read(run, position)
        for rows, chunk in pieces:
            self._release(chunk)
            yield rows

    def _release(self, chunk: _Chunk) -> None:
        chunk.pieces -= 1
        if not chunk.pieces:
            self._in_memory -= chunk.size

    def _spill_all(self) -> None:
        """Move all rows that wait in memory to local disk, partition by partition."""
        with self._spill.new_run() as run:
            for waiting in self._partitions.values():
                if waiting.pieces:
                    batches = [rows for rows, _ in waiting.pieces]
                    waiting.spilled.append(run.write(pa.concat_batches(batches) if len(batches) > 1 else batches[0]))
                    for _, chunk in waiting.pieces:
                        self._release(chunk)
                    waiting.pieces = []

    def _open(self, partition: Partition) -> OpenFile:
        number = self._first_file + len(self._locations)
        location = self._locate(partition, f"{self._attempt.file_stem}-{number:05d}.parquet")
        self._locations.append(location)
        return OpenFile(self._layout, self._io, location)

    def _close(self, partition: Partition, waiting: _Waiting) -> None:
        assert waiting.file is not None
        self._written.append(waiting.file.close(self._spec_id, encode_partition(self._struct, partition)))
        waiting.file = None


class _Spill:
    """Runs of rows in local files, each read back by its place."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._folder: Path | None = None
        self._readers: dict[int, pa.ipc.RecordBatchFileReader] = {}
        self._runs = 0

    @contextlib.contextmanager
    def new_run(self) -> Iterator[_Run]:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="lakeshift-rows-"))
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(str(self._path(self._runs)), self._schema, options=options) as writer:
            yield _Run(self._runs, writer)
        self._runs += 1

    def read(self, run: int, position: int) -> pa.RecordBatch:
        if run not in self._readers:
            # Not mapped into memory: pages of a mapped file would count as this process's own.
            self._readers[run] = pa.ipc.open_file(pa.OSFile(str(self._path(run))))
        return self._readers[run].get_batch(position)

    def remove(self) -> None:
        self._readers.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _path(self, run: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{run:05d}.arrow"


@dataclass
class _Run:
    number: int
    writer: pa.ipc.RecordBatchFileWriter
    batches: int = 0

    def write(self, rows: pa.RecordBatch) -> tuple[int, int]:
        self.writer.write_batch(rows)
        self.batches += 1
        return self.number, self.batches - 1
