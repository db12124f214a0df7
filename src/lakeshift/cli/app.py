"""The ``lakeshift`` command: finds the command groups, and turns errors into messages and exit codes.

Exit codes: 0 done, 1 failed or not healthy, 2 called in a wrong way, 130 interrupted.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import ClassVar

import click

from lakeshift import __version__
from lakeshift.cli.options import settings
from lakeshift.errors import LakeshiftError


class LazyGroup(click.Group):
    """Imports a command's module only when it is called, so that ``--help`` answers at once."""

    # Command name to module and one line of help; the module has a click command of the same name.
    modules: ClassVar[dict[str, tuple[str, str]]] = {
        "delta": ("lakeshift.cli.delta", "Show what a batch would change in a Delta table, and write it."),
        "demo": ("lakeshift.cli.demo", "Run the tour: a lake that evolves, chapter by chapter."),
        "doctor": ("lakeshift.cli.doctor", "Check Java, Spark, jars, executors and catalogs."),
        "hudi": ("lakeshift.cli.hudi", "Explain reads of Hudi tables, and print what a session needs for them."),
        "report": ("lakeshift.cli.report", "Draw an Iceberg table's layout as a page to look at."),
        "rewrite": ("lakeshift.cli.rewrite", "Plan and run the compaction of an Iceberg table."),
        "run": ("lakeshift.cli.run", "Run a pipeline file, show what it would do, or go on after a failure."),
        "table": ("lakeshift.cli.table", "List, show, create, evolve, write and change Iceberg tables."),
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return None
        command = getattr(importlib.import_module(self.modules[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.modules[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lakeshift")
def app() -> None:
    """Lakehouse tables on PySpark that keep evolving."""


def main() -> None:
    """The entry point of the ``lakeshift`` script."""
    try:
        app(standalone_mode=False)
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except LakeshiftError as error:
        _fail(type(error).__name__, str(error), error)
    except Exception as error:
        _fail(type(error).__name__, f"{error}\nThis was not expected; run it again with --debug to see where.", error)


def _fail(kind: str, message: str, error: Exception) -> None:
    if settings.debug:
        raise error
    if settings.json:
        click.echo(json.dumps({"error": {"type": kind, "message": message}}), err=True)
    else:
        click.echo(f"{click.style(f'{kind}:', fg='red', bold=True)} {message}", err=True)
    sys.exit(1)
