"""What it costs to send small tasks to executors: our kernel runner beside a plain RDD and a plain mapInArrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.harness import Case, Lab
from lakeshift.kernel import Attempt, new_operation_id
from lakeshift.spark.jobs import run_tasks


@dataclass(frozen=True)
class Square:
    value: int


def square(task: int, _: Attempt) -> Iterable[Square]:
    yield Square(task * task)


def cases(lab: Lab) -> Iterator[Case]:
    spark = lab.spark
    count = 4 if lab.tiny else 64

    def ours() -> list[int]:
        reports = run_tasks(spark, square, list(range(count)), Square, operation_id=new_operation_id(), title="square")
        return [record.value for report in reports for record in report.records]

    def rdd() -> list[int]:
        squares: list[int] = spark.sparkContext.parallelize(range(count), count).map(lambda n: n * n).collect()
        return squares

    def map_in_arrow() -> list[int]:
        def kernel(batches: Any) -> Any:
            import pyarrow as pa

            for batch in batches:
                yield pa.record_batch({"value": pa.array([n * n for n in batch.column(0).to_pylist()], pa.int64())})

        rows = spark.range(0, count, 1, count).mapInArrow(kernel, "value long").collect()
        return sorted(row.value for row in rows)

    yield Case(f"{count} tasks", ours, {"RDD map": rdd, "mapInArrow": map_in_arrow})
