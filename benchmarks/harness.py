"""The one way lakeshift is measured: ours and the peers in turn, in one process and one JVM.

A benchmark is a module beside this one with ``cases(lab)``, which yields ``Case``s. For each case the
sides are warmed up, their results compared, and then timed in alternation. A figure is printed only
when every result was equal. Run with ``make bench`` or ``python -m benchmarks NAME``.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from benchmarks.iceberg_java import EXTENSION, SQLITE_JDBC, catalog_settings
from lakeshift import __version__
from lakeshift.spark.session import build_session
from lakeshift.stack import find_java, installed_stack

OURS = "lakeshift"


@dataclass(frozen=True)
class Case:
    """One comparison. Every side is a function that does the work and returns its result.

    ``before`` runs untimed before each timed call with the side's name, to lay out fresh input;
    ``equal`` compares our result with a peer's; ``aim`` is the ratio we want to reach against each peer.
    """

    name: str
    ours: Callable[[], Any]
    peers: Mapping[str, Callable[[], Any]]
    before: Callable[[str], None] | None = None
    equal: Callable[[Any, Any], bool] = lambda ours, peer: bool(ours == peer)
    aim: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    # A peer that takes minutes is measured less often than the others: at most this many times.
    peer_repetitions: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Lab:
    """Where a benchmark works: a scratch folder, one Spark session with the peers, and the size of the run.

    ``tiny`` asks for the smallest input that still exercises everything; the tests run it so.
    """

    folder: Path
    tiny: bool = False
    session: Any = None

    @cached_property
    def spark(self) -> Any:
        if self.session is not None:
            return self.session
        stack = installed_stack()
        session = build_session(
            stack.available_formats(),
            stack=stack,
            master="local[2]",
            packages=[stack.iceberg_peer, SQLITE_JDBC],
            extensions=[EXTENSION],
            conf={"spark.driver.memory": "6g", "spark.sql.warehouse.dir": str(self.folder / "spark-warehouse")},
        )
        session.sparkContext.setLogLevel("ERROR")
        return session

    def java_catalog(self, name: str, warehouse: Path) -> None:
        """Let Iceberg's Java runtime use the SQLite catalog of a warehouse folder, under this name."""
        for key, value in catalog_settings(name, warehouse).items():
            self.spark.conf.set(key, value)


@dataclass(frozen=True)
class Side:
    """What was measured of one side: seconds of each repetition, and peak memory in MiB."""

    seconds: tuple[float, ...]
    driver_mib: int
    jvm_mib: int
    workers_mib: int

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Outcome:
    case: str
    note: str
    sides: Mapping[str, Side]
    aim: Mapping[str, float]

    def ratio(self, peer: str) -> float:
        """How many times as fast as the peer we are, by medians."""
        return self.sides[peer].median / self.sides[OURS].median

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "medians": {name: side.median for name, side in self.sides.items()},
            "ratios": {name: self.ratio(name) for name in self.sides if name != OURS},
        }


class NotEqualError(AssertionError):
    """Ours and the peer came to different results, so that no figure means anything."""


def run_case(case: Case, repetitions: int = 5, warmups: int = 1) -> Outcome:
    """Warm up, compare, then time all sides in alternation."""
    sides = {OURS: case.ours, **case.peers}
    for _ in range(warmups):
        _compare(case, {name: _once(case, name, work)[0] for name, work in sides.items()})
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    peaks: dict[str, list[int]] = {name: [0, 0, 0] for name in sides}
    for repetition in range(repetitions):
        results = {}
        for name, work in sides.items():
            if name == OURS or repetition < case.peer_repetitions.get(name, repetitions):
                results[name], elapsed, peak = _once(case, name, work)
                seconds[name].append(elapsed)
                peaks[name] = [max(pair) for pair in zip(peaks[name], peak, strict=True)]
        _compare(case, results)
    measured = {name: Side(tuple(seconds[name]), *peaks[name]) for name in sides}
    return Outcome(case.name, case.note, measured, case.aim)


def _once(case: Case, name: str, work: Callable[[], Any]) -> tuple[Any, float, list[int]]:
    if case.before:
        case.before(name)
    with _peak_memory() as peak:
        start = time.perf_counter()
        result = work()
        elapsed = time.perf_counter() - start
    return result, elapsed, peak


def _compare(case: Case, results: Mapping[str, Any]) -> None:
    for name, result in results.items():
        if name != OURS and not case.equal(results[OURS], result):
            raise NotEqualError(f"{case.name}: {OURS} and {name} differ: {results[OURS]!r:.500} != {result!r:.500}")


@contextmanager
def _peak_memory() -> Iterator[list[int]]:
    """Peak resident MiB of this process, of the JVMs and of the Python workers below it."""
    peak, over = [0, 0, 0], threading.Event()

    def sample() -> None:
        me = psutil.Process()
        while True:
            now = [me.memory_info().rss, 0, 0]
            for child in me.children(recursive=True):
                try:
                    now[1 if "java" in child.name() else 2] += child.memory_info().rss
                except psutil.Error:
                    continue  # it ended while we looked
            peak[:] = [max(old, new >> 20) for old, new in zip(peak, now, strict=True)]
            if over.wait(0.05):
                return

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()


def environment() -> dict[str, Any]:
    """Versions and machine: what a figure means nothing without."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "lakeshift": __version__,
        "java": find_java().version,
        **{name: metadata.version(name) for name in ("pyspark", "pyiceberg", "pyarrow", "datafusion")},
        "stack": {key: str(value) for key, value in asdict(installed_stack()).items() if key != "capabilities"},
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "command": f"python -m benchmarks {' '.join(sys.argv[1:])}".strip(),
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def as_json(benchmark: str, outcomes: list[Outcome]) -> str:
    content = {"benchmark": benchmark, "environment": environment(), "cases": [o.to_dict() for o in outcomes]}
    return json.dumps(content, indent=2)


def as_markdown(outcomes: list[Outcome]) -> str:
    rows = [
        "| case | side | median s | min to max s | ours is | aim | driver / JVM / workers MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        for name, side in outcome.sides.items():
            ratio = "" if name == OURS else f"{outcome.ratio(name):.2f} times as fast"
            aim = f"{outcome.aim[name]:g}" if name in outcome.aim else ""
            spread = f"{min(side.seconds):.3f} to {max(side.seconds):.3f}"
            memory = f"{side.driver_mib} / {side.jvm_mib} / {side.workers_mib}"
            rows.append(f"| {outcome.case} | {name} | {side.median:.3f} | {spread} | {ratio} | {aim} | {memory} |")
    return "\n".join(rows)
