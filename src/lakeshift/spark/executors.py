"""What the executors have: checked before the first kernel runs, with an error that names host and remedy."""

from __future__ import annotations

import json
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeshift import __version__
from lakeshift.errors import StackError
from lakeshift.spark.frames import cores_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIPPING_REMEDY = (
    f"Ship lakeshift {__version__} with its dependencies to the executors: an image, spark.archives with "
    "spark.pyspark.python pointing into it, or --py-files (see 'Shipping to a cluster' in the documentation)."
)

_checked: weakref.WeakSet[SparkSession] = weakref.WeakSet()


@dataclass(frozen=True)
class Executor:
    """One executor's Python, as seen from inside it. A version is None where the package is missing."""

    host: str
    python: str
    lakeshift: str | None
    pyiceberg: str | None
    pyarrow: str | None

    @property
    def problem(self) -> str | None:
        for package in ("pyarrow", "pyiceberg", "lakeshift"):
            if getattr(self, package) is None:
                return f"{package} is not installed"
        return None if self.lakeshift == __version__ else version_mismatch(str(self.lakeshift))


def version_mismatch(found: str) -> str:
    return f"lakeshift is {found}, the driver's is {__version__}"


def find_executors(spark: SparkSession) -> list[Executor]:
    """Ask every executor that takes one of a handful of small tasks what it has."""
    from pyspark.sql.functions import col, udf
    from pyspark.sql.types import StringType

    tasks = 2 * cores_of(spark)
    # A plain, non-Arrow function: it must also run where pyarrow is the very thing that is missing.
    probe = udf(_probe(), StringType(), useArrow=False)
    frame = spark.range(0, tasks, 1, tasks).select(probe(col("id")).alias("found"))
    try:
        rows = frame.collect()
    except Exception as error:
        raise StackError(f"The executors could not run Python: {_last_line(error)}. {SHIPPING_REMEDY}") from error
    found = {Executor(**json.loads(row.found)) for row in rows}
    return sorted(found, key=lambda executor: (executor.host, executor.python, str(executor.lakeshift)))


def ensure_executors(spark: SparkSession) -> None:
    """Check the executors before a session's first kernel; later calls cost nothing."""
    if spark not in _checked:
        check_executors(spark)
        _checked.add(spark)


def check_executors(spark: SparkSession) -> list[Executor]:
    """The executors, or a StackError that names the first host which cannot run kernels.

    An executor that joins later is not seen here: kernels check their own before they load.
    """
    executors = find_executors(spark)
    for executor in executors:
        if executor.problem:
            raise StackError(f"Executor {executor.host} ({executor.python}): {executor.problem}. {SHIPPING_REMEDY}")
    return executors


def _probe() -> Any:
    # Nested, so that it is pickled by value: an executor without lakeshift must be able to load it.
    def probe(_: int) -> str:
        import importlib
        import json
        import socket
        import sys

        found = {"host": socket.gethostname(), "python": sys.executable}
        for package in ("lakeshift", "pyiceberg", "pyarrow"):
            try:
                found[package] = importlib.import_module(package).__version__
            except ImportError:
                found[package] = None  # type: ignore[assignment]
        return json.dumps(found)

    return probe


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.strip().startswith("at ")]
    return lines[-1] if lines else type(error).__name__
