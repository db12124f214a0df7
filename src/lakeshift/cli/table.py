"""``lakeshift table``: looking at tables and changing them. What needs metadata alone starts no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lakeshift.cli import change
from lakeshift.cli.inputs import format_option, progress_bar, quiet_session, read_input
from lakeshift.cli.options import lake_options, open_lake
from lakeshift.cli.output import emit, say, show_table
from lakeshift.cli.startup import computes_nothing, starts_no_jvm

if TYPE_CHECKING:
    from lakeshift.iceberg.commit.result import CommitResult
    from lakeshift.iceberg.table import IcebergTable
    from lakeshift.iceberg.write import OnBadRows


@click.group()
def table() -> None:
    """List, show, create, evolve, write and change Iceberg tables."""


for command in (change.delete, change.update, change.merge):
    table.add_command(command)


@table.command("list")
@lake_options
@starts_no_jvm
@computes_nothing
def list_tables(catalog: str, warehouse: str, properties: tuple[str, ...]) -> None:
    """List the tables of a lake."""
    names = open_lake(catalog, warehouse, properties, to_read=True).iceberg_tables()
    emit(names, lambda: show_table(["Table"], [[name] for name in names]))


@table.command()
@click.argument("name")
@lake_options
@starts_no_jvm
@computes_nothing
def show(name: str, catalog: str, warehouse: str, properties: tuple[str, ...]) -> None:
    """Show a table: its columns, its partition specs and what lies under each, its last snapshots."""
    found = open_lake(catalog, warehouse, properties, to_read=True).iceberg(name)
    described = describe(found)
    emit(described, lambda: _show(described))


@table.command()
@click.argument("name")
@click.option("--schema", required=True, help="Columns as in CREATE TABLE: 'id bigint not null, ts timestamp'.")
@click.option(
    "--partition-by", "-p", multiple=True, metavar="EXPR", help="Such as 'day(ts)' or 'bucket(16, id)' (repeatable)."
)
@click.option("--set", "table_properties", multiple=True, metavar="KEY=VALUE", help="A table property (repeatable).")
@lake_options
@starts_no_jvm
@computes_nothing
def create(
    name: str,
    schema: str,
    partition_by: tuple[str, ...],
    table_properties: tuple[str, ...],
    catalog: str,
    warehouse: str,
    properties: tuple[str, ...],
) -> None:
    """Create a table, and its namespace where needed."""
    for text in table_properties:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE.", param_hint="--set")
    lake = open_lake(catalog, warehouse, properties)
    chosen = dict(text.split("=", 1) for text in table_properties)
    created = lake.create_iceberg_table(name, schema, partition_by, chosen)
    emit(describe(created), lambda: say(f"Created {name} at {created.table.location()}"))


@table.command()
@click.argument("name")
@click.option("--add", multiple=True, metavar="EXPR", help="A partition field to add, such as 'day(ts)' (repeatable).")
@click.option("--drop", multiple=True, metavar="FIELD", help="A partition field to drop, by name or expression.")
@lake_options
@starts_no_jvm
@computes_nothing
def evolve(
    name: str, add: tuple[str, ...], drop: tuple[str, ...], catalog: str, warehouse: str, properties: tuple[str, ...]
) -> None:
    """Change the partitioning of what is written from now on; existing files keep their spec."""
    if not add and not drop:
        raise click.UsageError("Give --add or --drop, or both.")
    found = open_lake(catalog, warehouse, properties).iceberg(name)
    spec_id = found.evolve_partitions(add, drop)
    fields = next(layout.fields for layout in found.layout() if layout.spec_id == spec_id)
    emit(
        describe(found),
        lambda: say(f"{name} is now written under spec {spec_id}: {', '.join(fields) or 'unpartitioned'}"),
    )


@table.command()
@click.argument("name")
@click.argument("inputs", nargs=-1, required=True, metavar="FILE...")
@format_option()
@click.option("--schema", help="Columns of CSV or JSON files as in CREATE TABLE; inferred without it.")
@click.option("--spec-id", type=int, metavar="ID", help="The partition spec to write, the default one without it.")
@click.option(
    "--on-bad-rows",
    type=click.Choice(["fail", "quarantine"]),
    default="fail",
    show_default=True,
    help="What happens to rows that the table cannot hold.",
)
@click.option("--quarantine", metavar="PATH", help="Where bad rows go, as Parquet files.")
@click.option("--branch", help="The branch to write to, main by default.")
@lake_options
def append(
    name: str,
    inputs: tuple[str, ...],
    input_format: str | None,
    schema: str | None,
    spec_id: int | None,
    on_bad_rows: OnBadRows,
    quarantine: str | None,
    branch: str | None,
    catalog: str,
    warehouse: str,
    properties: tuple[str, ...],
) -> None:
    """Append Parquet, JSON or CSV files to a table."""
    lake = open_lake(catalog, warehouse, properties)
    found = lake.iceberg(name)
    with quiet_session(lake) as spark, progress_bar(f"Writing {name}") as progress:
        result = found.append(
            read_input(spark, inputs, input_format, schema),
            spec_id,
            on_bad_rows,
            quarantine,
            branch=branch,
            progress=progress,
        )
    emit(result.to_dict(), lambda: _tell_append(name, result, quarantine))


def _tell_append(name: str, result: CommitResult, quarantine: str | None) -> None:
    if result.snapshot_id is None:
        say(f"There was nothing to append to {name}.")
    else:
        specs = ", ".join(str(spec_id) for spec_id in result.by_spec)
        say(
            f"Appended {result.rows_written} rows to {name} in {result.added_data_files} files under spec {specs}, "
            f"as snapshot {result.snapshot_id}."
        )
    if result.rows_quarantined:
        say(f"{result.rows_quarantined} rows could not be written; they are in {quarantine}.", style="yellow")


def describe(found: IcebergTable) -> dict[str, Any]:
    """All that ``table show`` tells, ready for JSON; values that look like credentials are not among it."""
    from lakeshift.report.redaction import shown_address, shown_properties

    metadata = found.table.metadata
    return {
        "name": found.name,
        "location": shown_address(metadata.location),
        "format_version": metadata.format_version,
        "current_snapshot_id": metadata.current_snapshot_id,
        "default_spec_id": metadata.default_spec_id,
        "columns": [
            {"id": f.field_id, "name": f.name, "type": str(f.field_type), "required": f.required}
            for f in found.table.schema().fields
        ],
        "specs": [layout.to_dict() for layout in found.layout()],
        "snapshots": [
            {
                "snapshot_id": snapshot.snapshot_id,
                "timestamp_ms": snapshot.timestamp_ms,
                "operation": snapshot.summary.operation.value if snapshot.summary else None,
                "summary": shown_properties(snapshot.summary.additional_properties) if snapshot.summary else {},
            }
            for snapshot in metadata.snapshots[-10:]
        ],
        "properties": shown_properties(metadata.properties),
    }


def _show(described: dict[str, Any]) -> None:
    say(f"{described['name']}  (format v{described['format_version']}, {described['location']})", style="bold")
    show_table(
        ["Id", "Column", "Type", "Required"],
        [[c["id"], c["name"], c["type"], "yes" if c["required"] else ""] for c in described["columns"]],
        "Columns",
    )
    show_table(
        ["Spec", "Partitioned by", "Data files", "Delete files", "Rows"],
        [
            [
                f"{s['spec_id']}{' (default)' if s['is_default'] else ''}",
                ", ".join(s["fields"]) or "unpartitioned",
                s["data_files"],
                s["delete_files"],
                s["rows"],
            ]
            for s in described["specs"]
        ],
        "Partition specs",
    )
    if described["snapshots"]:
        show_table(
            ["Snapshot", "Operation", "Added files", "Removed files", "Total rows"],
            [
                [
                    s["snapshot_id"],
                    s["operation"],
                    s["summary"].get("added-data-files", 0),
                    s["summary"].get("deleted-data-files", 0),
                    s["summary"].get("total-records", ""),
                ]
                for s in described["snapshots"]
            ],
            "Last snapshots",
        )
