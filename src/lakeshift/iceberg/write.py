"""Append and overwrite: a Spark frame becomes data files of one spec, and these become one commit.

Everything that can be known to be wrong is found before the first byte is written. Rows go from Spark's
executors to storage; the driver sees only what the files are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table

from lakeshift.errors import CommitStateUnknownError, ConfigError
from lakeshift.iceberg.bad_rows import BadRowReport, Quarantine
from lakeshift.iceberg.commit.change_set import ChangeSet, append_change
from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.commit.commit import DanglingDeletes, Validation, commit
from lakeshift.iceberg.commit.result import CommitResult
from lakeshift.iceberg.commit.target import check_target
from lakeshift.iceberg.distribution import LaidOut, default_sort_order, lay_out, task_count
from lakeshift.iceberg.input_columns import InputColumns
from lakeshift.iceberg.kernels.data_files import FileLayout, to_data_file
from lakeshift.iceberg.kernels.write import QuarantineFolder, WriteJob, WriteReport, write_rows
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.specs import partition_type, writable_spec
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.kernel import new_operation_id
from lakeshift.locations import absolute_location
from lakeshift.spark.frames import arrow_schema_of, cores_of, is_case_sensitive
from lakeshift.spark.jobs import run_over_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeshift.spark.progress import Progress

OnBadRows = Literal["fail", "quarantine"]

# A commit's summary names the operation, as the names of its files and its quarantined rows do.
OPERATION_ID = "lakeshift.operation-id"


@dataclass(frozen=True)
class WriteRequest:
    """What a caller wants written, and how. Wrong combinations are refused when it is made.

    ``expected_rows`` is how many rows the frame has at most, where that is known beforehand.
    """

    frame: DataFrame
    spec_id: int | None = None
    on_bad_rows: OnBadRows = "fail"
    quarantine: str | Path | None = None
    branch: str | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    progress: Progress | None = None
    expected_rows: int | None = None

    def __post_init__(self) -> None:
        if self.on_bad_rows not in ("fail", "quarantine"):
            raise ConfigError(f"on_bad_rows is {self.on_bad_rows!r}; it must be 'fail' or 'quarantine'.")
        if self.on_bad_rows == "quarantine" and not self.quarantine:
            raise ConfigError("on_bad_rows='quarantine' needs quarantine=<path>: where the bad rows go.")
        if self.on_bad_rows == "fail" and self.quarantine:
            raise ConfigError(
                f"quarantine={str(self.quarantine)!r} was given, but on_bad_rows is 'fail'. Pass "
                "on_bad_rows='quarantine' to put bad rows there."
            )


@dataclass(frozen=True)
class Written:
    """What the tasks of a write left: data files that no commit has yet, and rows set aside."""

    operation_id: str
    files: tuple[DataFile, ...]
    bad_rows: BadRowReport
    quarantine_files: tuple[str, ...]

    def remove(self, io: FileIO) -> None:
        """Remove all of it, as nothing will come of it."""
        remove_files(io, [*(file.file_path for file in self.files), *self.quarantine_files])


def append(table: Table, request: WriteRequest) -> CommitResult:
    """Add the frame's rows to a table."""
    written = write_files(table, request)
    with removed_on_failure(table.io, written):
        change = append_change(table.metadata, written.files)
    return commit_written(table, request, written, change)


def commit_written(
    table: Table,
    request: WriteRequest,
    written: Written,
    change: ChangeSet,
    *,
    validations: Sequence[Validation] = (),
    dangling_deletes: DanglingDeletes | None = None,
) -> CommitResult:
    """Commit a change that was made of written files; rows in quarantine share the fate of the others."""
    try:
        result = commit(
            table,
            change,
            branch=request.branch,
            snapshot_properties={**request.snapshot_properties, OPERATION_ID: written.operation_id},
            validations=validations,
            dangling_deletes=dangling_deletes,
        )
    except CommitStateUnknownError:
        raise  # the rows may be in the table after all, and then those in quarantine belong to them
    except BaseException:
        remove_files(table.io, written.quarantine_files)
        raise
    return dataclasses.replace(result, rows_quarantined=written.bad_rows.rows)


@contextmanager
def removed_on_failure(io: FileIO, written: Written) -> Iterator[None]:
    """Remove what was written if something goes wrong before a commit takes it over."""
    try:
        yield
    except BaseException:
        written.remove(io)
        raise


def write_files(table: Table, request: WriteRequest) -> Written:
    """Write the frame's rows as data files that no commit has yet."""
    operation_id = new_operation_id()
    spec = check_writable(table, request)
    job, laid_out = _plan(table, request, spec, operation_id)
    reports = run_over_frame(
        laid_out.frame,
        partial(write_rows, job, table.io),
        WriteReport,
        operation_id=operation_id,
        title=f"Write {'.'.join(table.name())}",
        tasks=laid_out.tasks,
        progress=request.progress,
    )
    records = [record for report in reports for record in report.records]
    written = Written(
        operation_id,
        tuple(to_data_file(table.metadata, file) for record in records for file in record.files),
        BadRowReport.merged(record.bad_rows for record in records),
        tuple(location for record in records for location in record.quarantine_files),
    )
    if written.bad_rows.rows and job.quarantine is None:
        written.remove(table.io)
        raise written.bad_rows.error(".".join(table.name()))
    return written


def check_writable(table: Table, request: WriteRequest) -> PartitionSpec:
    """The spec that rows will take, once nothing stands against writing them."""
    check_target(table.metadata, request.branch, request.snapshot_properties)
    return writable_spec(table.metadata, request.spec_id)


def _plan(table: Table, request: WriteRequest, spec: PartitionSpec, operation_id: str) -> tuple[WriteJob, LaidOut]:
    metadata, frame = table.metadata, request.frame
    spark = frame.sparkSession
    name = ".".join(table.name())
    columns = InputColumns.plan(
        metadata.schema(), arrow_schema_of(frame), case_sensitive=is_case_sensitive(spark), table=name
    )
    struct = partition_type(metadata, spec)
    job = WriteJob(
        FileLayout.of(metadata, sort_order=default_sort_order(metadata)),
        columns,
        PartitionValues(metadata.schema(), spec),
        struct,
        PartitionPaths.of(spec, struct),
        DataLocations.of(metadata.location, metadata.properties),
        _quarantine(table, request, operation_id),
    )
    tasks = task_count(cores_of(spark), request.expected_rows)
    return job, lay_out(frame, metadata, spec, columns.paths(metadata.schema()), tasks)


def _quarantine(table: Table, request: WriteRequest, operation_id: str) -> QuarantineFolder | None:
    if request.quarantine is None:
        return None
    marks = Quarantine(operation_id, datetime.now(UTC), table.metadata.current_snapshot_id)
    return QuarantineFolder(absolute_location(request.quarantine), marks)
