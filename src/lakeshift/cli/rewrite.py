"""``lakeshift rewrite``: which files of a table are worth rewriting. Planning starts no JVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from lakeshift.cli.options import lake_options, open_lake
from lakeshift.cli.output import emit, say, show_table
from lakeshift.iceberg.rewrite.options import JOB_ORDERS, RewriteOptions

if TYPE_CHECKING:
    from lakeshift.iceberg.rewrite.plan import RewriteDataFilesPlanningResult, RewriteGroup

_SHOWN_GROUPS = 50
_KINDS = {"int": click.INT, "float": click.FLOAT, "str": click.STRING}


@click.group()
def rewrite() -> None:
    """Plan the compaction of an Iceberg table."""


def _rewrite_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Every option of a rewrite under the name that Java has for it; those not given are left out."""
    for item in reversed(fields(RewriteOptions)):
        name, doc = item.metadata["java_name"], item.metadata["doc"]
        default = "" if item.default is None else f" [default: {str(item.default).lower()}]"
        kind = str(item.type).partition(" | ")[0]
        if kind == "bool":
            decorate = click.option(f"--{name}/--no-{name}", item.name, default=None, help=doc + default)
        else:
            chosen = click.Choice(JOB_ORDERS) if name == "rewrite-job-order" else _KINDS[kind]
            decorate = click.option(f"--{name}", item.name, type=chosen, default=None, help=doc + default)
        command = decorate(command)
    return command


@rewrite.command()
@click.argument("name")
@click.option("--where", metavar="SQL", help="Only files that may hold rows for which this is true.")
@click.option("--target-spec-id", type=int, metavar="ID", help="Move all files of other specs to this spec.")
@click.option(
    "--strictness",
    type=click.Choice(["fail-open", "fail-closed"]),
    default="fail-open",
    show_default=True,
    help="Include partitions for which the filter cannot be decided, or fail.",
)
@click.option("--branch", help="The branch to plan on, main by default.")
@click.option("--session-time-zone", metavar="ZONE", help="Of times in --where that have none, such as Europe/Zurich.")
@click.option("--case-sensitive", is_flag=True, help="Names in --where must have the case of the table's columns.")
@click.option("--files", "with_files", is_flag=True, help="List the files of each group.")
@_rewrite_options
@lake_options
def plan(
    name: str,
    where: str | None,
    target_spec_id: int | None,
    strictness: str,
    branch: str | None,
    session_time_zone: str | None,
    case_sensitive: bool,
    with_files: bool,
    catalog: str,
    warehouse: str,
    properties: tuple[str, ...],
    **options: Any,
) -> None:
    """Show what a rewrite would do: its groups, and what the filter did in each spec. Writes nothing."""
    result = (
        open_lake(catalog, warehouse, properties)
        .iceberg(name)
        .plan_rewrite(
            where,
            target_spec_id,
            strictness,
            branch=branch,
            case_sensitive=case_sensitive,
            session_time_zone=session_time_zone,
            **{key: value for key, value in options.items() if value is not None},
        )
    )
    emit(result.to_dict(with_files=with_files), lambda: _show(result, with_files=with_files))
    _warn(result)


def _show(result: RewriteDataFilesPlanningResult, *, with_files: bool) -> None:
    groups = result.groups
    if groups:
        show_table(
            ["Group", "Partition", "Specs", "Files", "Size", "Rows", "Delete files", "New files"],
            [_group_row(group) for group in groups[:_SHOWN_GROUPS]],
            "Groups",
        )
        if len(groups) > _SHOWN_GROUPS:
            say(f"... and {len(groups) - _SHOWN_GROUPS} more groups; --json lists them all.")
    for move in result.plan.moves:
        say(
            f"From spec {move.spec_id} to spec {result.plan.target_spec_id}: {move.files} files, "
            f"{size_text(move.bytes)}, {move.rows} rows would move."
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
        show_table(
            ["Group", "File"], [[g.group_id, path] for g in groups for path in g.to_dict(with_files=True)["files"]]
        )
    plan = result.plan
    say(
        f"{len(groups)} groups: {plan.input_files} files of {size_text(plan.input_bytes)} would become about "
        f"{plan.expected_output_files}."
        if groups
        else "Nothing to do."
    )


def _group_row(group: RewriteGroup) -> list[object]:
    specs = ", ".join(str(number) for number in group.spec_ids)
    moves = f"{specs} -> {group.output_spec_id}" if group.moved_files else specs
    return [
        group.group_id,
        group.partition,
        moves,
        group.input_files,
        size_text(group.input_bytes),
        group.input_rows,
        group.delete_files,
        group.expected_output_files,
    ]


def _of(kept: int, left_out: int) -> str:
    return f"{kept} of {kept + left_out}" if left_out else str(kept)


def _warn(result: RewriteDataFilesPlanningResult) -> None:
    """On standard error, so that output for machines stays what it is."""
    stats = result.filter_stats
    if stats.fail_open_partitions:
        click.echo(
            f"Warning: the filter could not be decided for {stats.fail_open_partitions} partitions, so that "
            f"{stats.fail_open_files} candidate files are included for safety. --strictness fail-closed makes this an "
            "error.",
            err=True,
        )
        for warning in result.warnings:
            where = f"spec {warning.spec_id}" + (f", {warning.partition}" if warning.partition else "")
            click.echo(f"  {where}: {warning.message}", err=True)
        if result.warnings_omitted:
            click.echo(f"  and {result.warnings_omitted} more", err=True)


def size_text(size: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
