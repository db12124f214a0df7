"""Fixtures that every room of the tests shares: one Spark session a process, and tables beside it.

A few marks say where a test runs, since `make test` runs the Spark lines side by side and everything that they would
only repeat once:

- ``plain``: touches no Spark, so that it runs once, in a process beside the lines. All of ``tests/unit`` and
  ``tests/browser`` is plain, but for what is marked ``each_line``: tests that use pyspark's Python, or ask which line
  is installed.
- ``once``: starts Spark, but shows the same on each line, so that it runs on the first one.
- ``once_first`` and ``once_last``: shows next to nothing that could differ between the lines, so that `make test` runs
  it on the first or the last one, whichever has less to do. The long form runs it on each.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from benchmarks.iceberg_java import EXTENSION, SQLITE_JDBC, catalog_settings
from lakeshift.stack import Stack, installed_stack
from tests.class_archive import SPARK_OPTIONS

FULL = bool(os.environ.get("LAKESHIFT_FULL"))

# The same examples in each run of `make test`, so that it fails for what was changed; the long form draws new ones.
settings.register_profile("lakeshift", derandomize=not FULL)
settings.load_profile("lakeshift")

UNITS = Path(__file__).parent / "unit"
BROWSER = Path(__file__).parent / "browser"

# Spark reads these options from the environment, for this process and for those that tests start.
os.environ.setdefault("SPARK_SUBMIT_OPTS", SPARK_OPTIONS)

# A shell starts what it runs in the background with interrupts ignored, and the commands that tests interrupt would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

_numbers = itertools.count()


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        plain = item.path.is_relative_to(UNITS) or item.path.is_relative_to(BROWSER)
        if plain and not item.get_closest_marker("each_line"):
            item.add_marker("plain")
        if item.get_closest_marker("plain") and "spark" in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(f"{item.nodeid} is plain and yet uses Spark: mark it each_line, or move it")


@pytest.fixture(scope="session")
def stack() -> Stack:
    return installed_stack()


@pytest.fixture(scope="session")
def spark(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One local session with every format of the stack, and Iceberg's Java runtime as the peer."""
    from lakeshift.spark.session import build_session

    home = tmp_path_factory.mktemp("spark")
    session = build_session(
        stack.available_formats(),
        stack=stack,
        master="local[2]",
        packages=[stack.iceberg_peer, SQLITE_JDBC],
        extensions=[EXTENSION],
        conf={
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}",
        },
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def lived_in_table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A table with a past, made by hand, which the report's own tests and those in the browser look at."""
    from tests.report_tables import lived_in

    return lived_in(tmp_path_factory.mktemp("lived-in"))


@pytest.fixture(scope="session")
def table_of_many_partitions(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A table of 100,000 partitions, made once for both, since writing its manifest takes ten seconds."""
    from tests.report_tables import many_partitions

    return many_partitions(tmp_path_factory.mktemp("many"))


@pytest.fixture(scope="session")
def java_catalog(spark: Any) -> Callable[[Path], str]:
    """Give a warehouse folder's SQLite catalog to Iceberg Java; returns the catalog name to use on both sides."""

    def register(warehouse: Path, name: str | None = None) -> str:
        name = name or f"lake{next(_numbers)}"
        for key, value in catalog_settings(name, warehouse).items():
            spark.conf.set(key, value)
        return name

    return register
