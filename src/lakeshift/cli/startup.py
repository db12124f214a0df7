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
_MAY_END_AT_ONCE = False
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
    return _without("pandas", command)


def computes_nothing(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Mark a command that can do without NumPy, too, which pyarrow would import: a tenth of a second."""
    return _without("numpy", command)


def _without(package: str, command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    @wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        global _MAY_END_AT_ONCE
        if _OWN_PROCESS:
            _MAY_END_AT_ONCE = True
            if package not in sys.modules:
                sys.meta_path.insert(0, _Without(package))
        return command(*args, **kwargs)

    return run


class _Without(importlib.abc.MetaPathFinder):
    """Finds no package of a name, as where it is not installed; pyarrow is made for that."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == self._package:
            raise ModuleNotFoundError(f"This command does without {name}.", name=name)


def end_at_once(code: object) -> None:
    """End a process that has no JVM to stop, and leave its memory to the system.

    Python would take apart every module and object first, for a sixth of the time of a short command.
    """
    if not _MAY_END_AT_ONCE or not isinstance(code, int):
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # Python tells of it in its own way when it ends.
        return
    os._exit(code)
