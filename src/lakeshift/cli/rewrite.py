"""``lakeshift rewrite``: which files of a table are worth rewriting, and rewriting them. Planning starts no JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from lakeshift.cli.inputs import quiet_session
from lakeshift.cli.options import lake_options, open_lake, settings
from lakeshift.cli.output import console, emit, on_terminal, say
from lakeshift.cli.rewrite_output import show_plan, show_result, size_text, warn_of_fail_open
from lakeshift.cli.startup import starts_no_jvm
from lakeshift.iceberg.rewrite.options import JOB_ORDERS, RewriteOptions

if TYPE_CHECKING:
    from lakeshift.iceberg.rewrite.progress import RewriteProgress, RewriteStep

_KINDS = {"int": click.INT, "float": click.FLOAT, "str": click.STRING}


@click.group()
def rewrite() -> None:
    """Plan and run the compaction of an Iceberg table."""


def _what_to_rewrite(command: Callable[..., Any], *, to_read: bool = False) -> Callable[..., Any]:
    """The table, the filter, and every option of a rewrite; the command takes ``lake``, ``name`` and ``wanted``.

    ``to_read`` says that the command changes nothing.
    """

    @wraps(command)
    def with_arguments(name: str, catalog: str, warehouse: str, properties: tuple[str, ...], **given: Any) -> None:
        own = {key: given.pop(key) for key in list(given) if key in ("with_files", "snapshot_properties")}
        wanted = {key: value for key, value in given.items() if value is not None}
        command(open_lake(catalog, warehouse, properties, to_read=to_read), name, wanted, **own)

    decorated: Callable[..., Any] = lake_options(with_arguments)
    for item in reversed(fields(RewriteOptions)):
        decorated = _option(item.name, item.metadata, str(item.type), item.default)(decorated)
    for decorate in (
        click.option(
            "--case-sensitive", is_flag=True, default=None, help="Names in --where must have the table's case."
        ),
        click.option("--session-time-zone", metavar="ZONE", help="Of times in --where without one: Europe/Zurich."),
        click.option("--branch", help="The branch to work on, main by default."),
        click.option(
            "--strictness",
            type=click.Choice(["fail-open", "fail-closed"]),
            default="fail-open",
            show_default=True,
            help="Include partitions for which the filter cannot be decided, or fail.",
        ),
        click.option("--target-spec-id", type=int, metavar="ID", help="Move all files of other specs to this spec."),
        click.option("--where", metavar="SQL", help="Only files that may hold rows for which this is true."),
        click.argument("name"),
    ):
        decorated = decorate(decorated)
    return decorated


def _option(name: str, about: Any, kind: str, default: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option under the name that Java has for it; where it is not given, it is left out."""
    java_name = about["java_name"]
    doc = about["doc"] + ("" if default is None else f" [default: {str(default).lower()}]")
    kind = kind.partition(" | ")[0]
    if kind == "bool":
        return click.option(f"--{java_name}/--no-{java_name}", name, default=None, help=doc)
    chosen = click.Choice(JOB_ORDERS) if name == "rewrite_job_order" else _KINDS[kind]
    return click.option(f"--{java_name}", name, type=chosen, default=None, help=doc)


@rewrite.command()
@click.option("--files", "with_files", is_flag=True, help="List the files of each group.")
@partial(_what_to_rewrite, to_read=True)
@starts_no_jvm
def plan(lake: Any, name: str, wanted: dict[str, Any], with_files: bool) -> None:
    """Show what a rewrite would do: its groups, and what the filter did in each spec. Writes nothing."""
    result = lake.iceberg(name).plan_rewrite(**wanted)
    emit(result.to_dict(with_files=with_files), lambda: show_plan(result, with_files=with_files))
    warn_of_fail_open(result.filter_stats, result.warnings, result.warnings_omitted)


@rewrite.command()
@click.option(
    "--snapshot-property",
    "snapshot_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="Kept in the summary of each snapshot (repeatable).",
)
@_what_to_rewrite
def run(lake: Any, name: str, wanted: dict[str, Any], snapshot_properties: tuple[str, ...]) -> None:
    """Rewrite what the plan shows, and commit it. Exits with 1 if a group failed."""
    for text in snapshot_properties:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE.", param_hint="--snapshot-property")
    table = lake.iceberg(name)
    planned = table.plan_rewrite(**wanted)
    warn_of_fail_open(planned.filter_stats, planned.warnings, planned.warnings_omitted)
    if not planned.groups and not settings.json:
        say("Nothing to do.")
        return
    with quiet_session(lake), _progress_bar() as progress:
        result = table.rewrite_data_files(
            **wanted,
            snapshot_properties=dict(text.split("=", 1) for text in snapshot_properties),
            progress=progress,
        )
    emit(result.to_dict(), lambda: show_result(result))
    if result.failed_groups:
        raise click.exceptions.Exit(1)


@contextmanager
def _progress_bar() -> Iterator[RewriteProgress | None]:
    """A bar over bytes, with the groups that are done, on a terminal; nothing where output is for machines."""
    if settings.json or not on_terminal():
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[size]}"), TimeRemainingColumn()]
    with Progress(*columns, console=console(), transient=True) as bar:
        task = bar.add_task("Planning", total=None, size="")

        def tell(step: RewriteStep) -> None:
            bar.update(
                task,
                description=f"{step.groups_done} of {step.groups} groups",
                completed=step.bytes_done,
                total=step.bytes,
                size=f"{size_text(step.bytes_done)} of {size_text(step.bytes)}",
            )

        yield tell
