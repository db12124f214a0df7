"""How plans and results of rewrites look on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from lakeshift.cli.output import say, show_table

if TYPE_CHECKING:
    from lakeshift.iceberg.rewrite.diagnostics import FilterStats, PlanWarning
    from lakeshift.iceberg.rewrite.plan import RewriteDataFilesPlanningResult, RewriteGroup
    from lakeshift.iceberg.rewrite.result import GroupResult, RewriteResult

_SHOWN_GROUPS = 50


def show_plan(result: RewriteDataFilesPlanningResult, *, with_files: bool) -> None:
    """Groups, what would move, and what the filter did in each spec."""
    groups, plan = result.groups, result.plan
    if groups:
        show_table(
            ["Group", "Partition", "Specs", "Files", "Size", "Rows", "Delete files", "New files"],
            [_planned_row(group) for group in groups[:_SHOWN_GROUPS]],
            "Groups",
        )
        _say_more(len(groups))
    for move in plan.moves:
        say(
            f"From spec {move.spec_id} to spec {plan.target_spec_id}: {move.files} files, {size_text(move.bytes)}, "
            f"{move.rows} rows would move."
        )
    show_table(
        ["Spec", "Partitioned by", "Filter", "Manifests", "Partitions", "Files", "Candidates", "Chosen"],
        [
            [
                spec.spec_id,
                ", ".join(spec.fields) or "unpartitioned",
                f"{spec.status.value}{f': {spec.detail}' if spec.detail else ''}",
                _of(spec.manifests_read, spec.manifests_skipped),
                _of(spec.partitions - spec.partitions_excluded, spec.partitions_excluded),
                _of(
                    spec.files - spec.files_excluded_by_partition - spec.files_excluded_by_metrics,
                    spec.files_excluded_by_partition + spec.files_excluded_by_metrics,
                ),
                spec.candidates,
                spec.chosen,
            ]
            for spec in result.specs
        ],
        "What the filter did",
    )
    if with_files:
        rows = [[group.group_id, path] for group in groups for path in group.to_dict(with_files=True)["files"]]
        show_table(["Group", "File"], rows)
    say(
        f"{len(groups)} groups: {plan.input_files} files of {size_text(plan.input_bytes)} would become about "
        f"{plan.expected_output_files}."
        if groups
        else "Nothing to do."
    )


def show_result(result: RewriteResult) -> None:
    """What became of each group, and of all."""
    show_table(
        ["Group", "Partition", "Specs", "Files", "Size", "Rows", "Deletes applied", "Outcome"],
        [_done_row(group) for group in result.groups[:_SHOWN_GROUPS]],
        "Groups",
    )
    _say_more(len(result.groups))
    say(
        f"{result.rewritten_data_files} files of {size_text(result.rewritten_bytes)} became {result.added_data_files} "
        f"of {size_text(result.added_bytes)} in {result.seconds:.1f} s, with {len(result.snapshot_ids)} commits; "
        f"{result.removed_delete_files} delete files were removed."
    )
    if result.failed_groups:
        say(f"{len(result.failed_groups)} groups failed and are as they were.", style="red")


def warn_of_fail_open(stats: FilterStats, warnings: Sequence[PlanWarning], omitted: int) -> None:
    """On standard error, so that output for machines stays what it is."""
    if not stats.fail_open_partitions:
        return
    click.echo(
        f"Warning: the filter could not be decided for {stats.fail_open_partitions} partitions, so that "
        f"{stats.fail_open_files} candidate files are included for safety. --strictness fail-closed makes this an "
        "error.",
        err=True,
    )
    for warning in warnings:
        where = f"spec {warning.spec_id}" + (f", {warning.partition}" if warning.partition else "")
        click.echo(f"  {where}: {warning.message}", err=True)
    if omitted:
        click.echo(f"  and {omitted} more", err=True)


def size_text(size: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _planned_row(group: RewriteGroup) -> list[object]:
    return [
        group.group_id,
        group.partition,
        _specs(group.spec_ids, group.output_spec_id),
        group.input_files,
        size_text(group.input_bytes),
        group.input_rows,
        group.delete_files,
        group.expected_output_files,
    ]


def _done_row(group: GroupResult) -> list[object]:
    done = group.error is None
    return [
        group.group_id,
        group.partition,
        _specs(group.spec_ids, group.output_spec_id),
        f"{group.input_files} -> {group.output_files}" if done else group.input_files,
        f"{size_text(group.input_bytes)} -> {size_text(group.output_bytes)}" if done else size_text(group.input_bytes),
        f"{group.input_rows} -> {group.output_rows}" if done else group.input_rows,
        group.delete_files_applied,
        "committed" if done else group.error,
    ]


def _specs(spec_ids: Sequence[int], output: int) -> str:
    text = ", ".join(str(number) for number in spec_ids)
    return text if set(spec_ids) == {output} else f"{text} -> {output}"


def _of(kept: int, left_out: int) -> str:
    return f"{kept} of {kept + left_out}" if left_out else str(kept)


def _say_more(groups: int) -> None:
    if groups > _SHOWN_GROUPS:
        say(f"... and {groups - _SHOWN_GROUPS} more groups; --json lists them all.")
