"""What ``lakeshift run`` prints as JSON."""

from __future__ import annotations

from typing import Literal

from lakeshift.cli.outputs.deltas import WritePlan, WriteResult
from lakeshift.cli.outputs.rewrites import FilterStats, PlannedGroup, RewriteTotals, SpecMove
from lakeshift.cli.outputs.shape import Shape
from lakeshift.cli.outputs.tables import Commit


class PlannedInput(Shape):
    """An input and its columns, as Spark writes them; of a stream also how many files or commits are new."""

    format: str
    columns: str
    arrived: int = 0


class PlannedStep(Shape):
    """A step, what it would do in a word, and in lines for people."""

    step: str
    action: str
    target: str
    lines: list[str]


class SkippedStep(PlannedStep):
    """A step that was done by an earlier attempt of this run, or that has to wait for an earlier step."""

    action: Literal["done", "later"]


class TableCreation(PlannedStep):
    """A step that would create an Iceberg table: its columns and types, and its partition fields."""

    action: Literal["create and append", "create and overwrite", "create and merge"]
    columns: dict[str, str]
    spec: list[str]


class IcebergRows(PlannedStep):
    """A step that would write rows under a partition spec."""

    action: Literal["append", "overwrite"]
    spec_id: int
    spec: list[str]
    columns_left_out: list[str]


class IcebergMerge(PlannedStep):
    """A step that would merge rows; new ones under this spec."""

    action: Literal["merge"]
    mode: Literal["merge-on-read", "copy-on-write"]
    spec_id: int
    spec: list[str]


class DeltaRows(WritePlan):
    """A step that would write to a Delta table."""

    step: str
    target: str
    lines: list[str]


class HudiRows(PlannedStep):
    """A step that would write to a Hudi table by Hudi's own writer."""

    action: Literal["upsert", "insert", "bulk_insert"]
    operation: Literal["upsert", "insert", "bulk_insert"]
    table_exists: bool


class RewriteLater(PlannedStep):
    """A rewrite of a table that is not there yet."""

    action: Literal["rewrite"]


class RewriteNow(RewriteLater):
    """What a rewrite would do to the table as it is before the writes."""

    input_files: int
    input_bytes: int
    input_rows: int
    expected_output_files: int
    moves: list[SpecMove]
    groups: list[PlannedGroup]
    filter_stats: FilterStats


class PipelinePlan(Shape):
    """What a run would do, step by step; no step if there are streams and ``nothing_new`` on any of them."""

    pipeline: str
    inputs: dict[str, PlannedInput]
    nothing_new: bool
    steps: list[
        SkippedStep | TableCreation | IcebergRows | IcebergMerge | DeltaRows | HudiRows | RewriteNow | RewriteLater
    ]


class IcebergDetails(Commit):
    """Rows written to an Iceberg table; ``quarantine`` is where those are that it could not hold."""

    operation: Literal["append", "overwrite", "merge"]
    quarantine: str = ""


class FoundIcebergDetails(Shape):
    """What the snapshot tells that an earlier attempt of this run had committed."""

    snapshot_id: int
    added_data_files: int
    added_delete_files: int
    removed_data_files: int
    removed_delete_files: int
    rows_written: int
    rows_quarantined: int | None = None


class DeltaDetails(WriteResult):
    """Rows appended to a Delta table."""

    operation: Literal["append"]


class FoundDeltaDetails(Shape):
    """What the table's log tells that an earlier attempt of this run had committed."""

    operation: Literal["append"]
    version: int | None
    rows_written: int | None


class HudiDetails(Shape):
    """Rows written to a Hudi table, and the instant of the commit."""

    operation: Literal["upsert", "insert", "bulk_insert"]
    instant: str | None


class RewriteDetails(RewriteTotals):
    """What a rewrite did in all, and the messages of groups that failed."""

    operation: Literal["rewrite"]
    failures: list[str]


class DoneStep(Shape):
    """A step that was done; ``found`` says that an earlier attempt had committed it without recording it."""

    step: str
    target: str
    found: bool
    seconds: float
    details: IcebergDetails | DeltaDetails | HudiDetails | RewriteDetails | FoundIcebergDetails | FoundDeltaDetails


class PipelineResult(Shape):
    """What a run did. ``resumed_after`` are the steps that earlier attempts had done; null if it was not resumed.

    ``arrived`` counts the new files or commits of each stream; if there are none on any of them, no step ran.
    """

    pipeline: str
    run_id: str
    number: int
    resumed_after: list[str] | None
    seconds: float
    arrived: dict[str, int]
    nothing_new: bool
    steps: list[DoneStep]
