"""What DELETE, UPDATE and MERGE share on Spark: rows are marked, read by their marks, written and committed.

Marks are position delete files. For merge-on-read they are what gets committed; for copy-on-write they only tell the
rows that stay from those that go, and are removed afterwards.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from lakeshift.iceberg.commit.change_set import ChangeSet, overwrite_change, row_delta_change
from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.commit.commit import Validation, commit
from lakeshift.iceberg.commit.dangling import DanglingAfter
from lakeshift.iceberg.commit.result import CommitResult
from lakeshift.iceberg.commit.validation import OverwriteValidation, RowDeltaValidation
from lakeshift.iceberg.dml.failures import value_errors
from lakeshift.iceberg.dml.plan import Candidate, Target, into_tasks
from lakeshift.iceberg.dml.rules import Mode, Rules
from lakeshift.iceberg.kernels.mark import (
    ROW_ID,
    FileWithMarks,
    Keys,
    MarkReport,
    mark_matching,
    mark_rows,
    read_by_marks,
    read_with_ids,
)
from lakeshift.iceberg.kernels.position_deletes import (
    DELETES,
    PATH_ID,
    POSITION_ID,
    DeleteLayout,
    WrittenDeletes,
)
from lakeshift.iceberg.parquet_options import ParquetOptions
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.read import read_context
from lakeshift.iceberg.spark_types import spark_json
from lakeshift.iceberg.specs import partition_type, spec_of
from lakeshift.iceberg.write import OPERATION_ID, WriteRequest, write_files
from lakeshift.kernel import new_operation_id
from lakeshift.spark.frames import cores_of
from lakeshift.spark.jobs import frame_of_tasks, run_over_frame, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeshift.spark.progress import Progress


@dataclass(frozen=True)
class Run:
    """One operation on one table. ``table`` must be fresh: what it shows is what the operation starts from."""

    spark: SparkSession
    table: Table
    rules: Rules
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    progress: Progress | None = None
    operation_id: str = field(default_factory=new_operation_id)

    @property
    def name(self) -> str:
        return ".".join(self.table.name())

    @property
    def title(self) -> str:
        return f"{self.rules.operation.capitalize()} in {self.name}"


@dataclass(frozen=True)
class Marks:
    """The rows that an operation changes: how many of each file, and the delete files that name them."""

    deletes: tuple[WrittenDeletes, ...] = ()
    counts: Mapping[int, int] = field(default_factory=dict)
    found_twice: int = 0

    @classmethod
    def of(cls, reports: list[MarkReport]) -> Marks:
        counts: dict[int, int] = {}
        for report in reports:
            for count in report.counts:
                counts[count.number] = counts.get(count.number, 0) + count.rows
        return cls(
            tuple(deletes for report in reports for deletes in report.deletes),
            counts,
            sum(report.found_twice for report in reports),
        )

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def touched(self, target: Target) -> list[Candidate]:
        """The files that have marked rows."""
        return [file for file in target.candidates if file.number in self.counts]

    def remove(self, table: Table) -> None:
        remove_files(table.io, [deletes.location for deletes in self.deletes])


@dataclass(frozen=True)
class Preview:
    """What an operation would change: files dropped unread, files with changed rows, and rows."""

    operation: str
    mode: str
    live_files: int
    opened_files: int
    dropped_files: int
    changed_files: int
    rows_deleted: int
    rows_inserted: int
    changed_files_by_spec: Mapping[int, int]

    @classmethod
    def of(cls, run: Run, target: Target, marks: Marks, inserted: int = 0) -> Preview:
        by_spec: dict[int, int] = {}
        for file in (*target.whole, *marks.touched(target)):
            by_spec[file.marked.spec_id] = by_spec.get(file.marked.spec_id, 0) + 1
        return cls(
            operation=run.rules.operation.value,
            mode=run.rules.mode.value,
            live_files=target.live_files,
            opened_files=len(target.candidates),
            dropped_files=len(target.whole),
            changed_files=len(marks.counts),
            rows_deleted=marks.rows + target.whole_rows,
            rows_inserted=inserted,
            changed_files_by_spec=dict(sorted(by_spec.items())),
        )

    def to_dict(self) -> dict[str, Any]:
        found = dataclasses.asdict(self)
        return {**found, "changed_files_by_spec": {str(k): v for k, v in self.changed_files_by_spec.items()}}


def mark_exactly(run: Run, target: Target, where: BooleanExpression, *, dry: bool = False) -> Marks:
    """Mark the rows for which an exact condition is true: only its columns are read, and no row goes through Spark.

    A dry run only counts them.
    """
    context = read_context(run.table.metadata, run.table.schema(), (), where, exact=True)
    tasks = into_tasks(target.candidates, run.table.metadata.properties, cores_of(run.spark))
    reports = run_tasks(
        run.spark,
        partial(mark_matching, context=context, layout=None if dry else _delete_layout(run), io=run.table.io),
        tasks,
        MarkReport,
        operation_id=run.operation_id,
        title=run.title,
        names=_names(tasks),
        progress=run.progress,
    )
    return Marks.of([record for report in reports for record in report.records])


def mark_frame(run: Run, target: Target, frame: DataFrame, *, tasks: int | None = None, dry: bool = False) -> Marks:
    """Mark the rows whose ids a frame has. All ids of one file must lie in one partition of it."""
    reports = run_over_frame(
        frame,
        partial(
            mark_rows,
            files={file.number: file.marked for file in target.candidates},
            layout=None if dry else _delete_layout(run),
            io=run.table.io,
        ),
        MarkReport,
        operation_id=run.operation_id,
        title=run.title,
        tasks=tasks,
        progress=run.progress,
    )
    return Marks.of([record for report in reports for record in report.records])


def target_frame(
    run: Run,
    target: Target,
    columns: tuple[str, ...],
    where: BooleanExpression | None = None,
    *,
    only_matching: bool = False,
    keys: Keys | None = None,
) -> DataFrame:
    """Rows of the target's files, some of their columns and the id of each row.

    ``where`` skips row groups; with ``only_matching`` also rows, for a filter that means the same to Spark. ``keys``
    skips rows that have none of them.
    """
    metadata = run.table.metadata
    context = read_context(metadata, run.table.schema(), columns, where, exact=only_matching)
    tasks = into_tasks(target.candidates, metadata.properties, cores_of(run.spark))
    return frame_of_tasks(
        run.spark,
        partial(read_with_ids, context=context, io=run.table.io, keys=keys),
        tasks,
        spark_schema(Schema(*context.fields), with_ids=True),
        operation_id=run.operation_id,
        names=_names(tasks),
    )


def rows_by_marks(run: Run, target: Target, marks: Marks, which: Literal["marked", "unmarked"]) -> DataFrame:
    """Whole rows of the files that have marked ones: those with their ids, or the others without."""
    schema = run.table.schema()
    columns = tuple(member.name for member in schema.fields)
    tasks = [
        tuple(FileWithMarks(file.number, file.read, marks_of[file.number]) for file in task)
        for marks_of in [_marks_by_file(marks)]
        for task in into_tasks(marks.touched(target), run.table.metadata.properties, cores_of(run.spark))
    ]
    return frame_of_tasks(
        run.spark,
        partial(
            read_by_marks,
            context=read_context(run.table.metadata, schema, columns),
            io=run.table.io,
            which=which,
        ),
        tasks,
        spark_schema(schema, with_ids=which == "marked"),
        operation_id=run.operation_id,
        names=_names(tasks),
    )


def spark_schema(schema: Schema, *, with_ids: bool = False) -> Any:
    """A table's columns as Spark has them; an UnsupportedTableError names one that Spark cannot have."""
    from pyspark.sql.types import LongType, StructField, StructType

    found = StructType.fromJson(spark_json(schema))
    return StructType([*found.fields, StructField(ROW_ID, LongType(), False)]) if with_ids else found


