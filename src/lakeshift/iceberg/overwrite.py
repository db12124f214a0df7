"""Overwrite: the rows of a table, or of the partitions that a frame touches, give way to the frame's.

Partitions are those of the spec that is written. Files of that spec go or stay as wholes. Files of other
specs may hold rows of several of its partitions: those that can are read, and lose just these rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import IsolationLevel
from pyiceberg.typedef import Record

from lakeshift.errors import ConfigError
from lakeshift.iceberg.adapter import partition_values as values_of
from lakeshift.iceberg.commit.change_set import ChangeSet, RemovedFile, overwrite_change, removed_files
from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.commit.dangling import DanglingAfter
from lakeshift.iceberg.commit.result import CommitResult
from lakeshift.iceberg.commit.validation import OverwriteValidation
from lakeshift.iceberg.deletes import match_deletes
from lakeshift.iceberg.file_filter import FILTER_COLUMNS, files_that_can_match
from lakeshift.iceberg.kernels.data_files import FileLayout, to_data_file
from lakeshift.iceberg.kernels.keep import KeepJob, Kept, OldFile, keep_other_rows
from lakeshift.iceberg.kernels.read import check_readable
from lakeshift.iceberg.ledger import Ledger, read_ledger
from lakeshift.iceberg.partition_key import PartitionKey, PartitionNumbers
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.partition_predicate import rows_in_partitions
from lakeshift.iceberg.partition_types import is_unpartitioned, partition_array, partition_values, plain_value, spec_of
from lakeshift.iceberg.read import read_context
from lakeshift.iceberg.scan import DELETE_FILE_COLUMNS, FILE_COLUMNS, files_to_read, into_tasks
from lakeshift.iceberg.specs import partition_type
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.iceberg.write import (
    WriteRequest,
    Written,
    check_writable,
    commit_written,
    removed_on_failure,
    write_files,
)
from lakeshift.spark.jobs import run_tasks


def overwrite(
    table: Table,
    request: WriteRequest,
    *,
    dynamic: bool = False,
    isolation: IsolationLevel = IsolationLevel.SERIALIZABLE,
) -> CommitResult:
    """Replace all rows of a table, or with ``dynamic`` those of the partitions that the frame's rows lie in."""
    spec = check_writable(table, request)
    written = write_files(table, request)
    with removed_on_failure(table.io, written):
        if dynamic and not is_unpartitioned(spec):
            if not written.files:
                return CommitResult(None, rows_quarantined=written.bad_rows.rows)
            replaced = _replace_partitions(table, request, spec, written)
        else:
            replaced = _replace_all(table, request, written)
    change = replaced.change
    branch = request.branch or MAIN_BRANCH
    validation = OverwriteValidation(change, replaced.where, change.removed_data_files, isolation, branch)
    result = commit_written(
        table, request, written, change, validations=[validation], dangling_deletes=DanglingAfter(change, branch)
    )
    if result.snapshot_id is None:
        return result
    return dataclasses.replace(
        result,
        rows_written=result.rows_written - replaced.rows_kept,
        rows_deleted=result.rows_deleted - replaced.rows_kept,
    )


def isolation_level(name: str) -> IsolationLevel:
    """The level of that name, or a ConfigError that lists the two there are."""
    try:
        return IsolationLevel(name)
    except ValueError:
        known = " or ".join(repr(level.value) for level in IsolationLevel)
        raise ConfigError(f"isolation is {name!r}; it must be {known}.") from None


@dataclass(frozen=True)
class _Replacement:
    """A change that overwrites rows, which rows it means, and how many of its files' rows were there before."""

    change: ChangeSet
    where: BooleanExpression
    rows_kept: int = 0


def _replace_all(table: Table, request: WriteRequest, written: Written) -> _Replacement:
    ledger = _ledger(table, request, ("file_path", "manifest_path"))
    change = _change(table.metadata, written.files, removed_files(ledger.data), removed_files(ledger.deletes), ledger)
    return _Replacement(change, AlwaysTrue())


