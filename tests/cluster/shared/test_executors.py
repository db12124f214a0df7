"""Kernels on executor processes that fail, die, lag behind, or have the wrong package."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyspark.cloudpickle as cloudpickle
import pytest

from lakeshift.errors import StackError, TaskFailedError
from lakeshift.kernel import Attempt, new_operation_id
from lakeshift.spark.executors import check_executors, find_executors
from lakeshift.spark.jobs import run_tasks
from tests.cluster.conftest import ARCHIVE, Pythons
from tests.cluster.troubled_kernel import Wrote, orphans, write_file

# Executors have lakeshift but not its tests: kernels travel by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def always_raise(task: int, _: Attempt) -> Iterable[Wrote]:
    raise PermissionError(f"task {task} may not")


@contextmanager
def executors_run(spark: Any, python: str) -> Iterator[None]:
    """Give the executors of new jobs another interpreter."""
    usual = spark.sparkContext.pythonExec
    spark.sparkContext.pythonExec = python
    try:
        yield
    finally:
        spark.sparkContext.pythonExec = usual


def test_executors_have_lakeshift_from_the_archive_alone(spark: Any) -> None:
    found = check_executors(spark)
    assert found
    assert all("shipped/bin/python" in executor.python for executor in found)
    assert all(executor.problem is None for executor in found)


@pytest.mark.parametrize("trouble", ["none", "raise", "kill"])
def test_each_task_is_reported_once_whatever_its_attempts_went_through(
    spark: Any, tmp_path: Path, trouble: str
) -> None:
    reports = run_tasks(
        spark,
        partial(write_file, folder=str(tmp_path), trouble=trouble),
        list(range(6)),
        Wrote,
        operation_id=new_operation_id(),
        title=trouble,
    )
    wrote = [record for report in reports for record in report.records]
    assert [Path(record.path).read_text() for record in wrote] == ["0", "1", "2", "3", "4", "5"]
    assert all(f"/{ARCHIVE}/" in record.package for record in wrote)
    # What the troubled attempt wrote is an orphan that no report names.
    assert len(orphans(tmp_path, wrote)) == (0 if trouble == "none" else 1)


def test_tasks_run_in_several_processes(spark: Any, tmp_path: Path) -> None:
    kernel = partial(write_file, folder=str(tmp_path), trouble="none")
    reports = run_tasks(spark, kernel, list(range(8)), Wrote, operation_id=new_operation_id(), title="spread")
    assert len({record.pid for report in reports for record in report.records}) >= 2


def test_a_task_that_fails_every_time_names_itself_its_host_and_the_cause(spark: Any) -> None:
    with pytest.raises(TaskFailedError, match="the-file failed on .+: PermissionError: task 7 may not") as caught:
        run_tasks(spark, always_raise, [7], Wrote, operation_id="op", title="fail", names=["the-file"])
    assert caught.value.host


def test_executors_without_the_package_are_named_with_the_remedy(spark: Any, pythons: Pythons) -> None:
    with (
        executors_run(spark, pythons.bare),
        pytest.raises(StackError, match=r"Executor .+ \(.+bare.+\): pyarrow is not installed.+spark\.archives"),
    ):
        check_executors(spark)


def test_executors_with_an_older_package_are_named_before_any_kernel_loads(spark: Any, pythons: Pythons) -> None:
    with executors_run(spark, pythons.outdated):
        assert {executor.lakeshift for executor in find_executors(spark)} == {"0.0.1"}
        with pytest.raises(StackError, match=r"Executor .+ \(.+outdated.+\): lakeshift is 0\.0\.1, the driver's is"):
            check_executors(spark)
        # An executor that joins after the check gives the same answer when a kernel reaches it.
        with pytest.raises(StackError, match=r"Executor .+ \(.+outdated.+\): lakeshift is 0\.0\.1, the driver's is"):
            run_tasks(spark, always_raise, [1], Wrote, operation_id="op", title="old")
