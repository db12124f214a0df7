"""Runs of the command line that die by SIGKILL, and are resumed: the same tables as runs that nobody disturbed.

Every other process is killed at the moment when a commit's file appears, the others at any moment. The rows come from
a stream, which must lose none of them and take none twice.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeshift.pipeline.state import PipelineState
from tests.conftest import FULL
from tests.integration.pipeline.cities import PIPELINE, go_on, make, tables

KILLS = 20 if FULL else 3


def make_stream(folder: Path) -> Path:
    """A step of every kind in the long form; a Delta append, an Iceberg append and a merge by default."""
    file = make(folder)
    text = PIPELINE.replace("format: csv", "format: csv\n    streaming: true")
    file.write_text(text if FULL else text[: text.index("  totals:")])
    return file


def arrive(folder: Path, run: int) -> None:
    """What the run of this number finds beside what was there from the start."""
    rows = "".join(f"{n},c{n % 3},{n * 0.25}\n" for n in range(run * 7, run * 7 + 10))
    (folder / "in" / f"of run {run}.csv").write_text(f"id,city,amount\n{rows}")


def start(file: Path, resume: bool) -> subprocess.Popen[bytes]:
    command = [str(Path(sys.executable).with_name("lakeshift")), "run", str(file), *(["--resume"] if resume else [])]
    with (file.parent / "child.log").open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)


def commits(folder: Path) -> int:
    """The commits that there are. Iceberg's file is there a moment before its catalog knows of it; Delta's is it."""
    lake = folder / "lake"
    return len([*lake.glob("**/metadata/*.metadata.json"), *lake.glob("*/_delta_log/*.json")])


def events_of_runs(state: PipelineState) -> int:
    return sum("run_id" in event for event in state.events())


def wait_for_more(child: subprocess.Popen[bytes], count: Callable[[], int], log: Path) -> None:
    """Until there is one more of something, or the child has ended well."""
    before, deadline = count(), time.monotonic() + 200
    while count() == before and child.poll() is None:
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.002)
    assert not child.poll(), log.read_text()[-3000:]


@pytest.mark.once_last
def test_killed_runs_are_resumed_to_the_same_tables(spark: Any, tmp_path: Path) -> None:
    killed = make_stream(tmp_path / "killed")
    folder, log = killed.parent, killed.parent / "child.log"
    state = PipelineState(folder / ".lakeshift" / "cities", "cities")
    seed = random.randrange(10**6)
    print(f"kill seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    after_a_commit = 0
    begun_with = commits(folder)
    for number in range(KILLS):
        last = state.last_run()
        resume = last is not None and last.is_open
        if not resume:
            begun_with = commits(folder)
            arrive(folder, 1 if last is None else last.number + 1)
        child = start(killed, resume)
        try:
            if number % 2 == 0:
                wait_for_more(child, lambda: commits(folder), log)
            else:
                wait_for_more(child, lambda: events_of_runs(state), log)
                time.sleep(chance.uniform(0, 2))
        finally:
            with contextlib.suppress(ProcessLookupError):  # It had nothing left to commit, and has ended.
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        last = state.last_run()
        assert last is not None
        made = commits(folder) - begun_with
        after_a_commit += last.is_open and made > 0
        print(f"kill {number}: run {last.number} {last.status}, {made} commits, {len(last.steps)} recorded")  # noqa: T201
    assert after_a_commit, "no kill fell into a run that had committed something"
    result = go_on(killed, spark)  # the last restart, in this process

    undisturbed = make_stream(tmp_path / "undisturbed")
    for run in range(1, result.number + 1):
        arrive(undisturbed.parent, run)
        go_on(undisturbed, spark)
    expected = tables(undisturbed.parent, spark)
    assert len(expected["landing"]) == 63 + 10 * result.number
    assert tables(folder, spark) == expected
