"""``lakeshift delta``: what a batch would change in a Delta table, and writing it; both by the sink's own plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lakeshift.cli.inputs import format_option, quiet_session, read_input
from lakeshift.cli.options import output_options
from lakeshift.cli.output import emit, say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeshift.delta.policy import WritePlan


@click.group()
def delta() -> None:
    """Show what a batch would change in a Delta table, and write it."""


def _input_options(command: Any) -> Any:
    command = format_option("delta")(command)
    command = click.argument("batch", metavar="INPUT")(command)
    return click.argument("target", metavar="TABLE")(command)


@delta.command()
@_input_options
@output_options
def diff(target: str, batch: str, input_format: str | None) -> None:
    """Compare the columns of INPUT with those of TABLE (a path or a table name)."""
    from lakeshift.delta.sink import DeltaSink

    with _session() as spark, DeltaSink(spark, target, create=False) as sink:
        found = sink.explain(read_input(spark, [batch], input_format)).diff
    emit(found.to_dict(), lambda: say("\n".join([type(found).__name__, *found.lines()])))


@delta.command()
@_input_options
@click.option("--evolve", multiple=True, type=click.Choice(["columns", "types"]), help="What may change (repeatable).")
@click.option("--enable-type-widening", is_flag=True, help="Allow to switch type widening on in the table.")
@click.option("--partition-by", "-p", multiple=True, metavar="COLUMN", help="For a new table (repeatable).")
@click.option("--set", "table_properties", multiple=True, metavar="KEY=VALUE", help="For a new table (repeatable).")
@click.option("--txn-app-id", help="The writer's name, for exactly-once writes.")
@click.option("--txn-version", type=int, help="This batch's number; one that was written before is skipped.")
@click.option("--dry-run", is_flag=True, help="Show what would happen, and write nothing.")
@output_options
def write(
    target: str,
    batch: str,
    input_format: str | None,
    evolve: tuple[str, ...],
    enable_type_widening: bool,
    partition_by: tuple[str, ...],
    table_properties: tuple[str, ...],
    txn_app_id: str | None,
    txn_version: int | None,
    dry_run: bool,
) -> None:
    """Append INPUT to TABLE (a path or a table name), or create it."""
    from lakeshift.delta.sink import DeltaSink

    for text in table_properties:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE.", param_hint="--set")
    options: dict[str, Any] = {
        "enable_type_widening": enable_type_widening,
        "partition_by": partition_by,
        "properties": dict(text.split("=", 1) for text in table_properties),
        "txn_app_id": txn_app_id,
    }
    with _session() as spark, DeltaSink(spark, target, dict.fromkeys(evolve, "evolve"), **options) as sink:
        frame = read_input(spark, [batch], input_format)
        plan = sink.explain(frame)
        if dry_run:
            emit({"dry_run": True, "plan": plan.to_dict()}, lambda: _show(plan))
            if plan.refused:
                raise click.exceptions.Exit(1)
            return
        result = sink.write_batch(frame, txn_version)
    emit(result.to_dict(), lambda: _tell(target, plan, result.to_dict()))


def _show(plan: WritePlan) -> None:
    say("\n".join(plan.lines()))


def _tell(target: str, plan: WritePlan, result: dict[str, object]) -> None:
    if result["skipped"]:
        say(f"Skipped: this transaction is in {target} already.")
        return
    _show(plan)
    say(f"Wrote {result['rows_written']} rows to {target} as version {result['version']}.")


@contextmanager
def _session() -> Iterator[SparkSession]:
    from lakeshift.lake import connect

    with quiet_session(connect(formats=("delta",))) as spark:
        yield spark
