"""``lakeshift table delete``, ``update`` and ``merge``: rows changed from a terminal, or first shown what would be.

``--dry-run`` runs the same plan and the same search for rows, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from lakeshift.cli.inputs import format_option, progress_bar, quiet_session, read_input
from lakeshift.cli.options import lake_options, open_lake
from lakeshift.cli.output import emit, say

if TYPE_CHECKING:
    from lakeshift.iceberg.commit.result import CommitResult
    from lakeshift.iceberg.dml.run import Preview

_MODES = click.Choice(["merge-on-read", "copy-on-write"])


def _change_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that changes rows."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show which files and rows would change, and write nothing."),
        click.option("--branch", help="The branch to change, main by default."),
        click.option("--mode", type=_MODES, help="Default: what the table's properties say."),
    ):
        command = option(command)
    return lake_options(command)


@click.command()
@click.argument("name")
@click.option("--where", required=True, metavar="SQL", help="Rows for which this is true are deleted.")
@_change_options
def delete(
    name: str,
    where: str,
    mode: str | None,
    branch: str | None,
    dry_run: bool,
    catalog: str,
    warehouse: str,
    properties: tuple[str, ...],
) -> None:
    """Delete rows."""
    from lakeshift.iceberg.dml.delete import preview_delete

    lake = open_lake(catalog, warehouse, properties)
    found = lake.iceberg(name)
    with quiet_session(lake), progress_bar(f"Deleting from {name}") as progress:
        if dry_run:
            _tell_preview(name, preview_delete(found.begin("delete", mode, branch, progress=progress), where))
        else:
            _tell(name, "deleted", found.delete(where, mode, branch=branch, progress=progress))


@click.command()
@click.argument("name")
@click.option(
    "--set", "assigned", multiple=True, required=True, metavar="COLUMN=SQL", help="A column's new value (repeatable)."
)
@click.option("--where", metavar="SQL", help="Rows for which this is true are updated; all without it.")
@_change_options
def update(
    name: str,
    assigned: tuple[str, ...],
    where: str | None,
    mode: str | None,
    branch: str | None,
    dry_run: bool,
    catalog: str,
    warehouse: str,
    properties: tuple[str, ...],
) -> None:
    """Assign to columns of rows."""
    from lakeshift.iceberg.dml.update import preview_update

    values = _assignments(assigned, "--set")
    lake = open_lake(catalog, warehouse, properties)
    found = lake.iceberg(name)
    with quiet_session(lake), progress_bar(f"Updating {name}") as progress:
        if dry_run:
            run = found.begin("update", mode, branch, progress=progress)
            _tell_preview(name, preview_update(run, values, where))
        else:
            _tell(name, "updated", found.update(values, where, mode, branch=branch, progress=progress))


@click.command()
@click.argument("name")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--on", "condition", required=True, metavar="SQL", help="Such as 'target.id = source.id'.")
@click.option("--matched", type=click.Choice(["update", "delete"]), help="What becomes of rows that INPUT matches.")
@click.option("--not-matched", type=click.Choice(["insert"]), help="What becomes of rows of INPUT without a match.")
@click.option("--not-matched-by-source", type=click.Choice(["delete"]), help="And of rows that INPUT does not match.")
@click.option("--set", "assigned", multiple=True, metavar="COLUMN=SQL", help="With --matched update: not all columns.")
@format_option()
@_change_options
def merge(
    name: str,
    inputs: tuple[str, ...],
    condition: str,
    matched: str | None,
    not_matched: str | None,
    not_matched_by_source: str | None,
    assigned: tuple[str, ...],
    input_format: str | None,
    mode: str | None,
    branch: str | None,
    dry_run: bool,
    catalog: str,
    warehouse: str,
    properties: tuple[str, ...],
) -> None:
    """Merge Parquet, JSON or CSV files into a table: one clause of each kind; the Python API takes several."""
    if not (matched or not_matched or not_matched_by_source):
        raise click.UsageError("Give --matched, --not-matched or --not-matched-by-source.")
    if assigned and matched != "update":
        raise click.UsageError("--set belongs to --matched update.")
    lake = open_lake(catalog, warehouse, properties)
    found = lake.iceberg(name)
    with quiet_session(lake) as spark, progress_bar(f"Merging into {name}") as progress:
        merging = found.merge(
            read_input(spark, inputs, input_format), condition, mode, branch=branch, progress=progress
        )
        if matched == "update":
            merging.when_matched_update(_assignments(assigned, "--set") if assigned else None)
        elif matched == "delete":
            merging.when_matched_delete()
        if not_matched:
            merging.when_not_matched_insert()
        if not_matched_by_source:
            merging.when_not_matched_by_source_delete()
        if dry_run:
            _tell_preview(name, merging.preview())
        else:
            _tell(name, "merged", merging.execute())


def _assignments(texts: tuple[str, ...], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        column, equals, value = text.partition("=")
        if not equals or not column.strip() or not value.strip():
            raise click.BadParameter(f"{text!r} is not COLUMN=SQL.", param_hint=option)
        if column.strip() in found:
            raise click.BadParameter(f"column {column.strip()!r} is assigned to twice.", param_hint=option)
        found[column.strip()] = value.strip()
    return found


def _tell(name: str, done: str, result: CommitResult) -> None:
    def tell() -> None:
        if result.snapshot_id is None:
            say(f"No row of {name} matches; nothing was committed.")
            return
        say(
            f"{done.capitalize()} in {name}: {result.rows_deleted} rows changed or gone, {result.rows_written} rows "
            f"written; {result.added_data_files} data and {result.added_delete_files} delete files added, "
            f"{result.removed_data_files} data files removed, as snapshot {result.snapshot_id}."
        )

    emit(result.to_dict(), tell)


def _tell_preview(name: str, found: Preview) -> None:
    specs = ", ".join(f"{files} under spec {spec}" for spec, files in found.changed_files_by_spec.items())
    emit(
        found.to_dict(),
        lambda: say(
            f"{found.operation.capitalize()} in {name}, {found.mode}: {found.rows_deleted} rows would change or go, "
            f"{found.rows_inserted} would be written. Of {found.live_files} files {found.opened_files} were opened and "
            f"{found.dropped_files} would be dropped unread; rows change in {specs or 'none'}. Nothing was written."
        ),
    )
