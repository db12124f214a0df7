"""``lakeshift json-schema``: what commands print with ``--json``, for programs that read it. Starts no JVM."""

from __future__ import annotations

import json
import sys

import click

from lakeshift.cli.options import output_options
from lakeshift.cli.output import emit, show_table
from lakeshift.cli.startup import starts_no_jvm


# A name may have an option in it, such as "table delete --dry-run", which is not one of this command.
@click.command("json-schema", context_settings={"ignore_unknown_options": True})
@click.argument("name", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND...]")
@output_options
@starts_no_jvm
def json_schema(name: tuple[str, ...]) -> None:
    """Print the JSON Schema of a command's --json output, such as 'table show' or 'table delete --dry-run'.

    Without a command, list those that have one; with --json, print all schemas.
    """
    from lakeshift.cli.outputs import FAILURE, OUTPUTS
    from lakeshift.cli.outputs import json_schema as schema_of

    wanted = " ".join(name)
    if not wanted:
        described = {key: " ".join((model.__doc__ or "").split()) for key, model in OUTPUTS.items()}
        described[FAILURE] = "What any command prints to standard error when it fails."
        emit(
            {key: schema_of(key) for key in described},
            lambda: show_table(["Output of", "What it is"], list(described.items())),
        )
        return
    if wanted not in (*OUTPUTS, FAILURE):
        raise click.UsageError(f"There is no output {wanted!r}; there are: {', '.join((*OUTPUTS, FAILURE))}.")
    sys.stdout.write(json.dumps(schema_of(wanted), indent=2) + "\n")
