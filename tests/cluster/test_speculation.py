"""A second attempt beside a slow one. Spark starts it on another host only, so this cluster has two.

They are two addresses of the loopback network, each with a standalone worker of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
import pytest

import lakeshift
from lakeshift.iceberg import write
from lakeshift.kernel import new_operation_id
from lakeshift.spark.jobs import run_tasks
from lakeshift.stack import find_java, installed_stack
from tests.class_archive import SHORT_LIVED_JVM
from tests.cluster.troubled_kernel import Wrote, orphans, write_file, write_rows_in_trouble


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, home = tmp_path_factory.mktemp("standalone"), Path(pyspark.__file__).parent
    command = [str(find_java().path), "-Xmx256m", *SHORT_LIVED_JVM.split(), "-cp", f"{home}/jars/*", *_ACCESS]
    # What Spark's start scripts tell the processes of a cluster.
    told = {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": installed_stack().scala}
    processes: list[subprocess.Popen[bytes]] = []

    def start(role: str, host: str, *arguments: str) -> Path:
        log = folder / f"{len(processes)}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*command, f"org.apache.spark.deploy.{role}", "--host", host, "--webui-port", "0", *arguments],
                stdout=stream,
                stderr=stream,
                cwd=folder,
                env={**os.environ, **told, "SPARK_LOCAL_IP": host},
            )
        processes.append(process)
        return log

    try:
        log = start("master.Master", "127.0.0.1", "--port", "0")
        url = _wait_for(log, r"Starting Spark master at (spark://\S+)")
        for host in ("127.0.0.1", "127.0.0.2"):
            worker = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / host), url)
            _wait_for(start("worker.Worker", host, *worker), r"Successfully registered with master (\S+)")
        yield url
    finally:
        for process in processes:
            process.kill()
            process.wait()


# What Spark's own start scripts open for Java 17.
_ACCESS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.net", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch")
]


def _wait_for(log: Path, pattern: str) -> str:
    for _ in range(600):
        if found := re.search(pattern, log.read_text()):
            return found.group(1)
        time.sleep(0.1)
    raise AssertionError(f"not found in {log}: {pattern}\n{log.read_text()[-2000:]}")


@pytest.mark.once_last
def test_the_faster_of_two_attempts_is_reported_and_the_slower_ignored(spark: Any, tmp_path: Path) -> None:
    reports = run_tasks(
        spark,
        partial(write_file, folder=str(tmp_path), trouble="lag"),
        list(range(6)),
        Wrote,
        operation_id=new_operation_id(),
        title="lag",
    )
    wrote = [record for report in reports for record in report.records]
    assert [Path(record.path).read_text() for record in wrote] == ["0", "1", "2", "3", "4", "5"]
    # The slow attempt at task 1 wrote as well. On a busy machine another task may have been tried twice, too.
    assert "1" in {Path(path).read_text() for path in orphans(tmp_path, wrote)}


@pytest.mark.once_last
def test_a_slow_attempt_at_a_write_doubles_no_row(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lakeshift.connect(warehouse=tmp_path / "lake", spark=spark)
    table = lake.create_iceberg_table("db.t", "id bigint", properties={"write.distribution-mode": "none"})
    kernel = partial(write_rows_in_trouble, marker=str(tmp_path / "marker"), trouble="lag")
    monkeypatch.setattr(write, "write_rows", kernel)
    table.append(spark.range(0, 6_000, 1, 6))
    assert sorted(table.table.scan().to_arrow().column("id").to_pylist()) == list(range(6_000))
    # The slow attempt's file is on disk, and the table does not know it.
    live = {task.file.file_path.rsplit("/", 1)[-1] for task in table.table.scan().plan_files()}
    assert {path.name for path in (tmp_path / "lake").rglob("*.parquet")} > live
