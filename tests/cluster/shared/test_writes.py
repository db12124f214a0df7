"""Writes on executor processes whose tasks fail or die: no row doubled or lost, nothing committed on failure."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyspark.cloudpickle as cloudpickle
import pytest

import lakeshift
from lakeshift.errors import TaskFailedError
from lakeshift.iceberg import write
from lakeshift.iceberg.kernels.rewrite import RewriteReport, rewrite_files
from lakeshift.iceberg.rewrite import group_jobs
from lakeshift.iceberg.table import IcebergTable
from lakeshift.kernel import Attempt
from tests.cluster.troubled_kernel import first, write_rows_in_trouble

# Executors have lakeshift but not its tests: kernels travel by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = 20_000


def on_a_dying_executor(task: Any, attempt: Attempt, *, job: Any, io: Any, marker: str) -> Iterable[RewriteReport]:
    """The rewrite kernel, whose first task to have written its files takes the whole executor down with it."""
    for report in rewrite_files(task, attempt, job=job, io=io):
        if first(Path(marker)):
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            executor = int(daemon.rpartition(")")[2].split()[1])
            command = Path(f"/proc/{executor}/cmdline").read_text()
            Path(marker).write_text(f"{executor} {'ExecutorBackend' in command}")
            os.kill(executor, signal.SIGKILL)
            time.sleep(600)
        yield report


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> IcebergTable:
    lake = lakeshift.connect(warehouse=tmp_path / "lake", spark=spark)
    return lake.create_iceberg_table(
        "db.t", "id bigint, region string", ["region"], {"write.distribution-mode": "none"}
    )


def rows(spark: Any) -> Any:
    return spark.range(0, ROWS, 1, 4).selectExpr("id", "concat('r', pmod(id, 9)) AS region")


def files_on_disk(table: IcebergTable) -> set[str]:
    return {path.name for path in Path(table.table.location().removeprefix("file://")).rglob("*.parquet")}


def files_in_table(table: IcebergTable) -> Iterator[str]:
    for task in table.refresh().table.scan().plan_files():
        yield task.file.file_path.rsplit("/", 1)[-1]


@pytest.mark.once_last
@pytest.mark.parametrize("trouble", ["raise", "kill"])
def test_rows_are_there_once_when_a_task_is_tried_again(
    spark: Any, table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr(
        write, "write_rows", partial(write_rows_in_trouble, marker=str(tmp_path / "marker"), trouble=trouble)
    )
    result = table.append(rows(spark))
    assert result.rows_written == ROWS
    found = table.table.scan().to_arrow()
    assert sorted(found.column("id").to_pylist()) == list(range(ROWS))
    orphans = files_on_disk(table) - set(files_in_table(table))
    # A killed attempt cannot tidy up; one that fails does.
    assert bool(orphans) is (trouble == "kill")


@pytest.mark.once_last
def test_nothing_is_committed_when_a_task_fails_every_time(
    spark: Any, table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = partial(write_rows_in_trouble, marker=str(tmp_path / "marker"), trouble="raise always")
    monkeypatch.setattr(write, "write_rows", kernel)
    with pytest.raises(TaskFailedError, match="the disk said no"):
        table.append(rows(spark))
    assert table.refresh().table.current_snapshot() is None


def test_rows_come_back_through_executors(spark: Any, table: IcebergTable) -> None:
    table.append(rows(spark))
    where = "region = 'r4' AND id < 100"
    assert sorted(row.id for row in table.read(where=where).collect()) == [n for n in range(100) if n % 9 == 4]


@pytest.mark.once_last
def test_a_rewrite_outlives_an_executor(
    spark: Any, table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        table.append(rows(spark))
    before = set(files_in_table(table))
    kernel = partial(on_a_dying_executor, marker=str(tmp_path / "marker"))
    monkeypatch.setattr(group_jobs, "rewrite_files", kernel)
    result = table.rewrite_data_files(partial_progress_enabled=True)
    process, was_an_executor = (tmp_path / "marker").read_text().split()
    assert was_an_executor == "True"
    assert not psutil.pid_exists(int(process)) or psutil.Process(int(process)).status() == psutil.STATUS_ZOMBIE
    assert [group.committed for group in result.groups] == [True] * 9
    after = set(files_in_table(table))
    assert len(after) == 9
    assert not after & before
    assert after <= files_on_disk(table)
    found = table.table.scan().to_arrow()
    assert sorted(found.column("id").to_pylist()) == sorted([*range(ROWS)] * 2)
