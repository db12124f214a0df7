"""DELETE: rows for which a condition is true leave the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeshift.iceberg.commit.result import CommitResult
from lakeshift.iceberg.dml.conditions import Condition, read_condition
from lakeshift.iceberg.dml.plan import Target, plan_target
from lakeshift.iceberg.dml.run import Marks, Preview, Run, apply, mark_exactly, mark_frame, target_frame
from lakeshift.iceberg.kernels.mark import ROW_ID

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def delete(run: Run, where: str | Column) -> CommitResult:
    """Delete rows. Files that match wholly go unread; a condition that matches nothing commits nothing."""
    condition, target = plan_delete(run, where)
    return apply(run, target, mark(run, target, condition), where=condition.pushed)


def preview_delete(run: Run, where: str | Column) -> Preview:
    """What `delete` would change."""
    condition, target = plan_delete(run, where)
    return Preview.of(run, target, mark(run, target, condition, dry=True))


def plan_delete(run: Run, where: str | Column) -> tuple[Condition, Target]:
    """The condition as it is understood, and the files it can be true in."""
    condition = read_condition(run, where)
    metadata, io = run.table.metadata, run.table.io
    return condition, plan_target(metadata, io, run.rules.branch, condition.pushed, drop_whole=condition.exact)


def mark(run: Run, target: Target, condition: Condition, *, dry: bool = False) -> Marks:
    """Mark the rows of a target for which a condition is true."""
    if not target.candidates:
        return Marks()
    if condition.exact:
        return mark_exactly(run, target, condition.pushed, dry=dry)
    # Every file is read by one task and nothing is exchanged, so that its rows stay together.
    return mark_frame(run, target, ids_by_spark(run, target, condition), dry=dry)


def ids_by_spark(run: Run, target: Target, condition: Condition) -> DataFrame:
    """The ids of the rows of a target for which Spark calls a condition true."""
    frame = target_frame(run, target, condition.columns, condition.pushed)
    return frame.filter(condition.original).select(ROW_ID)