def apply(
    run: Run,
    target: Target,
    marks: Marks,
    new_rows: DataFrame | None = None,
    *,
    new_row_count: int | None = None,
    where: BooleanExpression | None = None,
    moves_rows: bool = False,
    added: tuple[DataFile, ...] = (),
) -> CommitResult:
    """Commit what was marked, with the rows that take its place; ``where`` is what the operation looked at.

    ``added`` are files of new rows that were written before; they share the fate of the others.
    Whatever happens, no file stays that the table does not refer to, unless the outcome is unknown.
    """
    copy = run.rules.mode is Mode.COPY_ON_WRITE
    new_files = list(added)
    try:
        with contextlib.ExitStack() as stack:
            if copy:
                stack.callback(marks.remove, run.table)
                if marks.counts:
                    kept = rows_by_marks(run, target, marks, "unmarked")
                    new_rows = kept if new_rows is None else kept.unionByName(new_rows)
                    new_row_count = None
            written, operation_id = _written(run, new_rows, new_row_count)
            new_files += written
        change, validation = _change(run, target, marks, new_files, where, moves_rows)
    except BaseException:
        marks.remove(run.table)
        remove_files(run.table.io, [file.file_path for file in new_files])
        raise
    if change.is_empty:
        return CommitResult(snapshot_id=None)
    result = commit(
        run.table,
        change,
        branch=run.rules.branch,
        snapshot_properties={**run.snapshot_properties, OPERATION_ID: operation_id},
        validations=[validation],
        dangling_deletes=DanglingAfter(change, run.rules.branch) if change.removed_data_files else None,
    )
    return dataclasses.replace(result, rows_deleted=marks.rows + target.whole_rows)


