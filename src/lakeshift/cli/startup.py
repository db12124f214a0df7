"""How a command starts as a process of its own: quickly, where it starts no JVM. Nothing heavy is imported here.

Functions of the command line that are called inside another process, as tests do, leave that process as it is.
"""

from __future__ import annotations

import gc
import importlib.abc
import io
import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_OWN_PROCESS = False
# Where the numbers of signals come out that the process got; -1 if it is not ours.
_SIGNALS = -1


def begin_process() -> None:
    """Say that this process is one command and nothing else."""
    global _OWN_PROCESS, _SIGNALS
    if not _OWN_PROCESS:
        _OWN_PROCESS = True
        _SIGNALS, told = os.pipe()
        os.set_blocking(_SIGNALS, False)
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    # Starting is importing: a few hundred thousand objects that all stay, and that Python's collector would look
    # through again and again, for a tenth of the time of a short command.
    gc.set_threshold(100_000, 50, 100)
    if sys.stdout is None:  # Closed by the shell, as `>&-` does.
        sys.stdout = io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that a terminal's encoding does not have is shown by its code, and is no reason to fail.
            stream.reconfigure(errors="backslashreplace")


def was_interrupted() -> bool:
    """Whether an interrupt has come, also one that somebody made another error of.

    PySpark cancels jobs when it is interrupted, and what fails then is not a KeyboardInterrupt any more.
    """
    try:
        return _SIGNALS >= 0 and signal.SIGINT in os.read(_SIGNALS, 1000)
    except BlockingIOError:
        return False


def starts_no_jvm(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Mark a command that works on metadata alone.

    pyarrow imports pandas, where it is installed, to convert the first Python value: a third of a second. Only Spark
    needs pandas here, and a process without Spark can do without.
    """

    @wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if _OWN_PROCESS and "pandas" not in sys.modules:
            sys.meta_path.insert(0, _WithoutPandas())
        return command(*args, **kwargs)

    return run


class _WithoutPandas(importlib.abc.MetaPathFinder):
    """Finds no pandas, as where it is not installed; pyarrow is made for that."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("This command does without pandas.", name=name)
