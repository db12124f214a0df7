"""How far a rewrite has come, over groups and bytes, told to a callback while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from lakeshift.iceberg.rewrite.plan import RewriteDataFilesPlan


@dataclass(frozen=True)
class RewriteStep:
    """How far a rewrite has come."""

    groups_done: int
    groups: int
    bytes_done: int
    bytes: int
    commits: int


# Called from threads of the rewrite's own, one call at a time.
RewriteProgress: TypeAlias = Callable[[RewriteStep], None]


class Tracker:
    """Adds up how far the jobs of a rewrite have come."""

    def __init__(self, plan: RewriteDataFilesPlan, progress: RewriteProgress | None) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._groups, self._bytes = len(plan.groups), plan.input_bytes
        self._groups_done = self._commits = 0
        self._bytes_done: dict[int, int] = {}

    @contextmanager
    def job(self, size: int) -> Iterator[Callable[[int, int], None] | None]:
        """What a job of so many bytes tells its finished tasks to."""
        if self._progress is None:
            yield None
            return
        with self._lock:
            number = len(self._bytes_done)
            self._bytes_done[number] = 0

        def tell(done: int, total: int) -> None:
            with self._lock:
                self._bytes_done[number] = size * done // max(total, 1)
                self._tell()

        yield tell
        tell(1, 1)

    def group_done(self) -> None:
        with self._lock:
            self._groups_done += 1
            self._tell()

    def committed(self) -> None:
        with self._lock:
            self._commits += 1
            self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            done = sum(self._bytes_done.values())
            self._progress(RewriteStep(self._groups_done, self._groups, done, self._bytes, self._commits))
