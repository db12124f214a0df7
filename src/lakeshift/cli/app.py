"""The ``lakeshift`` command: finds the command groups, and turns errors into messages and exit codes.

Exit codes: 0 done, 1 failed or not healthy, 2 called in a wrong way, 130 interrupted.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import ClassVar, NoReturn

import click

from lakeshift import __version__
from lakeshift.catalogs import redact
from lakeshift.cli.options import settings
from lakeshift.cli.output import visible
from lakeshift.cli.startup import begin_process, was_interrupted
from lakeshift.errors import LakeshiftError


class LazyGroup(click.Group):
    """Imports a command's module only when it is called, so that ``--help`` answers at once."""

    # Command name to module and one line of help; the module has a click command of that name, with _ for -.
    modules: ClassVar[dict[str, tuple[str, str]]] = {
        "delta": ("lakeshift.cli.delta", "Show what a batch would change in a Delta table, and write it."),
        "demo": ("lakeshift.cli.demo", "Run the tour: a lake that evolves, chapter by chapter."),
        "doctor": ("lakeshift.cli.doctor", "Check Java, Spark, jars, executors and catalogs."),
        "hudi": ("lakeshift.cli.hudi", "Explain reads of Hudi tables, and print what a session needs for them."),
        "json-schema": ("lakeshift.cli.json_schema", "Print the JSON Schema of what commands print with --json."),
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
        command = getattr(importlib.import_module(self.modules[cmd_name][0]), cmd_name.replace("-", "_"))
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
    """Run the command that the process was called with, and end the process."""
    begin_process()
    try:
        # Not standalone, so that errors are told in one way; then a command's exit code is what comes back.
        code = app(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except (KeyboardInterrupt, click.Abort):
        _end_interrupted()
    except BrokenPipeError as error:
        _end_of_pipe(error)
    except click.ClickException as error:
        _misused(error)
    except LakeshiftError as error:
        _fail(error, str(error))
    except OSError as error:
        _fail(error, _told_by_system(error))
    except Exception as error:
        _fail(error, f"{error}\nThis was not expected; run it again with --debug to see where.")


def _fail(error: Exception, message: str, code: int = 1) -> NoReturn:
    if settings.debug:
        raise error
    if was_interrupted():
        _end_interrupted()
    kind, message = type(error).__name__, redact(message)
    if settings.json:
        click.echo(json.dumps({"error": {"type": kind, "message": message}}), err=True)
    else:
        click.echo(f"{click.style(f'{kind}:', fg='red', bold=True)} {visible(message)}", err=True)
    sys.exit(code)


def _end_interrupted() -> NoReturn:
    click.echo("Interrupted.", err=True)
    sys.exit(130)


def _misused(error: click.ClickException) -> NoReturn:
    # A call that cannot be read ends before its options are looked at.
    settings.json = settings.json or "--json" in sys.argv
    settings.debug = False
    if settings.json:
        _fail(error, error.format_message(), error.exit_code)
    error.show()
    sys.exit(error.exit_code)


def _told_by_system(error: OSError) -> str:
    """What the operating system refused, and on which file where it says so."""
    what = error.strerror or str(error)
    if error.filename is None:
        return f"{what}. Run it again with --debug to see where."
    return f"{what}: {error.filename}. Check that path and who may read and write it."


def _end_of_pipe(error: BrokenPipeError) -> NoReturn:
    """Who read our output has seen enough, as in ``lakeshift table list | head -1``: end without a word."""
    try:
        # Python flushes standard output once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        raise error from None
    sys.exit(1)
