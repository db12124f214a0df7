"""Overwrite by a condition: the rows for which it is true give way to those of a frame, in one commit.

How rows go is decided as for DELETE, by ``write.delete.mode``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import IsolationLevel

from lakeshift.errors import CommitStateUnknownError
from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.commit.result import CommitResult
from lakeshift.iceberg.dml.delete import mark, plan_delete
from lakeshift.iceberg.dml.run import Run, apply
from lakeshift.iceberg.write import WriteRequest, check_writable, write_files

if TYPE_CHECKING:
    from pyspark.sql import Column


def overwrite_where(run: Run, request: WriteRequest, where: str | Column, isolation: IsolationLevel) -> CommitResult:
    """Replace rows. New rows need not match the condition: what replaces the old ones is the caller's choice."""
    check_writable(run.table, request)
    run = dataclasses.replace(run, rules=dataclasses.replace(run.rules, isolation=isolation))
    condition, target = plan_delete(run, where)
    marks = mark(run, target, condition)
    try:
        written = write_files(run.table, request)
    except BaseException:
        marks.remove(run.table)
        raise
    try:
        result = apply(run, target, marks, where=condition.pushed, added=written.files)
    except CommitStateUnknownError:
        raise  # the rows may be in the table after all, and then those in quarantine belong to them
    except BaseException:
        remove_files(run.table.io, written.quarantine_files)
        raise
    return dataclasses.replace(
        result,
        rows_written=sum(file.record_count for file in written.files),
        rows_quarantined=written.bad_rows.rows,
    )
