"""Kernels whose first attempt at one task gets into trouble."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark.cloudpickle as cloudpickle

from lakeshift.iceberg.kernels.write import WriteReport, write_rows
from lakeshift.kernel import Attempt, Batches

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
    if task == 1 and first(Path(folder) / "trouble"):
        if trouble == "raise":
            raise OSError("the disk said no")
        if trouble == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if trouble == "lag":
            time.sleep(600)
    yield Wrote(str(path), os.getpid(), str(lakeshift.__file__))


def write_rows_in_trouble(
    job: Any, io: Any, batches: Batches, attempt: Attempt, *, marker: str, trouble: str
) -> Iterable[WriteReport]:
    """The write kernel, whose attempt at task 1 gets into trouble when all its files are there but not yet reported."""
    for report in write_rows(job, io, batches, attempt):
        if attempt.task_index == 1 and (trouble == "raise always" or first(Path(marker))):
            if trouble == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if trouble == "lag":
                time.sleep(600)
            raise OSError("the disk said no")
        yield report


def first(marker: Path) -> bool:
    """Whether this is the first attempt to ask."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def orphans(folder: Path, wrote: Iterable[Wrote]) -> set[str]:
    """The files of attempts that no report names."""
    return {str(path) for path in folder.iterdir() if path.name != "trouble"} - {record.path for record in wrote}
