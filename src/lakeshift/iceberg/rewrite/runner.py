"""Running a plan: its groups are rewritten by Spark jobs, and their new files become commits.

Everything that can be known to be wrong is found before the first byte is written; whatever is not committed in
the end is removed. With partial progress groups are committed while others still run, and one that fails is told of
in the result instead of failing all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.table import Table

from lakeshift.errors import CommitConflictError, LakeshiftError
from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.commit.target import check_target
from lakeshift.iceberg.rewrite.commits import GroupCommits, RewrittenGroup
from lakeshift.iceberg.rewrite.group_jobs import GroupJobs, shared_jobs
from lakeshift.iceberg.rewrite.plan import RewriteDataFilesPlan, RewriteDataFilesPlanningResult, RewriteGroup
from lakeshift.iceberg.rewrite.progress import RewriteProgress, Tracker
from lakeshift.iceberg.rewrite.result import GroupResult, RewriteResult
from lakeshift.iceberg.rewrite.tasks import check_rewritable
from lakeshift.iceberg.write import OPERATION_ID
from lakeshift.kernel import new_operation_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _Failed:
    """A group that could not be rewritten."""

    group: RewriteGroup
    error: LakeshiftError


_Outcome: TypeAlias = RewrittenGroup | _Failed


def run_rewrite(
    spark: SparkSession,
    table: Table,
    planned: RewriteDataFilesPlanningResult,
    *,
    branch: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    progress: RewriteProgress | None = None,
) -> RewriteResult:
    """Rewrite the groups of a plan and commit them; ``table`` must be as the plan saw it."""
    plan = planned.plan
    properties = dict(snapshot_properties or {})
    started = time.perf_counter()
    run = None
    check_target(table.metadata, branch, properties)
    check_rewritable(table.metadata, plan)
    if plan.groups:
        tracker = Tracker(plan, progress)
        commits = GroupCommits(table, plan, branch, {**properties, OPERATION_ID: new_operation_id()})
        run = _Run(plan, GroupJobs(spark, table, plan, tracker), commits, tracker)
        run.run()
    return RewriteResult(
        snapshot_ids=tuple(run.snapshots) if run else (),
        groups=tuple(run.results[group.group_id] for group in plan.groups) if run else (),
        removed_delete_files=run.removed_deletes if run else 0,
        filter_stats=planned.filter_stats,
        seconds=time.perf_counter() - started,
    )


@dataclass
class _Run:
    plan: RewriteDataFilesPlan
    jobs: GroupJobs
    commits: GroupCommits
    tracker: Tracker
    results: dict[int, GroupResult] = field(default_factory=dict)
    snapshots: list[int] = field(default_factory=list)
    removed_deletes: int = 0
    failed_commits: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    waiting: list[RewrittenGroup] = field(default_factory=list)
    # Groups that were given to a commit, which itself removes their files or, if nobody knows its outcome, keeps them.
    given: set[int] = field(default_factory=set)

    def run(self) -> None:
        options = self.plan.options
        per_commit = len(self.plan.groups)
        if options.partial_progress_enabled:
            per_commit = -(-len(self.plan.groups) // options.partial_progress_max_commits)
        with ThreadPoolExecutor(
            options.max_concurrent_file_group_rewrites, thread_name_prefix="lakeshift-rewrite"
        ) as pool:
            running = [pool.submit(self._rewrite, groups) for groups in shared_jobs(self.plan)]
            try:
                for job in as_completed(running):
                    self._take_over(job.result())
                    while len(self.waiting) >= per_commit:
                        self._commit(per_commit)
                if self.waiting:
                    self._commit(len(self.waiting))
            except BaseException:
                self._stop(running)
                raise

    def _rewrite(self, groups: Sequence[RewriteGroup]) -> list[_Outcome]:
        """Rewrite groups in one job; with partial progress, a failure is narrowed down to the groups it is about."""
        if self.stopped.is_set():
            return []
        try:
            return list(self.jobs.run(groups))
        except LakeshiftError as error:
            if not self.plan.options.partial_progress_enabled:
                raise
            if len(groups) == 1:
                return [_Failed(groups[0], error)]
            return [outcome for group in groups for outcome in self._rewrite([group])]

    def _take_over(self, outcomes: Sequence[_Outcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, _Failed):
                self.results[outcome.group.group_id] = _result(outcome.group, error=outcome.error)
            else:
                self.waiting.append(outcome)

    def _commit(self, count: int) -> None:
        """Commit the first groups that wait."""
        groups, self.waiting = self.waiting[:count], self.waiting[count:]
        self.given.update(each.group.group_id for each in groups)
        if not self.plan.options.partial_progress_enabled:
            result = self.commits.commit(groups)
            self._committed(groups, result.snapshot_id, result.removed_delete_files)
            return
        partial, held, conflicts = self.commits.commit_those_that_hold(groups)
        for each in groups:
            if each.group.group_id in conflicts:
                self.results[each.group.group_id] = _result(each.group, error=conflicts[each.group.group_id])
        if partial is not None:
            self._committed(held, partial.snapshot_id, partial.removed_delete_files)
        else:
            self._commit_failed(next(iter(conflicts.values())))

    def _committed(self, groups: Sequence[RewrittenGroup], snapshot_id: int | None, removed: int) -> None:
        assert snapshot_id is not None
        self.snapshots.append(snapshot_id)
        self.removed_deletes += removed
        self.tracker.committed()
        for each in groups:
            self.results[each.group.group_id] = _result(each.group, each, snapshot_id=snapshot_id)

    def _commit_failed(self, error: CommitConflictError) -> None:
        self.failed_commits += 1
        allowed = self.plan.options.max_failed_commits
        if self.failed_commits > allowed:
            raise CommitConflictError(
                f"{self.failed_commits} commits of the rewrite failed, and partial_progress_max_failed_commits allows "
                f"{allowed}. The {len(self.snapshots)} commits that were made are kept. The last failure: {error}",
                retryable=True,
            ) from error

    def _stop(self, running: Sequence[Future[list[_Outcome]]]) -> None:
        """Let no job begin any more, end those that run, and remove what was written and not committed."""
        self.stopped.set()
        self.jobs.cancel()
        left = list(self.waiting)
        known = {*self.given, *(each.group.group_id for each in left)}
        for job in running:
            if not job.cancel() and job.exception() is None:
                done = (outcome for outcome in job.result() if isinstance(outcome, RewrittenGroup))
                left += [outcome for outcome in done if outcome.group.group_id not in known]
        remove_files(self.commits.table.io, [location for each in left for location in each.locations])


def _result(
    group: RewriteGroup,
    written: RewrittenGroup | None = None,
    *,
    snapshot_id: int | None = None,
    error: LakeshiftError | None = None,
) -> GroupResult:
    files = () if written is None else written.files
    return GroupResult(
        group_id=group.group_id,
        partition=group.partition,
        spec_ids=group.spec_ids,
        output_spec_id=group.output_spec_id,
        input_files=group.input_files,
        input_bytes=group.input_bytes,
        input_rows=group.input_rows,
        delete_files_applied=group.delete_files,
        output_files=len(files),
        output_bytes=sum(file.size for file in files),
        output_rows=sum(file.rows for file in files),
        seconds=0.0 if written is None else written.seconds,
        snapshot_id=snapshot_id,
        error=None if error is None else f"{type(error).__name__}: {error}",
    )
