"""UPDATE: rows for which a condition is true are written anew, with other values, and their old places deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakeshift.iceberg.commit.result import CommitResult
from lakeshift.iceberg.dml.assignments import Assignments, Case, check_case, project
from lakeshift.iceberg.dml.conditions import Condition, read_condition
from lakeshift.iceberg.dml.delete import mark
from lakeshift.iceberg.dml.plan import Target, plan_target
from lakeshift.iceberg.dml.run import Marks, Preview, Run, apply, rows_by_marks, spark_schema
from lakeshift.iceberg.specs import writable_spec
from lakeshift.spark.frames import is_case_sensitive, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WHAT = "UPDATE"


def update(run: Run, assigned: Mapping[str, str | Column], where: str | Column | None) -> CommitResult:
    """Assign to columns of the rows that match; they move to the default spec."""
    case, condition, target = plan_update(run, assigned, where)
    marks = mark(run, target, condition)
    rows = updated_rows(run, target, marks, case) if marks.counts else None
    return apply(run, target, marks, rows, new_row_count=marks.rows, where=condition.pushed, moves_rows=True)


def preview_update(run: Run, assigned: Mapping[str, str | Column], where: str | Column | None) -> Preview:
    """What `update` would change."""
    _, condition, target = plan_update(run, assigned, where)
    marks = mark(run, target, condition, dry=True)
    return Preview.of(run, target, marks, inserted=marks.rows)


def plan_update(
    run: Run, assigned: Mapping[str, str | Column], where: str | Column | None
) -> tuple[Case, Condition, Target]:
    """What rows become, the condition as it is understood, and the files it can be true in."""
    schema = run.table.schema()
    writable_spec(run.table.metadata)
    case = update_case(0, assigned, run, _WHAT)
    empty = run.spark.createDataFrame([], spark_schema(schema))
    check_case(empty, schema, case, _WHAT)
    condition = read_condition(run, "true" if where is None else where)
    metadata = run.table.metadata
    return case, condition, plan_target(metadata, run.table.io, run.rules.branch, condition.pushed)


def update_case(number: int, assigned: Mapping[str, str | Column], run: Run, what: str, qualifier: str = "") -> Case:
    """What a row becomes: its own values, except in the columns that are assigned to."""
    schema = run.table.schema()
    found = Assignments.of(assigned, schema, case_sensitive=is_case_sensitive(run.spark), what=what).values
    kept = {field.name: f"{qualifier}{quoted(field.name)}" for field in schema.fields if field.name not in found}
    return Case(number, found, kept)


def updated_rows(run: Run, target: Target, marks: Marks, case: Case) -> DataFrame:
    """The marked rows, as the assignments leave them."""
    return project(rows_by_marks(run, target, marks, "marked"), run.table.schema(), [case], _WHAT)
