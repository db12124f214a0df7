"""A real cluster on this machine: two executor processes that have lakeshift only from a shipped archive.

The folder is a pytest run of its own (see the Makefile), since one process holds one Spark context.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.class_archive import SHORT_LIVED_JVM
from tests.installing import build_wheel, locked_requirements, uv

ARCHIVE = "lakeshift_packages"
# What only planning and committing need, as the documentation says.
DRIVER_ONLY = ("datafusion", "sqlalchemy", "sqlglot", "greenlet")


@dataclass(frozen=True)
class Pythons:
    """Interpreters that an executor may be given."""

    shipped: str
    bare: str
    outdated: str


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """lakeshift and its dependencies in one archive, packed as the documentation tells users to."""
    folder = tmp_path_factory.mktemp("archive")
    packages, lean = folder / "packages", folder / "lean.txt"
    locked = locked_requirements(folder).read_text().splitlines()
    lean.write_text("\n".join(line for line in locked if not line.startswith(DRIVER_ONLY)))
    pip = ("pip", "install", "--quiet", "--python", sys.executable, "--no-deps", "--target", packages)
    uv(*pip, "-r", lean, build_wheel(folder))
    packed = folder / "lakeshift.tar"
    with tarfile.open(packed, "w") as tar:
        for entry in packages.iterdir():
            tar.add(entry, arcname=entry.name)
    return packed


@pytest.fixture(scope="session")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> Pythons:
    folder = tmp_path_factory.mktemp("pythons")
    for name in ("shipped", "bare", "outdated"):
        uv("venv", "--quiet", "--python", sys.executable, folder / name)
    old = folder / "old" / "lakeshift"
    old.mkdir(parents=True)
    (old / "__init__.py").write_text('__version__ = "0.0.1"\n')
    return Pythons(
        shipped=f"{folder}/shipped/bin/python",
        # What is on the path of every executor must be taken away from one, and overruled for another.
        bare=_started_with(folder / "bare", "${PYTHONPATH//$ARCHIVE/}"),
        outdated=_started_with(folder / "outdated", f"{old.parent}:$PYTHONPATH"),
    )


def _started_with(environment: Path, python_path: str) -> str:
    script = environment / "python-with-path"
    script.write_text(
        f'#!/usr/bin/env bash\nARCHIVE={ARCHIVE}\nPYTHONPATH={python_path} exec {environment}/bin/python "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


@contextmanager
def cluster_session(master: str, memory: str, archive: Path, pythons: Pythons, warehouse: Path) -> Iterator[Any]:
    """A session on a cluster whose executors have what the archive has."""
    import pyspark

    from lakeshift.spark.session import build_session

    home = Path(pyspark.__file__).parent
    os.environ["SPARK_HOME"] = str(home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = pythons.shipped
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # The driver's own path must not leak to the executors.
    os.environ.pop("PYTHONPATH", None)
    session = build_session(
        ("iceberg",),
        master=master,
        conf={
            "spark.archives": f"{archive}#{ARCHIVE}",
            "spark.executorEnv.PYTHONPATH": ARCHIVE,
            "spark.executorEnv.PYTHONDONTWRITEBYTECODE": "",
            "spark.executor.memory": memory,
            "spark.executor.extraJavaOptions": SHORT_LIVED_JVM,
            "spark.driver.host": "127.0.0.1",
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.5",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.minTaskRuntime": "500ms",
            "spark.sql.warehouse.dir": str(warehouse),
        },
    )
    session.sparkContext.setLogLevel("OFF")
    application = session.sparkContext.applicationId
    yield session
    # A local cluster leaves this behind in the JVM, and then no other kind of cluster starts an executor.
    session.sparkContext._jvm.java.lang.System.clearProperty("spark.testing")
    session.stop()
    # Each executor has unpacked the archive: a gigabyte that nobody would miss until the disk is full.
    shutil.rmtree(home / "work" / application, ignore_errors=True)


@pytest.fixture(scope="module")
def spark(
    master: str, executor_memory: str, archive: Path, pythons: Pythons, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The cluster of one module, which says what it is like."""
    with cluster_session(master, executor_memory, archive, pythons, tmp_path_factory.mktemp("warehouse")) as session:
        yield session


@pytest.fixture(scope="module")
def executor_memory() -> str:
    return "1g"
