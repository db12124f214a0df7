"""Spark's start without its noise: what the JVM prints goes to a file, and is shown only when it matters."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

from lakeshift.cli.options import settings
from lakeshift.errors import StackError

_TELLING = re.compile(r"unresolved dependency|not found|UnsupportedClassVersion|Unrecognized|Exception", re.IGNORECASE)


@contextlib.contextmanager
def quiet_jvm() -> Iterator[None]:
    """Keep a JVM that is started inside from writing to the terminal; ``--debug`` leaves it alone.

    If the start fails with a StackError, the lines that tell why are added to it.
    """
    if settings.debug:
        yield
        return
    with tempfile.TemporaryFile("w+", errors="replace") as log, _sent_to(log.fileno()):
        try:
            yield
        except StackError as error:
            log.seek(0)
            told = dict.fromkeys(line.strip(" :\t\n") for line in log if _TELLING.search(line))
            raise StackError("\n  ".join([str(error), *list(told)[:6]])) from error


@contextlib.contextmanager
def _sent_to(file: int) -> Iterator[None]:
    """Point this process's standard output and error at a file; a JVM started inside keeps that for good."""
    streams = {1: sys.stdout, 2: sys.stderr}
    kept = {number: os.dup(number) for number in streams}
    try:
        for number, stream in streams.items():
            stream.flush()
            os.dup2(file, number)
        yield
    finally:
        for number, stream in streams.items():
            stream.flush()
            os.dup2(kept[number], number)
            os.close(kept[number])
