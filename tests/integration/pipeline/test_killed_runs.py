"""Runs that die by SIGKILL at random points, and are resumed: the same tables as runs that nobody disturbed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lakeshift.pipeline.state import PipelineState
from tests.conftest import FULL
from tests.integration.pipeline import killed_process
from tests.integration.pipeline.cities import STEPS, go_on, make, tables

KILLS = 20 if FULL else 3
ROOT = Path(__file__).parents[3]


def start(file: Path) -> subprocess.Popen[bytes]:
    (file.parent / "ready").unlink(missing_ok=True)
    with (file.parent / "child.log").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", killed_process.__name__, str(file)],
            stdout=output, stderr=output, start_new_session=True, cwd=ROOT,
        )  # fmt: skip


def events_of_runs(state: PipelineState) -> list[dict[str, Any]]:
    return [event for event in state.events() if "run_id" in event]


def wait_for_events(state: PipelineState, child: subprocess.Popen[bytes], count: int) -> None:
    deadline = time.monotonic() + 300
    while len(events_of_runs(state)) < count:
        alive_in_time = child.poll() is None and time.monotonic() < deadline
        assert alive_in_time, (state.folder.parents[1] / "child.log").read_text()[-3000:]
        time.sleep(0.01)


# Minutes of processes; deaths between a commit and its record are in the default tests, in one process.
@pytest.mark.full
@pytest.mark.once
def test_runs_killed_at_random_points_make_the_same_tables(spark: Any, tmp_path: Path) -> None:
    killed = make(tmp_path / "killed")
    state = PipelineState(killed.parent / ".lakeshift" / "cities", "cities")
    seed = random.randrange(10**6)
    print(f"kill seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    caught = 0
    for number in range(KILLS):
        before = len(events_of_runs(state))
        child = start(killed)
        try:
            # Begun or resumed, then up to as many steps as a run has, then a moment more.
            wait_for_events(state, child, before + chance.randint(1, len(STEPS)))
            time.sleep(chance.uniform(0, 1.0))
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        last = state.last_run()
        assert last is not None
        caught += last.is_open
        print(f"kill {number}: run {last.number} {last.status} after {list(last.steps)}")  # noqa: T201
    result = go_on(killed, spark)  # the last restart, in this process
    assert caught, "no kill fell into a run"

    undisturbed = make(tmp_path / "undisturbed")
    for _ in range(result.number):
        go_on(undisturbed, spark)
    expected = tables(undisturbed.parent, spark)
    assert len(expected["landing"]) == 63 * result.number
    assert tables(killed.parent, spark) == expected
