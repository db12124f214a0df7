"""Separate processes that evolve and append at once: nothing is lost, nothing doubled, the schema is the union."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FULL
from tests.integration.delta.conftest import Log
from tests.integration.delta.racing_process import WIDENS_TO_THE_LAST, race

# Minutes of processes that start and die: on each line in the long form, else on one.
pytestmark = pytest.mark.once_last

OWN, *CHILDREN = PROCESSES = ["p1", "p2", "p3", "p4"]  # this process and those that it starts
SECONDS = 180 if FULL else 20
CHILD = Path(__file__).with_name("racing_process.py")


def test_four_processes_evolve_and_append_at_once(spark: Any, tmp_path: Path) -> None:
    children = {}
    for name in CHILDREN:
        with (tmp_path / f"{name}.log").open("wb") as output:
            children[name] = subprocess.Popen(
                [sys.executable, str(CHILD), str(tmp_path), name, str(SECONDS)],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    try:
        _wait(lambda: all((tmp_path / f"{name}.ready").exists() for name in CHILDREN), children, tmp_path)
        (tmp_path / "go").touch()
        with warnings.catch_warnings():
            race(spark, tmp_path, OWN, SECONDS, fewest=WIDENS_TO_THE_LAST)
        for name, child in children.items():
            assert child.wait(SECONDS + 600) == 0, (tmp_path / f"{name}.log").read_text()[-3000:]
    finally:
        for child in children.values():
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    reports = {
        name: [json.loads(line) for line in (tmp_path / f"{name}.report").read_text().splitlines()]
        for name in PROCESSES
    }
    written = sorted((name, line["batch"]) for name, lines in reports.items() for line in lines)
    table = spark.read.format("delta").load(str(tmp_path / "table"))
    rows = [row.asDict() for row in table.collect()]
    assert sorted((row["process"], row["batch"]) for row in rows) == written
    assert all(row["n"] == row["batch"] for row in rows)
    assert dict(table.dtypes)["n"] == "int"
    columns = {f"{name}_{n}" for name, lines in reports.items() for n in range(max(line["columns"] for line in lines))}
    assert set(table.columns) == {"process", "batch", "n"} | columns
    for row in rows:
        mine = {f"{row['process']}_{n}" for n in range(reports[row["process"]][row["batch"]]["columns"])}
        assert {c for c in columns if row[c] is not None} == mine
    log = Log(tmp_path / "table")
    switched_on = [v for v in log.versions() if "add" not in log.kinds(v)]
    assert len(log.versions()) == len(written) + len(switched_on)
    assert len(switched_on) <= len(PROCESSES)  # type widening, switched on by who needs it first
    attempts = sum(line["attempts"] for lines in reports.values() for line in lines)
    print(f"{len(written)} batches, {len(columns)} columns added, {attempts - len(written)} retries")  # noqa: T201


def _wait(ready: Any, children: dict[str, subprocess.Popen[bytes]], folder: Path) -> None:
    deadline = time.monotonic() + 400
    while not ready():
        for name, child in children.items():
            assert child.poll() is None, (folder / f"{name}.log").read_text()[-3000:]
        assert time.monotonic() < deadline, "the processes did not start in time"
        time.sleep(0.1)
