"""A series of commands in one process beside the tests': each as ``lakeshift`` runs it, with the JVM that is there.

A JVM's start costs more than most commands. Here it is paid once; arguments, exit code, standard output and standard
error are those of a process, down to the file descriptors. Run as a program, this module is that process.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.class_archive import SPARK_OPTIONS


class CommandSeries:
    """The other process; called like ``tests.command.run``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        assert not environment, "the process has its environment already"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return subprocess.CompletedProcess(list(arguments), code, out, err)


@contextmanager
def command_series(folder: Path, **environment: str) -> Iterator[CommandSeries]:
    """Start the process in a folder, which Spark may put its own files into."""
    folder.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.command_series"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "SPARK_SUBMIT_OPTS": SPARK_OPTIONS,
            **environment,
        },
    )
    try:
        yield CommandSeries(process)
    finally:
        process.communicate(timeout=60)  # It ends with its input.


def _serve() -> None:
    """Run the commands that come in, one a line, and answer with what a shell would have seen."""
    # Before a command that starts no JVM decides for this whole process to do without it.
    importlib.import_module("pandas")

    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        answers.write(json.dumps(_run(json.loads(line))) + "\n")
        answers.flush()


def _run(arguments: list[str]) -> tuple[Any, str, str]:
    from lakeshift.cli.app import main  # what the script calls, but for ending the process
    from lakeshift.cli.options import settings

    settings.json = settings.debug = False
    sys.argv = ["lakeshift", *arguments]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        kept = _redirect(out, err)
        try:
            main()
            code: Any = "main() came back"
        except SystemExit as error:
            code = error.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, old in kept.items():
                os.dup2(old, number)
                os.close(old)
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def _redirect(out: IO[str], err: IO[str]) -> dict[int, int]:
    kept = {number: os.dup(number) for number in (1, 2)}
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    return kept


if __name__ == "__main__":
    _serve()
