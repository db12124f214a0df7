"""The write kernel: incoming rows become data files of one spec, and rows that cannot be written are told apart.

No Spark and no catalog here. What a task wrote, and what it could not, goes to the driver as one report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.types import StructType

from lakeshift.iceberg.bad_rows import BadRowReport, BadRows, Quarantine
from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.input_columns import InputColumns
from lakeshift.iceberg.kernels.data_files import FileLayout, WrittenFile
from lakeshift.iceberg.kernels.partitioned_writer import Partition, PartitionedWriter
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.partition_split import split_by_partition
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.kernel import Attempt, Batches

# Rows are split by partition so many at a time: enough to make each piece worth its while, few enough to hold.
_CHUNK_ROWS = 256 * 1024
_CHUNK_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class QuarantineFolder:
    """Where bad rows go, and how they are marked."""

    location: str
    marks: Quarantine


@dataclass(frozen=True)
class WriteJob:
    """What every task of a write has in common. It pickles, and holds no secret."""

    layout: FileLayout
    columns: InputColumns
    values: PartitionValues
    partition_struct: StructType
    paths: PartitionPaths
    locations: DataLocations
    quarantine: QuarantineFolder | None = None

    @property
    def spec_id(self) -> int:
        return self.values.spec.spec_id

    def locate(self, partition: Partition, file_name: str) -> str:
        return self.locations.place(file_name, self.paths.path(partition))


@dataclass(frozen=True)
class WriteReport:
    """What one task wrote, and what it could not write."""

    files: list[WrittenFile]
    bad_rows: BadRowReport
    quarantine_files: list[str]


def write_rows(job: WriteJob, io: FileIO, batches: Batches, attempt: Attempt) -> Iterator[WriteReport]:
    """Write the rows of one Spark task; if it fails, nothing of this attempt stays behind.

    Without a quarantine, a task that has met a bad row writes no more, but still counts them all.
    """
    writer = PartitionedWriter(job.layout, job.spec_id, job.partition_struct, job.locate, io, attempt)
    quarantined = None if job.quarantine is None else _QuarantineFile(job.quarantine, io, attempt)
    found: list[BadRowReport] = []
    try:
        for batch in _chunks(batches, job.columns.came):
            conformed = job.columns.conform(batch, job.values)
            if len(conformed.bad):
                found = [BadRowReport.merged([*found, BadRowReport.of(conformed.bad, batch)])]
                if quarantined is not None:
                    quarantined.write(batch, conformed.bad)
            if len(conformed.good) and (not found or quarantined is not None):
                writer.add(split_by_partition(conformed.good, conformed.values), conformed.good.nbytes)
        if found and quarantined is None:
            writer.abort()
            yield WriteReport([], found[0], [])
            return
        files = writer.finish()
        yield WriteReport(files, BadRowReport.merged(found), [] if quarantined is None else quarantined.close())
    except BaseException:
        writer.abort()
        if quarantined is not None:
            quarantined.abort()
        raise


def _chunks(batches: Batches, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The incoming rows in batches of a good size, in the schema that was planned for."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not len(batch):
            continue
        waiting.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
            yield _joined(waiting, schema)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    joined = pa.concat_batches(batches) if len(batches) > 1 else batches[0]
    # The session's time zone is only a label on the same moments; the plan was made for UTC.
    return joined if joined.schema.equals(schema) else joined.cast(schema)


class _QuarantineFile:
    """The bad rows of one attempt, in one Parquet file that exists only if there are any."""

    def __init__(self, folder: QuarantineFolder, io: FileIO, attempt: Attempt) -> None:
        self._folder = folder
        self._io = io
        self._location = f"{folder.location.rstrip('/')}/{attempt.file_stem}.parquet"
        self._writer: pq.ParquetWriter | None = None

    def write(self, came: pa.RecordBatch, bad: BadRows) -> None:
        rows = self._folder.marks.batch(came, bad)
        if self._writer is None:
            self._stream = self._io.new_output(self._location).create()
            self._writer = pq.ParquetWriter(self._stream, rows.schema, compression="zstd")
        self._writer.write_batch(rows)

    def close(self) -> list[str]:
        if self._writer is None:
            return []
        self._writer.close()
        self._stream.close()
        return [self._location]

    def abort(self) -> None:
        remove_files(self._io, self.close())
