"""A kernel whose first attempt at one task gets into trouble."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyspark.cloudpickle as cloudpickle

from lakeshift.kernel import Attempt

# Executors have lakeshift but not its tests: kernels travel by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@dataclass(frozen=True)
class Wrote:
    path: str
    pid: int
    package: str


def write_file(task: int, attempt: Attempt, folder: str, trouble: str) -> Iterable[Wrote]:
    """Write one file named after the attempt; the first attempt at task 1 then gets into trouble."""
    import lakeshift

    path = Path(folder) / attempt.file_stem
    path.write_text(str(task))
    if task == 1 and _first(Path(folder) / "trouble"):
        if trouble == "raise":
            raise OSError("the disk said no")
        if trouble == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if trouble == "lag":
            time.sleep(600)
    yield Wrote(str(path), os.getpid(), str(lakeshift.__file__))


def _first(marker: Path) -> bool:
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def orphans(folder: Path, wrote: Iterable[Wrote]) -> set[str]:
    """The files of attempts that no report names."""
    return {str(path) for path in folder.iterdir() if path.name != "trouble"} - {record.path for record in wrote}
