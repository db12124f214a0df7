"""What a kernel is: a plain function that runs on an executor, and the identity of one attempt at it.

A kernel takes a small picklable task and an ``Attempt``. It yields Arrow batches, or records (frozen
dataclasses) about the files it wrote. It knows neither Spark nor a catalog, so it is tested without
either; what it needs besides the task, such as a FileIO with its credentials, is bound to it with
``functools.partial`` and travels in Spark's closure, never in rows, plans or logs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

Batches: TypeAlias = Iterator[pa.RecordBatch]

# From a task to records, from a task to batches, from batches to records.
TaskKernel: TypeAlias = Callable[[Any, "Attempt"], Iterable[Any]]
SourceKernel: TypeAlias = Callable[[Any, "Attempt"], Batches]
SinkKernel: TypeAlias = Callable[[Batches, "Attempt"], Iterable[Any]]


@dataclass(frozen=True)
class Attempt:
    """One attempt at one task. Spark may start several; each has an id of its own.

    Files are named after it and never reused, so that retries and speculation can neither double
    nor lose data: only files whose attempt reported to the driver are committed.
    """

    operation_id: str
    task_index: int
    attempt_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def file_stem(self) -> str:
        """A name that no other attempt, of this or any other operation, will ever use."""
        return f"{self.operation_id}-{self.task_index:05d}-{self.attempt_id}"


def new_operation_id() -> str:
    """An id for one operation, such as one append; it is part of the name of every file it writes."""
    return uuid.uuid4().hex
