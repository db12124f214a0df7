"""``lakeshift hudi``: which way a read of a Hudi table takes, and the settings that a session needs for it."""

from __future__ import annotations

import click

from lakeshift.cli.options import output_options
from lakeshift.cli.output import emit, say, show_table
from lakeshift.cli.quiet import quiet_jvm


@click.group()
def hudi() -> None:
    """Explain reads of Hudi tables, and print what a session needs for them."""


@hudi.command()
@click.argument("path_or_name")
@click.option("--v1", is_flag=True, help="Leave the gate closed: Hudi's own source.")
@click.option("--as-of", metavar="INSTANT", help="Time travel, such as 20260131120000000 or '2026-01-31 12:00:00'.")
@click.option("--incremental-from", metavar="INSTANT", help="Only what was committed after this instant.")
@click.option("--incremental-to", metavar="INSTANT", help="Only up to this instant.")
@click.option("--read-optimized", is_flag=True, help="Base files only, without log files.")
@output_options
def explain(
    path_or_name: str,
    v1: bool,
    as_of: str | None,
    incremental_from: str | None,
    incremental_to: str | None,
    read_optimized: bool,
) -> None:
    """Say whether a read goes through DataSource V2 or V1, and why. Reads no data."""
    from lakeshift.hudi.reader import HudiTable
    from lakeshift.spark.session import build_session

    with quiet_jvm():
        spark = build_session(["hudi"])
        spark.sparkContext.setLogLevel("OFF")
    path = HudiTable(spark, path_or_name).explain(
        dsv2=not v1,
        as_of=as_of,
        incremental_from=incremental_from,
        incremental_to=incremental_to,
        read_optimized=read_optimized,
    )
    emit(path.to_dict(), lambda: say(str(path)))


@hudi.command("settings")
@output_options
def show_settings() -> None:
    """Print the Spark settings that a session of your own needs; builds the connector if it is not there yet."""
    from lakeshift.hudi.connector import session_settings
    from lakeshift.spark.session import session_conf
    from lakeshift.stack import installed_stack

    stack = installed_stack()
    wanted = session_conf(stack, ("hudi",)) | session_settings(stack, {})
    shown = {
        key: value
        for key, value in wanted.items()
        if key.startswith(("spark.jars", "spark.sql.ext", "spark.sql.catalog", "spark.serializer", "spark.kryo"))
    }
    emit(shown, lambda: show_table(["Setting", "Value"], [[key, value] for key, value in shown.items()]))