def _replace_partitions(table: Table, request: WriteRequest, spec: PartitionSpec, written: Written) -> _Replacement:
    metadata = table.metadata
    keys = {PartitionKey(spec.spec_id, values_of(file)) for file in written.files}
    partitions = [key.partition or () for key in keys]
    where = rows_in_partitions(metadata.schema(), spec, partitions)
    columns = dict.fromkeys([*FILE_COLUMNS, *DELETE_FILE_COLUMNS, *FILTER_COLUMNS, "manifest_path"])
    ledger = _ledger(table, request, tuple(columns))
    numbers, _ = PartitionNumbers.of(
        pa.chunked_array([partition_array([Record(*p) for p in partitions], spec, metadata)])
    )
    removed = {}
    candidates = {}
    for spec_id, files in ledger.data.items():
        if spec_id == spec.spec_id:
            removed[spec_id] = files.filter(numbers.look_up(files.column("partition")).is_valid())
        else:
            candidates[spec_id] = files.filter(files_that_can_match(where, spec_id, files, metadata))
    others = Ledger(metadata, ledger.snapshot, candidates, ledger.deletes)
    kept = _keep_other_rows(table, request, spec, partitions, others, written.operation_id)
    touched = {report.path for report in kept if report.rows_overwritten}
    for spec_id, files in candidates.items():
        removed[spec_id] = files.filter(pc.is_in(files.column("file_path"), value_set=pa.array(touched, pa.string())))
    added = [to_data_file(metadata, file) for report in kept for file in report.files]
    try:
        change = _change(metadata, [*written.files, *added], removed_files(removed), [], ledger)
    except BaseException:
        remove_files(table.io, [file.file_path for file in added])
        raise
    return _Replacement(change, where, sum(file.record_count for file in added))


def _keep_other_rows(
    table: Table,
    request: WriteRequest,
    spec: PartitionSpec,
    partitions: Sequence[tuple[Any, ...]],
    others: Ledger,
    operation_id: str,
) -> list[Kept]:
    """Write anew what files of other specs keep of their rows."""
    metadata = table.metadata
    old: dict[str, tuple[Any, ...]] = {}
    for spec_id, files in others.data.items():
        values = partition_values(files.column("partition").combine_chunks(), spec_of(metadata, spec_id), metadata)
        old |= dict(zip(files.column("file_path").to_pylist(), values, strict=True))
    files = tuple(files_to_read(others, match_deletes(others)))
    check_readable(files)
    values_of_rows = PartitionValues(metadata.schema(), spec)
    columns = [
        pa.array([plain_value(partition[position]) for partition in partitions], kind)
        for position, kind in enumerate(values_of_rows.types)
    ]
    overwritten, _ = PartitionNumbers.of(
        pa.chunked_array([pa.StructArray.from_arrays(columns, names=[str(n) for n in range(len(columns))])])
    )
    structs = {spec_id: partition_type(metadata, spec_of(metadata, spec_id)) for spec_id in others.data}
    job = KeepJob(
        read_context(metadata, metadata.schema(), tuple(field.name for field in metadata.schema().fields)),
        FileLayout.of(metadata),
        values_of_rows,
        overwritten,
        structs,
        {spec_id: PartitionPaths.of(spec_of(metadata, spec_id), struct) for spec_id, struct in structs.items()},
        DataLocations.of(metadata.location, metadata.properties),
    )
    tasks = [
        tuple(OldFile(file, old[file.path]) for file in group) for group in into_tasks(files, metadata.properties, {})
    ]
    reports = run_tasks(
        request.frame.sparkSession,
        partial(keep_other_rows, job, table.io),
        tasks,
        Kept,
        operation_id=operation_id,
        title=f"Overwrite partitions of {'.'.join(table.name())}",
        names=[f"{task[0].file.path} and {len(task) - 1} more" for task in tasks],
    )
    return [record for report in reports for record in report.records]


def _ledger(table: Table, request: WriteRequest, columns: tuple[str, ...]) -> Ledger:
    head = table.metadata.snapshot_by_name(request.branch or MAIN_BRANCH)
    if head is None:
        return Ledger(table.metadata, None, {}, {})
    return read_ledger(table.metadata, table.io, head.snapshot_id, columns=columns)


def _change(
    metadata: TableMetadata,
    added: Sequence[DataFile],
    removed: Sequence[RemovedFile],
    removed_deletes: Sequence[RemovedFile],
    ledger: Ledger,
) -> ChangeSet:
    start = ledger.snapshot.snapshot_id if ledger.snapshot else None
    return overwrite_change(metadata, added, removed, removed_deletes=removed_deletes, starting_snapshot_id=start)
