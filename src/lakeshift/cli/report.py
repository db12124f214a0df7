"""``lakeshift report``: a table's layout as a page to look at. Starts no JVM."""

from __future__ import annotations

import click
from click.core import ParameterSource

from lakeshift.cli.options import lake_options, open_lake, settings
from lakeshift.cli.output import emit, say
from lakeshift.cli.startup import starts_no_jvm


@click.command()
@click.argument("name")
@click.option("--output", "-o", metavar="PATH", help="The HTML file to write; one that is there is replaced.")
@click.option("--branch", help="The branch to look at, main by default.")
@click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")
@lake_options
@starts_no_jvm
def report(
    name: str,
    output: str | None,
    branch: str | None,
    open_it: bool,
    catalog: str,
    warehouse: str,
    properties: tuple[str, ...],
) -> None:
    """Write a page that shows a table: its partitions, files, deletes and history, and what to do next.

    With --json the facts are printed; without -o that is all.
    """
    from lakeshift.report.write import check_path

    if output is None and (open_it or not settings.json):
        raise click.UsageError("Give -o PATH, such as -o report.html, or --json for the facts alone.")
    if output is not None:
        check_path(output)
    table = open_lake(catalog, warehouse, properties, to_read=True).iceberg(name)
    made = table.make_report(branch=branch, arguments=_which_lake(catalog, warehouse))
    written = None if output is None else made.write(output)

    def show() -> None:
        assert written is not None
        totals = made.facts.totals
        say(
            f"Wrote {written} ({written.stat().st_size / 1000:,.0f} kB): {totals.data_files:,} data files and "
            f"{totals.delete_files:,} delete files in {totals.partitions:,} partitions."
        )
        for step in made.steps:
            say(f"- {step.text}")
            if step.command:
                say(f"  {step.command}", style="bold")

    emit(made.to_dict(), show)
    if open_it and written is not None:
        click.launch(str(written))


def _which_lake(catalog: str, warehouse: str) -> list[str]:
    """The lake options that a suggested command needs too. Properties are left out: they may hold credentials."""
    given = click.get_current_context().get_parameter_source
    arguments = []
    for option, value in (("catalog", catalog), ("warehouse", warehouse)):
        if given(option) == ParameterSource.COMMANDLINE:
            arguments += [f"--{option}", value]
    return arguments
