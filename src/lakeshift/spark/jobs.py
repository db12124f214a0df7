"""Kernels as Spark jobs, by the DataFrame API alone (``mapInArrow``): no RDD, no py4j.

Each task gets a Spark task of its own. Only reports of attempts that Spark counts as successful reach
the driver; what an executor raises arrives as one of lakeshift's errors.
"""

from __future__ import annotations

import base64
import functools
import gc
import importlib
import json
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import mmh3
import pyarrow as pa

from lakeshift import __version__
from lakeshift.errors import LakeshiftError, StackError, TaskFailedError
from lakeshift.kernel import Attempt, Batches, SinkKernel, SourceKernel, TaskKernel
from lakeshift.records import decode_records, encode_records
from lakeshift.spark.executors import SHIPPING_REMEDY, ensure_executors, version_mismatch
from lakeshift.spark.progress import Progress, context_of, observed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Record = TypeVar("Record")

# Few tasks go to every executor with the kernel, by their number: rows would take a stage of their own.
_CARRIED_BYTES = 1024 * 1024
_Carried: TypeAlias = tuple[tuple[str, bytes], ...]

_TASKS_SCHEMA = "place int, task int, name string, payload binary"
_REPORT_SCHEMA = "task int, attempt string, host string, records binary"
_REPORT_ARROW = pa.schema(
    [("task", pa.int32()), ("attempt", pa.string()), ("host", pa.string()), ("records", pa.binary())]
)

# What a worker's exception carries to the driver inside Spark's own error text.
_TASK_MARK = "lakeshift-task-failure:"
_EXECUTOR_MARK = "lakeshift-executor-mismatch:"


@dataclass(frozen=True)
class Report(Generic[Record]):
    """What the successful attempt at one task reported."""

    task_index: int
    attempt_id: str
    host: str
    records: tuple[Record, ...]


