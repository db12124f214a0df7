"""What a pipeline's runs have done: JSON lines in its state folder, one for each event, never changed afterwards.

A line is appended and forced to disk before the run goes on. A line that a kill cut short was never acted upon, so
it is dropped. One lock keeps two runs of a pipeline apart. No Spark here.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from lakeshift.errors import ConfigError, InvalidStateError

RUNS = "runs.jsonl"
LOCK = "lock"

Status = Literal["unfinished", "failed", "finished", "abandoned"]


@dataclass(frozen=True)
class RunRecord:
    """One run, as the events about it tell. ``steps`` are those that are done, with what each did."""

    run_id: str
    number: int
    status: Status
    started: str
    pins: Mapping[str, Any] = field(default_factory=dict)
    steps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    error: str | None = None
    failed_step: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has something left to do."""
        return self.status in ("unfinished", "failed")

    @property
    def told(self) -> str:
        """How far it came, for people."""
        done = f"{len(self.steps)} steps done" if len(self.steps) != 1 else "1 step done"
        how = f"failed at {self.failed_step}" if self.status == "failed" else "did not finish"
        return f"Run {self.number} ({self.run_id}, started {self.started}) {how}, {done}"


class PipelineState:
    """The records of one pipeline's runs, in a folder."""

    def __init__(self, folder: Path, pipeline: str) -> None:
        self.folder = folder
        self.pipeline = pipeline
        self._file = folder / RUNS

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the pipeline for this process; an InvalidStateError if another run has it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # Opened, not created anew: the lock is the kernel's, and ends with the process however that ends.
        descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
                raise InvalidStateError(
                    f"The pipeline {self.pipeline!r} is running already ({holder}). Wait until that run has ended."
                ) from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def identity(self) -> str:
        """The id that tells this state from any other of a pipeline of the same name; made on first use."""
        for event in self.events():
            if event["event"] == "state-created":
                if event["pipeline"] != self.pipeline:
                    raise ConfigError(
                        f"The state folder {self.folder} is of the pipeline {event['pipeline']!r}, not of "
                        f"{self.pipeline!r}. Give this pipeline a state folder of its own."
                    )
                return str(event["id"])
        created = uuid4().hex[:12]
        self.append("state-created", id=created, pipeline=self.pipeline)
        return created

    def append(self, event: str, **facts: Any) -> None:
        """Record an event; when this returns it is on disk."""
        line = json.dumps({"event": event, "time": _now(), **facts}, default=str, separators=(",", ":")) + "\n"
        is_new = not self._file.exists()
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            end = _whole_lines(descriptor)
            os.ftruncate(descriptor, end)
            data = line.encode()
            written = 0
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], end + written)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def events(self) -> list[dict[str, Any]]:
        """All events, oldest first."""
        if not self._file.exists():
            return []
        # What comes after the last line end is a line that a kill cut short.
        whole, _, _ = self._file.read_text(encoding="utf-8").rpartition("\n")
        found = []
        for number, line in enumerate(filter(None, whole.split("\n")), 1):
            try:
                event = json.loads(line)
                event["event"]
            except (ValueError, KeyError, TypeError):
                raise InvalidStateError(
                    f"{self._file}, line {number}, is not a record of a run. The file was changed by someone else; "
                    "restore it, or move the folder away to start over (then nothing knows what was written already)."
                ) from None
            found.append(event)
        return found

    def runs(self) -> list[RunRecord]:
        """All runs, oldest first."""
        runs: dict[str, dict[str, Any]] = {}
        for event in self.events():
            if event["event"] == "run-started":
                runs[event["run_id"]] = {
                    "run_id": event["run_id"],
                    "number": event["number"],
                    "status": "unfinished",
                    "started": event["time"],
                    "pins": event["inputs"],
                    "steps": {},
                }
                continue
            run = runs.get(event.get("run_id", ""))
            if run is None:
                continue
            match event["event"]:
                case "step-done":
                    run["steps"][event["step"]] = event
                case "run-failed":
                    run |= {"status": "failed", "error": event["error"], "failed_step": event["step"]}
                case "run-resumed":
                    run |= {"status": "unfinished", "error": None, "failed_step": None}
                case "run-finished":
                    run["status"] = "finished"
                case "run-abandoned":
                    run["status"] = "abandoned"
        return [RunRecord(**run) for run in runs.values()]

    def last_run(self) -> RunRecord | None:
        runs = self.runs()
        return runs[-1] if runs else None


def _whole_lines(descriptor: int) -> int:
    """The length of a file up to its last line end."""
    size = os.fstat(descriptor).st_size
    at = size
    while at > 0:
        start = max(0, at - 65536)
        found = os.pread(descriptor, at - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
