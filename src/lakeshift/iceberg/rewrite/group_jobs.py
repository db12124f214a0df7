"""Groups as Spark jobs: rows that keep their partition go from file to file, rows that move to where they are written.

What a job has written is known here until it is handed over; if anything fails before, it is removed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.table import Table
from pyiceberg.typedef import Record

from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.kernels.data_files import WrittenFile
from lakeshift.iceberg.kernels.move import MOVED_COLUMNS, send_rows, write_moved
from lakeshift.iceberg.kernels.read import FileToRead
from lakeshift.iceberg.kernels.rewrite import (
    OutputSpec,
    RewriteJob,
    RewriteReport,
    RewriteTask,
    rewrite_files,
)
from lakeshift.iceberg.partition_types import partition_array, spec_of
from lakeshift.iceberg.rewrite.commits import RewrittenGroup
from lakeshift.iceberg.rewrite.plan import RewriteDataFilesPlan, RewriteGroup
from lakeshift.iceberg.rewrite.progress import Tracker
from lakeshift.iceberg.rewrite.tasks import GroupFiles, cut, move_tasks, partition_of, rewrite_job, rewrite_tasks
from lakeshift.kernel import new_operation_id
from lakeshift.spark.frames import cores_of
from lakeshift.spark.jobs import cancel_job, frame_of_tasks, partition_places, run_over_frame, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Groups up to this size share a job, so that a thousand small partitions are not a thousand jobs.
_SHARED_JOB_BYTES = 256 * 1024 * 1024
_SHARED_JOB_GROUPS = 200
# How much one task gets to write of rows that move, and how many tasks there are for each core in any case: nobody
# knows beforehand how many bytes a partition gets, and several small tasks even out what one large one would not.
_MOVED_TASK_BYTES = 256 * 1024 * 1024
_MOVED_TASKS_PER_CORE = 4
# Rows that move come in messages of up to a megabyte, of which Spark would otherwise hold ten thousand at once.
_RECORDS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_MESSAGES_AT_ONCE = "8"
_SETTLING_ROUNDS = 2

_setting = threading.Lock()


def shared_jobs(plan: RewriteDataFilesPlan) -> Iterator[list[RewriteGroup]]:
    """Groups in the order of the plan, small ones together; those whose rows move have a job of their own."""
    share = min(_SHARED_JOB_BYTES, max(1, plan.input_bytes // plan.options.max_concurrent_file_group_rewrites))
    batch: list[RewriteGroup] = []
    filled = 0
    for group in plan.groups:
        alone = group.key is None or group.input_bytes >= share
        if batch and (alone or filled + group.input_bytes > share or len(batch) >= _SHARED_JOB_GROUPS):
            yield batch
            batch, filled = [], 0
        if alone:
            yield [group]
        else:
            batch.append(group)
            filled += group.input_bytes
    if batch:
        yield batch


@dataclass
class GroupJobs:
    """Runs groups of one plan as Spark jobs; several may run at once."""

    spark: SparkSession
    table: Table
    plan: RewriteDataFilesPlan
    tracker: Tracker
    job: RewriteJob = field(init=False)

    def __post_init__(self) -> None:
        self.job = rewrite_job(self.table.metadata, self.plan)
        self._active: set[str] = set()
        self._files = GroupFiles(self.plan)
        self._cores = cores_of(self.spark)

    def run(self, groups: Sequence[RewriteGroup]) -> list[RewrittenGroup]:
        """Rewrite groups in one job. None of the new files is committed yet."""
        if len(groups) == 1 and groups[0].key is None:
            return [self._move(groups[0])]
        return self._copy(groups)

    def cancel(self) -> None:
        """End the jobs that run now, as far as the session lets us: on Spark Connect they run to their end."""
        for operation_id in list(self._active):
            cancel_job(self.spark, operation_id)

    @contextmanager
    def _operation(self) -> Iterator[str]:
        # Jobs run side by side, and each numbers its tasks from 0: an id each keeps their files apart.
        operation_id = new_operation_id()
        self._active.add(operation_id)
        try:
            yield operation_id
        finally:
            self._active.discard(operation_id)

    def _copy(self, groups: Sequence[RewriteGroup]) -> list[RewrittenGroup]:
        """Rewrite groups whose rows all go into one partition each."""
        tasks: list[RewriteTask] = []
        owners: list[RewriteGroup] = []
        for group in groups:
            mine = rewrite_tasks(group, self._files.of(group), self.job.outputs[group.output_spec_id])
            tasks += mine
            owners += [group] * len(mine)
        with self.tracker.job(sum(group.input_bytes for group in groups)) as told:
            reports = self._run_tasks(tasks, [_name(group) for group in owners], told)
        written: dict[int, list[WrittenFile]] = {group.group_id: [] for group in groups}
        seconds = dict.fromkeys(written, 0.0)
        for owner, records in zip(owners, reports, strict=True):
            for record in records:
                written[owner.group_id] += record.files
                seconds[owner.group_id] += record.seconds
        try:
            for group in groups:
                seconds[group.group_id] += self._settle(group, written[group.group_id])
                self.tracker.group_done()
        except BaseException:
            remove_files(self.table.io, [file.location for files in written.values() for file in files])
            raise
        return [RewrittenGroup(group, tuple(written[group.group_id]), seconds[group.group_id]) for group in groups]

    def _run_tasks(
        self, tasks: Sequence[RewriteTask], names: Sequence[str], told: Callable[[int, int], None] | None
    ) -> list[tuple[RewriteReport, ...]]:
        with self._operation() as operation_id:
            reports = run_tasks(
                self.spark,
                partial(rewrite_files, job=self.job, io=self.table.io),
                tasks,
                RewriteReport,
                operation_id=operation_id,
                title=f"Rewrite {'.'.join(self.table.name())}",
                names=names,
                progress=told,
            )
        return [report.records for report in reports]

    def _settle(self, group: RewriteGroup, written: list[WrittenFile]) -> float:
        """Join files that came out so small that the next plan would choose them again; returns the seconds it took.

        ``written`` always has the files that are there.
        """
        seconds = 0.0
        for _ in range(_SETTLING_ROUNDS):
            again = worth_joining(written, self.plan)
            if not again:
                break
            tasks = self._joining_tasks(group, again, self.job.outputs[group.output_spec_id])
            reports = self._run_tasks(tasks, [f"{_name(group)}, joining its files"] * len(tasks), None)
            records = [record for report in reports for record in report]
            written += [file for record in records for file in record.files]
            remove_files(self.table.io, [file.location for file in again])
            for file in again:
                written.remove(file)
            seconds += sum(record.seconds for record in records)
        return seconds

    def _joining_tasks(self, group: RewriteGroup, again: list[WrittenFile], output: OutputSpec) -> list[RewriteTask]:
        metadata, partition = self.table.metadata, partition_of(group, output)
        stored = partition_array([Record(*partition)], spec_of(metadata, output.spec_id), metadata).to_pylist()[0]
        files = [
            FileToRead(file.location, "PARQUET", file.size, output.spec_id, tuple(stored.values()), file.rows)
            for file in again
        ]
        pieces = self.plan.sizes.output_files(sum(file.size for file in again)) // 2
        return [RewriteTask(tuple(part), output.spec_id, partition) for part in cut(files, max(1, pieces))]

    def _move(self, group: RewriteGroup) -> RewrittenGroup:
        """Rewrite a group whose rows go to partitions of another spec, each to the task that writes its own."""
        spec_id = group.output_spec_id
        writers = max(self._cores * _MOVED_TASKS_PER_CORE, -(-group.input_bytes // _MOVED_TASK_BYTES))
        inputs = self._files.of(group)
        tasks = move_tasks(group, inputs, partition_places(writers), self._cores)
        sample = max(inputs, key=lambda file: file.length)
        with (
            self.tracker.job(group.input_bytes) as told,
            _few_records_per_batch(self.spark),
            self._operation() as operation_id,
        ):
            rows = frame_of_tasks(
                self.spark,
                partial(send_rows, job=self.job, spec_id=spec_id, io=self.table.io),
                tasks,
                MOVED_COLUMNS,
                operation_id=operation_id,
                names=[_name(group)] * len(tasks),
            )
            reports = run_over_frame(
                rows.repartition(writers, "place"),
                partial(write_moved, job=self.job, spec_id=spec_id, io=self.table.io, sample=sample),
                RewriteReport,
                operation_id=operation_id,
                title=f"Move {'.'.join(self.table.name())} to spec {spec_id}",
                tasks=writers,
                progress=told,
            )
        records = [record for report in reports for record in report.records]
        self.tracker.group_done()
        files = tuple(file for record in records for file in record.files)
        return RewrittenGroup(group, files, sum(record.seconds for record in records))


def worth_joining(written: Sequence[WrittenFile], plan: RewriteDataFilesPlan) -> list[WrittenFile]:
    """Of the new files of one partition those that the next plan would choose again; none if it would not."""
    small = [file for file in written if file.size < plan.sizes.smallest]
    total = sum(file.size for file in small)
    enough = len(small) > 1 and (len(small) >= plan.options.min_input_files or total > plan.sizes.target)
    return small if enough else []


@contextmanager
def _few_records_per_batch(spark: SparkSession) -> Iterator[None]:
    """Let Spark hand over few records at a time while this runs; other queries of the session only get them slower."""
    with _setting:
        before = str(spark.conf.get(_RECORDS_PER_BATCH))
        spark.conf.set(_RECORDS_PER_BATCH, _MESSAGES_AT_ONCE)
        try:
            yield
        finally:
            spark.conf.set(_RECORDS_PER_BATCH, before)


def _name(group: RewriteGroup) -> str:
    return f"Group {group.group_id} ({group.partition})"
