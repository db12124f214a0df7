"""Rows of one partition into files of even size, steered by what has really been written.

How many bytes rows will take is only known once some are written. So after each row group the writer asks again
how much is still to come, into how many files that is best written, and where the present file should end. The
last file is then about as large as the others, and not a small rest that would soon be rewritten again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa
from pyiceberg.io import FileIO

from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.kernels.data_files import MAX_ROW_GROUP_ROWS, FileLayout, OpenFile, WrittenFile
from lakeshift.kernel import Attempt

# A file that has come this close to where it should end is ended: the next row group would go beyond.
_CLOSE_ENOUGH = 0.97
_NO_ROOM = 0.05


class Sizes(Protocol):
    """Which sizes files should have."""

    @property
    def smallest(self) -> int: ...
    @property
    def largest(self) -> int: ...
    def output_files(self, total: int) -> int: ...


class EvenWriter:
    """Writes rows that all belong to one partition. Give it rows with ``add``; ``finish`` tells what it wrote."""

    def __init__(
        self,
        layout: FileLayout,
        sizes: Sizes,
        spec_id: int,
        partition: list[bytes | None],
        locate: Callable[[str], str],
        io: FileIO,
        attempt: Attempt,
    ) -> None:
        self._layout = layout
        self._sizes = sizes
        self._spec_id = spec_id
        self._partition = partition
        self._locate = locate
        self._io = io
        self._attempt = attempt
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._done = 0.0
        self._closed = 0
        self._ratio = 1.0
        self._file: OpenFile | None = None
        self._locations: list[str] = []
        self._written: list[WrittenFile] = []

    def add(self, rows: pa.RecordBatch, done: float) -> None:
        """Take rows; ``done`` is the share of all input, between 0 and 1, that has come with them."""
        self._done = min(max(done, self._done, 1e-9), 1.0)
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        self._pending_bytes += rows.nbytes
        while self._pending_rows and self._is_full():
            self._write_row_group()

    def finish(self) -> list[WrittenFile]:
        """Write what still waits, close the last file, and tell what was written."""
        self._done = 1.0
        while self._pending_rows:
            self._write_row_group()
        if self._file is not None:
            self._close()
        return self._written

    def abort(self) -> None:
        """Remove every file of this attempt, finished or not."""
        if self._file is not None:
            with contextlib.suppress(Exception):
                self._file.abandon()
            self._file = None
        remove_files(self._io, self._locations)

    def _is_full(self) -> bool:
        return self._pending_rows >= MAX_ROW_GROUP_ROWS or self._pending_bytes >= self._row_group_bytes()

    def _row_group_bytes(self) -> float:
        """How many bytes of rows, as they lie in memory, the next row group takes."""
        end = self._end()
        room = end - self._size
        if room < end * _NO_ROOM:
            # The file should have ended, but what is left is too little for another one.
            return self._layout.options.row_group_size
        return max(1.0, min(self._layout.options.row_group_size, room / self._ratio))

    @property
    def _size(self) -> int:
        return 0 if self._file is None else self._file.size

    def _left(self) -> float:
        """How many bytes the present file and all that follow will have, as far as can be told by now."""
        so_far = self._closed + self._size + self._pending_bytes * self._ratio
        return max(so_far / self._done - self._closed, self._size)

    def _end(self) -> float:
        """The size at which the present file should end."""
        left = self._left()
        return left / self._sizes.output_files(int(left))

    def _write_row_group(self) -> None:
        table = pa.Table.from_batches(self._pending)
        size = max(table.nbytes, 1)
        share = min(1.0, self._row_group_bytes() / size)
        # Rounded up, so that what was a whole row group when it came is not cut in two.
        count = max(1, min(table.num_rows, -int(-table.num_rows * share // 1), MAX_ROW_GROUP_ROWS))
        rest = table.slice(count)
        self._pending = rest.to_batches() if rest.num_rows else []
        self._pending_rows = rest.num_rows
        if self._file is None:
            self._file = self._open()
        before = self._file.size
        self._file.write_row_group(table.slice(0, count))
        taken = size * count / table.num_rows
        self._pending_bytes = int(size - taken)
        self._ratio = max(0.001, (self._file.size - before) / taken)
        if self._should_close():
            self._close()

    def _should_close(self) -> bool:
        end, rest = self._end(), self._left() - self._size
        if rest < self._sizes.smallest / 2:
            # A rest too small for a file of its own still goes into this one, if there is room.
            return self._size + rest > self._sizes.largest
        return self._size >= end * _CLOSE_ENOUGH

    def _open(self) -> OpenFile:
        location = self._locate(f"{self._attempt.file_stem}-{len(self._locations):05d}.parquet")
        self._locations.append(location)
        return OpenFile(self._layout, self._io, location)

    def _close(self) -> None:
        assert self._file is not None
        written = self._file.close(self._spec_id, self._partition)
        self._written.append(written)
        self._closed += written.size
        self._file = None
