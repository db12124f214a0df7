"""The command line as people and programs call it: as a process.

``told``, ``printed`` and ``refused`` take a command's name first and as it stands, so that a test can read in the
tests which commands have been seen to succeed, in text and as JSON, and to fail
(see ``tests/unit/cli/test_every_command.py``).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from jsonschema import Draft202012Validator

from lakeshift.cli import app
from lakeshift.cli.options import settings
from lakeshift.cli.outputs import FAILURE, json_schema
from tests.conftest import FULL

PROGRAM = str(Path(sys.executable).parent / "lakeshift")
# What runs with these misses Java at once if it looks for it.
NO_JAVA = {"PATH": "/nonexistent", "JAVA_HOME": "/nonexistent"}

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


def run(*arguments: str, **environment: str) -> Done:
    return subprocess.run(
        [PROGRAM, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )


def shared(*arguments: str, **environment: str) -> Done:
    """A command as a process in the long form, else in this process, with the Spark session that is there.

    A JVM's start costs more than most commands. Arguments, exit code, standard output and standard error are those of
    a process all the same.
    """
    if FULL:
        return run(*arguments, **environment)
    settings.json = settings.debug = False
    out, err = io.StringIO(), io.StringIO()
    code: Any = "main() came back"
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", ["lakeshift", *arguments]),
        mock.patch.object(app, "begin_process"),  # for this process is not the command's
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            app.main()
        except SystemExit as end:
            code = end.code
    return Done(list(arguments), code, out.getvalue(), err.getvalue())


def told(command: str, *arguments: str, by: Run = run, **environment: str) -> str:
    """What a command that succeeds tells people; nothing may be on standard error."""
    done = by(*command.split(), *arguments, **environment)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def printed(command: str, *arguments: str, by: Run = run, code: int = 0, **environment: str) -> Any:
    """What a command prints as JSON, held against the schema that is published for it."""
    done = by(*command.split(), *arguments, "--json", **environment)
    assert (done.returncode, done.stderr) == (code, ""), done
    return valid(command, json.loads(done.stdout))


def refused(command: str, *arguments: str, saying: str, code: int = 1, by: Run = run, **environment: str) -> str:
    """What a command that fails says on standard error: with a remedy, and without a trace. Nothing else is told."""
    done = by(*command.split(), *arguments, **environment)
    assert (done.returncode, done.stdout) == (code, ""), done
    if "--json" in arguments:
        valid(FAILURE, json.loads(done.stderr))
    assert saying in done.stderr, done
    assert "Traceback" not in done.stderr
    return done.stderr


def valid(name: str, data: Any) -> Any:
    """The data, if it is of the schema that is published under this name."""
    Draft202012Validator(json_schema(name)).validate(data)
    return data