def _written(run: Run, rows: DataFrame | None, count: int | None) -> tuple[tuple[DataFile, ...], str]:
    if rows is None:
        return (), run.operation_id
    request = WriteRequest(
        rows,
        branch=run.rules.branch,
        snapshot_properties=run.snapshot_properties,
        progress=run.progress,
        expected_rows=count,
    )
    with value_errors(run.title):
        written = write_files(run.table, request)
    return written.files, written.operation_id


def _change(
    run: Run,
    target: Target,
    marks: Marks,
    files: Sequence[DataFile],
    where: BooleanExpression | None,
    moves_rows: bool,
) -> tuple[ChangeSet, Validation]:
    metadata = target.metadata
    touched = [file.removed for file in marks.touched(target)]
    whole = [file.removed for file in target.whole]
    isolation, branch = run.rules.isolation, run.rules.branch
    if run.rules.mode is Mode.COPY_ON_WRITE:
        change = overwrite_change(metadata, files, [*touched, *whole], starting_snapshot_id=target.snapshot_id)
        return change, OverwriteValidation(change, where, change.removed_data_files, isolation, branch)
    numbered = target.by_number()
    deletes = [_delete_file(run, written, numbered[written.number]) for written in marks.deletes]
    change = row_delta_change(metadata, files, deletes, removed=whole, starting_snapshot_id=target.snapshot_id)
    return change, RowDeltaValidation(change, where, [*touched, *whole], moves_rows, isolation, branch)


def _delete_file(run: Run, written: WrittenDeletes, data: Candidate) -> DataFile:
    """A delete file as the commit layer takes it, under the spec and partition of the data it refers to."""
    path_bounds = {PATH_ID: written.lower_path.encode()}, {PATH_ID: written.upper_path.encode()}
    position_bounds = (
        {POSITION_ID: written.lower_position.to_bytes(8, "little")},
        {POSITION_ID: written.upper_position.to_bytes(8, "little")},
    )
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=written.location,
        file_format=FileFormat.PARQUET,
        partition=Record(*data.marked.partition),
        record_count=written.rows,
        file_size_in_bytes=written.size,
        column_sizes=written.column_sizes,
        value_counts={PATH_ID: written.rows, POSITION_ID: written.rows},
        null_value_counts={PATH_ID: 0, POSITION_ID: 0},
        nan_value_counts={},
        lower_bounds={**path_bounds[0], **position_bounds[0]},
        upper_bounds={**path_bounds[1], **position_bounds[1]},
        split_offsets=[4],
        sort_order_id=None,
    )
    file.spec_id = data.marked.spec_id
    return file


def _delete_layout(run: Run) -> DeleteLayout:
    metadata = run.table.metadata
    options = ParquetOptions.of(DELETES, metadata.properties)
    return DeleteLayout(
        run.rules.granularity,
        DataLocations.of(metadata.location, metadata.properties),
        {
            spec_id: PartitionPaths.of(spec, partition_type(metadata, spec_of(metadata, spec_id)))
            for spec_id, spec in metadata.specs().items()
        },
        options.writer_arguments,
    )


def _marks_by_file(marks: Marks) -> dict[int, tuple[tuple[str, int], ...]]:
    found: dict[int, list[tuple[str, int]]] = {}
    for written in marks.deletes:
        for number in written.files:
            found.setdefault(number, []).append((written.location, written.size))
    return {number: tuple(files) for number, files in found.items()}


def _names(tasks: Any) -> list[str]:
    return [f"{task[0].read.path} and {len(task) - 1} more" for task in tasks]
