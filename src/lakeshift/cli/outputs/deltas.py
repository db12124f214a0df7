"""What ``lakeshift delta`` prints as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lakeshift.cli.outputs.shape import Shape


class NewColumn(Shape):
    """A column that the input has and the table has not."""

    column: str
    type: str


class TypeChange(Shape):
    """A column whose type changes, or whose values are cast."""

    column: str
    from_: str = Field(alias="from")
    to: str


class Problem(Shape):
    """A column that cannot be brought into the table, and the way out."""

    column: str
    reason: str
    remedy: str
    table_type: str = ""
    input_type: str = ""


class SchemaDiff(Shape):
    """How the input's columns differ from the table's."""

    kind: Literal["Identical", "NewColumns", "TypeWidening", "Mixed", "Incompatible"]
    new_columns: list[NewColumn]
    widened: list[TypeChange]
    problems: list[Problem]


class WritePlan(Shape):
    """What a write would do: ``action``, and why not where it is ``refuse``."""

    action: Literal["create", "append", "evolve", "refuse"]
    diff: SchemaDiff
    enables_type_widening: bool
    cast_up: list[TypeChange]
    filled: list[str]
    expressions: list[str]
    notes: list[str]
    refusals: list[str]


class WriteDryRun(Shape):
    """What a write would do. The command exits with 1 if it would be refused."""

    dry_run: Literal[True]
    plan: WritePlan


class WriteResult(Shape):
    """What a write did; ``version`` is null if the batch was skipped, or the table's log does not tell."""

    version: int | None
    skipped: bool
    evolved: bool
    attempts: int
    rows_written: int | None
    files_added: int | None
    diff: SchemaDiff
