"""Writes position deletes: which rows of which data files are gone. No Spark and no catalog here.

A delete file takes the spec and the partition of the data files that it refers to. What is marked so need not be
deleted in the end: copy-on-write uses the same files to tell rows that stay from rows that go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.partition_key import PartitionKey
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.kernel import Attempt

Positions = npt.NDArray[np.int64]

# Reserved by the Iceberg spec.
PATH_ID, POSITION_ID = 2147483546, 2147483545
DELETES = Schema(
    NestedField(PATH_ID, "file_path", StringType(), required=True),
    NestedField(POSITION_ID, "pos", LongType(), required=True),
)
_ARROW = arrow_schema(DELETES)

GRANULARITIES = ("file", "partition")


@dataclass(frozen=True)
class MarkedFile:
    """A data file that rows may be deleted from: its path as manifests spell it, and where it belongs."""

    path: str
    spec_id: int
    partition: tuple[Any, ...]


@dataclass(frozen=True)
class DeleteLayout:
    """How delete files of one operation are written, and where. It pickles, and holds no secret."""

    granularity: str
    locations: DataLocations
    paths: Mapping[int, PartitionPaths]
    writer_arguments: Mapping[str, Any]


@dataclass(frozen=True)
class WrittenDeletes:
    """A delete file as an attempt reports it; its spec and partition are those of the data file of this number."""

    location: str
    number: int
    rows: int
    size: int
    files: list[int]
    lower_path: str
    upper_path: str
    lower_position: int
    upper_position: int
    column_sizes: dict[int, int]


class PositionDeleteWriter:
    """Writes the deletes of one attempt. ``files`` has the data files by the numbers that rows are marked with."""

    def __init__(self, layout: DeleteLayout, files: Mapping[int, MarkedFile], io: FileIO, attempt: Attempt) -> None:
        self._layout = layout
        self._files = files
        self._io = io
        self._attempt = attempt
        self._waiting: dict[PartitionKey, dict[int, Positions]] = {}
        self._locations: list[str] = []
        self._written: list[WrittenDeletes] = []

    def add(self, number: int, positions: Positions) -> None:
        """All deletes of one data file: positions in ascending order, each once."""
        if not len(positions):
            return
        file = self._files[number]
        if self._layout.granularity == "file":
            self._write({number: positions})
        else:
            key = PartitionKey(file.spec_id, file.partition)
            self._waiting.setdefault(key, {})[number] = positions

    def finish(self) -> list[WrittenDeletes]:
        """Write what still waits, and tell what was written."""
        for marks in self._waiting.values():
            self._write(marks)
        self._waiting.clear()
        return self._written

    def abort(self) -> None:
        """Remove every file of this attempt."""
        self._waiting.clear()
        remove_files(self._io, self._locations)

    def _write(self, marks: Mapping[int, Positions]) -> None:
        # Readers rely on rows in the order of paths, and of positions within each.
        numbers = sorted(marks, key=lambda number: self._files[number].path.encode())
        paths = [self._files[number].path for number in numbers]
        table = _table(paths, [marks[number] for number in numbers])
        first = self._files[numbers[0]]
        name = f"{self._attempt.file_stem}-{len(self._locations):05d}-deletes.parquet"
        location = self._layout.locations.place(name, self._layout.paths[first.spec_id].path(first.partition))
        self._locations.append(location)
        footers: list[pq.FileMetaData] = []
        with (
            self._io.new_output(location).create() as stream,
            pq.ParquetWriter(stream, _ARROW, metadata_collector=footers, **self._layout.writer_arguments) as writer,
        ):
            writer.add_key_value_metadata({"delete-type": "position", "iceberg.schema": DELETES.model_dump_json()})
            writer.write_table(table)
        footer = footers[0]
        self._written.append(
            WrittenDeletes(
                location=location,
                number=numbers[0],
                rows=table.num_rows,
                size=len(self._io.new_input(location)),
                files=list(numbers),
                lower_path=paths[0],
                upper_path=paths[-1],
                lower_position=int(min(marks[number][0] for number in numbers)),
                upper_position=int(max(marks[number][-1] for number in numbers)),
                column_sizes={
                    field_id: sum(
                        footer.row_group(group).column(column).total_compressed_size
                        for group in range(footer.num_row_groups)
                    )
                    for column, field_id in enumerate((PATH_ID, POSITION_ID))
                },
            )
        )


def _table(paths: Sequence[str], positions: Sequence[Positions]) -> pa.Table:
    lengths = [len(found) for found in positions]
    indices = pa.array(np.repeat(np.arange(len(paths), dtype=np.int32), lengths))
    names = pa.DictionaryArray.from_arrays(indices, pa.array(paths, pa.string())).cast(pa.string())
    return pa.Table.from_arrays([names, pa.array(np.concatenate(positions))], schema=_ARROW)


def row_positions(rows: Iterable[pa.Array]) -> dict[int, Positions]:
    """Row ids, as `row_ids` makes them, as sorted positions by the number of their file; doubles stay double."""
    arrays = [array.to_numpy(zero_copy_only=False) for array in rows]
    if not arrays:
        return {}
    ids = np.sort(np.concatenate(arrays))
    numbers = ids >> ROW_BITS
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return {
        int(numbers[begin]): part & ((1 << ROW_BITS) - 1)
        for begin, part in zip(starts, np.split(ids, starts[1:]), strict=True)
    }


# A row's id is its file's number and, in the lower bits, its position there: one number for Spark to carry.
ROW_BITS = 40


def row_ids(number: int, positions: pa.Array) -> pa.Array:
    """The ids of rows of one file."""
    return pa.array(positions.to_numpy(zero_copy_only=False) | (number << ROW_BITS))
