"""Kernels as Spark jobs on local threads; ``tests/cluster`` repeats what matters on executor processes."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeshift.errors import TaskFailedError
from lakeshift.kernel import Attempt, new_operation_id
from lakeshift.spark import jobs
from lakeshift.spark.executors import check_executors
from lakeshift.spark.jobs import frame_of_tasks, run_over_frame, run_tasks, translate_failure


@dataclass(frozen=True)
class Seen:
    task: int
    partition: int
    stem: str


def see(task: int, attempt: Attempt) -> Iterable[Seen]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    yield Seen(task, context.partitionId(), attempt.file_stem)


def count_frozen(_: int, attempt: Attempt) -> Iterable[Seen]:
    yield Seen(gc.get_freeze_count(), 0, attempt.file_stem)


def wait_for_the_others(task: int, attempt: Attempt, told_halfway: str) -> Iterable[Seen]:
    """The last task ends only when progress has told of others that did."""
    deadline = time.monotonic() + 60
    while task == 5 and not Path(told_halfway).exists():
        if time.monotonic() > deadline:
            raise TimeoutError("no progress was told while tasks ran")
        time.sleep(0.02)
    return see(task, attempt)


def fail_on_three(task: int, attempt: Attempt) -> Iterable[Seen]:
    if task == 3:
        raise ValueError("no threes: 'quoted', ünï, \n and lines")
    return see(task, attempt)


def rows_of(task: int, _: Attempt) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"n": pa.array(range(task), pa.int64())})


def count_rows(batches: Iterator[pa.RecordBatch], attempt: Attempt) -> Iterable[Seen]:
    yield Seen(sum(batch.num_rows for batch in batches), attempt.task_index, attempt.file_stem)


@pytest.fixture(params=["with the kernel", "as rows"])
def travelling(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways that tasks take: few of them with the kernel, many as rows."""
    if request.param == "as rows":
        monkeypatch.setattr(jobs, "_CARRIED_BYTES", 0)


@pytest.mark.usefixtures("travelling")
@pytest.mark.parametrize("count", [1, 2, 12])
def test_each_task_gets_a_partition_of_its_own(spark: Any, count: int) -> None:
    reports = run_tasks(spark, see, list(range(count)), Seen, operation_id="op", title="see")
    assert [report.task_index for report in reports] == list(range(count))
    assert [report.records[0].partition for report in reports] == list(range(count))
    assert len({report.records[0].stem for report in reports}) == count


def test_what_a_worker_has_loaded_is_left_out_of_its_collections(spark: Any) -> None:
    [report] = run_tasks(spark, count_frozen, [0], Seen, operation_id="op", title="count")
    assert report.records[0].task > 10_000


def test_no_tasks_run_no_job(spark: Any) -> None:
    assert run_tasks(spark, fail_on_three, [], Seen, operation_id="op", title="nothing") == []
    assert frame_of_tasks(spark, rows_of, [], "n long", operation_id="op").count() == 0


@pytest.mark.usefixtures("travelling")
def test_adaptive_execution_does_not_merge_tasks(spark: Any) -> None:
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    frame = frame_of_tasks(spark, rows_of, [1] * 12, "n long", operation_id="op")
    frame.collect()
    assert frame.rdd.getNumPartitions() == 12


@pytest.mark.usefixtures("travelling")
def test_what_a_kernel_raises_arrives_with_the_tasks_name_and_the_cause(spark: Any) -> None:
    with pytest.raises(TaskFailedError, match="file-three failed on .*: ValueError: no threes") as caught:
        run_tasks(spark, fail_on_three, [1, 3], Seen, operation_id="op", title="fail", names=["file-one", "file-three"])
    error = caught.value
    assert error.task == "file-three"
    assert error.cause_type == "ValueError"
    assert error.cause_message == "no threes: 'quoted', ünï, \n and lines"
    assert "in fail_on_three" in error.trace
    assert error.__cause__ is not None


def test_a_frame_of_tasks_holds_their_rows_and_tells_their_failure(spark: Any) -> None:
    frame = frame_of_tasks(spark, rows_of, [2, 3], "n long", operation_id="op")
    assert sorted(row.n for row in frame.collect()) == [0, 0, 1, 1, 2]
    broken = frame_of_tasks(spark, fail_on_three, [3], "n long", operation_id="op")
    with pytest.raises(Exception, match="no threes") as caught:
        broken.collect()
    ours = translate_failure(caught.value)
    assert isinstance(ours, TaskFailedError)
    assert ours.cause_type == "ValueError"


def test_a_kernel_over_a_frame_sees_every_row_once(spark: Any) -> None:
    frame = spark.range(0, 1000, 1, 5)
    reports = run_over_frame(frame, count_rows, Seen, operation_id="op", title="count", tasks=5)
    assert [report.task_index for report in reports] == [0, 1, 2, 3, 4]
    assert sum(report.records[0].task for report in reports) == 1000


def test_progress_is_told_while_tasks_run_never_goes_back_and_ends_at_the_total(spark: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    halfway = tmp_path / "told-halfway"

    def note(done: int, total: int) -> None:
        told.append((done, total))
        if 0 < done < total:
            halfway.touch()

    kernel = partial(wait_for_the_others, told_halfway=str(halfway))
    run_tasks(spark, kernel, list(range(6)), Seen, operation_id=new_operation_id(), title="tell", progress=note)
    assert told[-1] == (6, 6)
    assert told == sorted(told)
    assert halfway.exists()


def test_the_users_job_group_is_left_as_it_was(spark: Any) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "my work")
    try:
        run_tasks(spark, see, [1], Seen, operation_id="op", title="ours")
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.job.description") == "my work"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)


def test_credentials_bound_to_a_kernel_show_in_no_plan_and_no_row(spark: Any) -> None:
    def read(task: int, attempt: Attempt, secret: str) -> Iterator[pa.RecordBatch]:
        assert secret == "tell-nobody"
        return rows_of(task, attempt)

    frame = frame_of_tasks(spark, partial(read, secret="tell-nobody"), [2], "n long", operation_id="op")
    assert frame.count() == 2
    plan = frame._jdf.queryExecution().toString()
    assert "mapInArrow" in plan or "MapInArrow" in plan
    assert "tell-nobody" not in plan


def test_local_executors_are_found_healthy(spark: Any) -> None:
    executors = check_executors(spark)
    assert [executor.problem for executor in executors] == [None]


def test_operation_ids_differ() -> None:
    assert len({new_operation_id() for _ in range(100)}) == 100