def run_tasks(
    spark: SparkSession,
    kernel: TaskKernel,
    tasks: Sequence[Any],
    record_type: type[Record],
    *,
    operation_id: str,
    title: str,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> list[Report[Record]]:
    """Run a kernel on every task and return its reports in the order of the tasks.

    ``names`` identify the tasks in errors; ``title`` describes the job in Spark's UI.
    """
    if not tasks:
        return []
    frame, carried = _task_frame(spark, tasks, names)
    frame = frame.mapInArrow(_shipped(_ReportTasks(kernel, record_type, operation_id, carried)), _REPORT_SCHEMA)
    return _collect(spark, frame, record_type, operation_id, title, len(tasks), progress)


def run_over_frame(
    frame: DataFrame,
    kernel: SinkKernel,
    record_type: type[Record],
    *,
    operation_id: str,
    title: str,
    tasks: int | None = None,
    progress: Progress | None = None,
) -> list[Report[Record]]:
    """Feed each of the frame's partitions to a kernel and return its reports.

    The frame runs exactly once. ``tasks`` is how many partitions the caller laid it out in, None if it did not.
    """
    ensure_executors(frame.sparkSession)
    reports = frame.mapInArrow(_shipped(_ReportBatches(kernel, record_type, operation_id)), _REPORT_SCHEMA)
    return _collect(frame.sparkSession, reports, record_type, operation_id, title, tasks, progress)


def frame_of_tasks(
    spark: SparkSession,
    kernel: SourceKernel,
    tasks: Sequence[Any],
    schema: StructType | str,
    *,
    operation_id: str,
    names: Sequence[str] | None = None,
) -> DataFrame:
    """A DataFrame of the batches that a kernel yields for every task; it runs when the frame does."""
    if not tasks:
        return spark.createDataFrame([], schema)
    frame, carried = _task_frame(spark, tasks, names)
    return frame.mapInArrow(_shipped(_StreamTasks(kernel, operation_id, carried)), schema)


def cancel_job(spark: SparkSession, operation_id: str) -> None:
    """End the jobs of an operation that run in other threads; on Spark Connect they run to their end."""
    context = context_of(spark)
    if context is not None:
        context.cancelJobGroup(_job_group(operation_id))


def _job_group(operation_id: str) -> str:
    return f"lakeshift-{operation_id}"


def translate_failure(error: Exception) -> LakeshiftError | None:
    """The lakeshift error inside an exception that Spark raised, if a kernel is what failed."""
    text = str(error)
    if mismatch := _marked(text, _EXECUTOR_MARK):
        problem = mismatch["why"] or version_mismatch(mismatch["found"])
        return StackError(f"Executor {mismatch['host']} ({mismatch['python']}): {problem}. {SHIPPING_REMEDY}")
    if failure := _marked(text, _TASK_MARK):
        return TaskFailedError(
            f"{failure['task']} failed on {failure['host']}: {failure['type']}: {failure['message']}",
            task=failure["task"],
            host=failure["host"],
            cause_type=failure["type"],
            cause_message=failure["message"],
            trace=failure["trace"],
        )
    return None


def _collect(
    spark: SparkSession,
    frame: DataFrame,
    record_type: type[Record],
    operation_id: str,
    title: str,
    total: int | None,
    progress: Progress | None,
) -> list[Report[Record]]:
    try:
        with observed(spark, _job_group(operation_id), title, total, progress):
            rows = frame.collect()
    except Exception as error:
        ours = translate_failure(error)
        if ours is None and type(error).__module__.startswith(("pyspark.", "py4j.")):
            ours = TaskFailedError(
                f"{title} failed in Spark: {error}", cause_type=type(error).__name__, cause_message=str(error)
            )
        if ours is None:
            raise
        raise ours from error
    reports = [
        Report(row.task, row.attempt, row.host, tuple(decode_records(record_type, bytes(row.records)))) for row in rows
    ]
    return sorted(reports, key=lambda report: report.task_index)


def _task_frame(
    spark: SparkSession, tasks: Sequence[Any], names: Sequence[str] | None
) -> tuple[DataFrame, _Carried | None]:
    """A frame with one task in each partition, and the tasks themselves if they travel with the kernel."""
    ensure_executors(spark)
    count = len(tasks)
    packed = [(names[index] if names else f"Task {index}", pickle.dumps(task)) for index, task in enumerate(tasks)]
    if sum(len(payload) for _, payload in packed) <= _CARRIED_BYTES:
        return spark.range(0, count, 1, count), tuple(packed)
    places = partition_places(count)
    rows = [(places[index], index, name, bytearray(payload)) for index, (name, payload) in enumerate(packed)]
    # An explicit count keeps adaptive execution from merging tasks; the chosen keys put one into each partition.
    return spark.createDataFrame(rows, _TASKS_SCHEMA).repartition(count, "place"), None


def partition_places(count: int) -> list[int]:
    """For each partition of ``repartition(count, "place")``, an integer that Spark's hash sends there."""
    places: dict[int, int] = {}
    key = 0
    while len(places) < count:
        places.setdefault(mmh3.hash(struct.pack("<i", key), 42) % count, key)
        key += 1
    return [places[partition] for partition in range(count)]


@dataclass(frozen=True)
class _ReportTasks:
    kernel: TaskKernel
    record_type: type[Any]
    operation_id: str
    carried: _Carried | None

    def __call__(self, batches: Batches) -> Batches:
        _spare_the_collector()
        for index, name, task in _tasks_in(batches, self.carried):
            attempt = Attempt(self.operation_id, index)
            with _Failing(name, attempt):
                records = list(self.kernel(task, attempt))
                yield _report(attempt, encode_records(self.record_type, records))


@dataclass(frozen=True)
class _ReportBatches:
    kernel: SinkKernel
    record_type: type[Any]
    operation_id: str

    def __call__(self, batches: Batches) -> Batches:
        from pyspark import TaskContext

        _spare_the_collector()
        context = TaskContext.get()
        index = context.partitionId() if context else 0
        attempt = Attempt(self.operation_id, index)
        with _Failing(f"Partition {index}", attempt):
            records = list(self.kernel(batches, attempt))
            yield _report(attempt, encode_records(self.record_type, records))


@dataclass(frozen=True)
class _StreamTasks:
    kernel: SourceKernel
    operation_id: str
    carried: _Carried | None

    def __call__(self, batches: Batches) -> Batches:
        _spare_the_collector()
        for index, name, task in _tasks_in(batches, self.carried):
            attempt = Attempt(self.operation_id, index)
            with _Failing(name, attempt):
                yield from self.kernel(task, attempt)


@functools.cache
def _spare_the_collector() -> None:
    """Leave what is loaded by now out of all later garbage collections of this worker.

    PySpark collects after every task. Going through all that PyArrow and PyIceberg have made takes longer than many
    a task does, and finds nothing.
    """
    gc.freeze()


class _Failing:
    """Turns what a kernel raises into an exception whose text the driver can read back."""

    def __init__(self, name: str, attempt: Attempt) -> None:
        self._name = name
        self._attempt = attempt

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if not isinstance(error, Exception):
            return
        import socket
        import traceback

        failure = {
            "task": self._name,
            "host": socket.gethostname(),
            "type": type(error).__name__,
            "message": str(error)[:4000],
            "trace": "".join(traceback.format_exception(error))[-8000:],
        }
        raise RuntimeError(_mark(_TASK_MARK, failure)) from error


def _tasks_in(batches: Batches, carried: _Carried | None) -> Iterator[tuple[int, str, Any]]:
    for batch in batches:
        if carried is None:
            columns = [batch.column(name).to_pylist() for name in ("task", "name", "payload")]
            found = list(zip(*columns, strict=True))
        else:
            found = [(index, *carried[index]) for index in batch.column(0).to_pylist()]
        for index, name, payload in found:
            # The payload is this job's own task, pickled by the driver: trusted like Spark's closures.
            yield index, name, pickle.loads(payload)  # noqa: S301


def _report(attempt: Attempt, records: bytes) -> pa.RecordBatch:
    import socket

    row = [[attempt.task_index], [attempt.attempt_id], [socket.gethostname()], [records]]
    return pa.RecordBatch.from_arrays(
        [pa.array(value, field.type) for value, field in zip(row, _REPORT_ARROW, strict=True)], schema=_REPORT_ARROW
    )


def _shipped(entry: Callable[[Batches], Batches]) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """Wrap an entry point so that an executor which cannot load it says who it is and what it lacks."""
    payload: bytes = importlib.import_module("pyspark.cloudpickle").dumps(entry)
    driver, mark = __version__, _EXECUTOR_MARK

    # Nested and free of lakeshift's names, so that it is pickled by value and loads on any executor.
    def run(batches: Any) -> Any:
        import base64
        import json
        import pickle
        import socket
        import sys

        found, why = None, ""
        try:
            import lakeshift

            found = lakeshift.__version__
            load = pickle.loads if found == driver else None
            loaded = load(payload) if load else None
        except ImportError as error:
            loaded, why = None, f"{type(error).__name__}: {error}"
        if loaded is None:
            seen = {"host": socket.gethostname(), "python": sys.executable, "found": None if why else found, "why": why}
            raise RuntimeError(mark + base64.b64encode(json.dumps(seen).encode()).decode())
        try:
            yield from loaded(batches)
        finally:
            # Before each task PySpark's worker invalidates Python's import caches, and a cached zip importer
            # then reads the directory of pyspark.zip again: 100 ms a task. Without the entry it does not.
            for path, finder in list(sys.path_importer_cache.items()):
                if type(finder).__name__ == "zipimporter":
                    del sys.path_importer_cache[path]

    return run


def _mark(mark: str, content: dict[str, str]) -> str:
    readable = f"{content['task']}: {content['type']}: {content['message']}"
    return f"{readable}\n{mark}{base64.b64encode(json.dumps(content).encode()).decode()}"


def _marked(text: str, mark: str) -> dict[str, Any] | None:
    _, found, rest = text.partition(mark)
    if not found:
        return None
    encoded = rest.split(maxsplit=1)[0].rstrip("'\")")
    content: dict[str, Any] = json.loads(base64.b64decode(encoded))
    return content
