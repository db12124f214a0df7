"""Fixtures that every room of the tests shares: one Spark session a process, and tables beside it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeshift.stack import Stack, installed_stack

FULL = bool(os.environ.get("LAKESHIFT_FULL"))

SQLITE_JDBC = "org.xerial:sqlite-jdbc:3.46.1.3"
ICEBERG_EXTENSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_numbers = itertools.count()


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
        extensions=[ICEBERG_EXTENSION],
        conf={
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}",
        },
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def java_catalog(spark: Any) -> Callable[[Path], str]:
    """Give a warehouse folder's SQLite catalog to Iceberg Java; returns the catalog name to use on both sides."""

    def register(warehouse: Path, name: str | None = None) -> str:
        name = name or f"lake{next(_numbers)}"
        prefix = f"spark.sql.catalog.{name}"
        for key, value in {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.type": "jdbc",
            f"{prefix}.uri": f"jdbc:sqlite:file:{warehouse}/catalog.db",
            f"{prefix}.jdbc.schema-version": "V1",
            f"{prefix}.warehouse": f"file://{warehouse}",
            f"{prefix}.cache-enabled": "false",
        }.items():
            spark.conf.set(key, value)
        return name

    return register
