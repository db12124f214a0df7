"""How far a Spark job has come, told to a callback while the job runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# Called with the number of finished tasks and their total, from a thread of its own, never backwards.
Progress: TypeAlias = Callable[[int, int], None]

_POLL_SECONDS = 0.2
_GROUP_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@contextmanager
def observed(
    spark: SparkSession, group: str, title: str, total: int | None, progress: Progress | None
) -> Iterator[None]:
    """Name the jobs that run inside, and report their finished tasks to ``progress``.

    ``total`` is the number of tasks, or None if Spark alone knows it.

    On Spark Connect, where the client has no context to ask, only the end is reported.
    """
    context = context_of(spark)
    if context is None:
        yield
    else:
        before = [(name, context.getLocalProperty(name)) for name in _GROUP_PROPERTIES]
        context.setJobGroup(group, title)
        try:
            with _polling(context, group, total, progress):
                yield
        finally:
            for name, value in before:
                # None is how a local property is removed, though PySpark's annotations do not say so.
                context.setLocalProperty(name, value)  # type: ignore[arg-type]
    if progress is not None:
        progress(total or 1, total or 1)


@contextmanager
def _polling(context: SparkContext, group: str, total: int | None, progress: Progress | None) -> Iterator[None]:
    if progress is None:
        yield
        return
    over = threading.Event()

    def poll() -> None:
        told = -1
        while not over.wait(_POLL_SECONDS):
            done, running = _finished_tasks(context, group)
            if running and done > told:
                told = done
                progress(min(done, total or running), total or running)

    watcher = threading.Thread(target=poll, name="lakeshift-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _finished_tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """Finished and all tasks of the last stage: the one that runs the kernels."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [stage for job in jobs if job for stage in job.stageIds]
    found = tracker.getStageInfo(max(stages)) if stages else None
    return (found.numCompletedTasks, found.numTasks) if found else (0, 0)


def context_of(spark: SparkSession) -> SparkContext | None:
    try:
        return spark.sparkContext
    except Exception:  # Spark Connect refuses the attribute with an error of its own
        return None
