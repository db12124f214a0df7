"""What ``lakeshift rewrite`` prints as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lakeshift.cli.outputs.shape import Shape


class FileSizes(Shape):
    """The size in bytes that files should have, and the limits beyond which they are rewritten."""

    target: int
    smallest: int
    largest: int


class RewriteOptions(Shape):
    """The options that the plan was made with; null where the table's properties or nothing decide."""

    target_file_size_bytes: int | None
    min_file_size_bytes: int | None
    max_file_size_bytes: int | None
    min_input_files: int
    rewrite_all: bool
    max_file_group_size_bytes: int
    max_file_group_input_files: int | None
    max_files_to_rewrite: int | None
    delete_file_threshold: int | None
    delete_ratio_threshold: float
    rewrite_job_order: str
    max_concurrent_file_group_rewrites: int
    partial_progress_enabled: bool
    partial_progress_max_commits: int
    partial_progress_max_failed_commits: int | None
    use_starting_sequence_number: bool
    remove_dangling_deletes: bool


class SpecMove(Shape):
    """How much of a spec's data would move to the target spec."""

    spec_id: int
    files: int
    bytes: int
    rows: int


class PlannedGroup(Shape):
    """Files that are rewritten together. ``files`` are their paths, with ``--files`` only."""

    group_id: int
    spec_ids: list[int]
    output_spec_id: int
    partition: str
    input_files: int
    input_bytes: int
    input_rows: int
    delete_files: int
    expected_output_files: int
    moved_files: int
    files: list[str] = Field(default_factory=list)


class FilterStats(Shape):
    """How often the filter could not be decided, and files were included for safety."""

    unevaluable_specs: int
    eval_errors: int
    fail_open_partitions: int
    fail_open_files: int


class FilteredSpec(Shape):
    """What the filter and the thresholds did to the files of one spec."""

    spec_id: int
    fields: list[str]
    status: Literal["no filter", "constrained", "not constrained", "unevaluable"]
    detail: str
    manifests_read: int
    manifests_skipped: int
    partitions: int
    partitions_excluded: int
    fail_open_partitions: int
    files: int
    files_excluded_by_partition: int
    files_excluded_by_metrics: int
    candidates: int
    chosen: int


class PlanWarning(Shape):
    """Why a filter could not be decided; ``partition`` is null if that holds for the whole spec."""

    concern: Literal["unevaluable-spec", "evaluation-error"]
    spec_id: int
    partition: str | None
    message: str


class RewritePlan(Shape):
    """What a rewrite would do. ``snapshot_id`` is null for a table without rows."""

    snapshot_id: int | None
    target_spec_id: int | None
    file_sizes: FileSizes
    options: RewriteOptions
    input_files: int
    input_bytes: int
    input_rows: int
    expected_output_files: int
    moves: list[SpecMove]
    groups: list[PlannedGroup]
    filter_stats: FilterStats
    manifests_read: int
    manifests_skipped: int
    specs: list[FilteredSpec]
    warnings: list[PlanWarning]
    warnings_omitted: int


class RewrittenGroup(Shape):
    """What became of a group. With ``error``, nothing of it was committed and ``snapshot_id`` is null."""

    group_id: int
    partition: str
    spec_ids: list[int]
    output_spec_id: int
    input_files: int
    input_bytes: int
    input_rows: int
    delete_files_applied: int
    output_files: int
    output_bytes: int
    output_rows: int
    seconds: float
    snapshot_id: int | None
    error: str | None


class RewriteTotals(Shape):
    """What a rewrite did in all. Files, bytes and rows count only what was committed."""

    snapshot_ids: list[int]
    rewritten_data_files: int
    added_data_files: int
    rewritten_bytes: int
    added_bytes: int
    rows_before: int
    rows_after: int
    removed_delete_files: int
    failed_groups: int
    filter_stats: FilterStats
    seconds: float


class RewriteResult(RewriteTotals):
    """What a rewrite did, in all and group by group. The command exits with 1 if a group failed."""

    groups: list[RewrittenGroup]
