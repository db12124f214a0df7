"""Records of runs: whole lines or none, one run at a time, and the last run's story told from them."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from lakeshift.errors import ConfigError, InvalidStateError
from lakeshift.pipeline.state import RUNS, PipelineState


@pytest.fixture
def state(tmp_path: Path) -> PipelineState:
    (tmp_path / "state").mkdir()
    return PipelineState(tmp_path / "state", "trips")


def begin(state: PipelineState, number: int) -> str:
    run_id = f"{state.identity()}-{number}"
    state.append("run-started", run_id=run_id, number=number, inputs={"a": {"version": number}})
    return run_id


def test_a_run_goes_from_unfinished_over_failed_to_finished(state: PipelineState) -> None:
    assert state.last_run() is None
    run_id = begin(state, 1)
    state.append("step-done", run_id=run_id, step="write.a", details={"rows": 3})
    state.append("run-failed", run_id=run_id, step="write.b", error="no", kind="ConfigError")
    run = state.last_run()
    assert run is not None
    assert (run.status, run.failed_step, run.error, list(run.steps), run.is_open) == (
        "failed", "write.b", "no", ["write.a"], True,
    )  # fmt: skip
    assert run.told.startswith(f"Run 1 ({run_id}, started 20")
    assert run.told.endswith("failed at write.b, 1 step done")
    state.append("run-resumed", run_id=run_id, number=1)
    run = state.last_run()
    assert run is not None
    assert (run.status, run.error, run.pins) == ("unfinished", None, {"a": {"version": 1}})
    state.append("run-finished", run_id=run_id)
    run = state.last_run()
    assert run is not None
    assert (run.status, run.is_open) == ("finished", False)


def test_a_run_that_was_given_up_is_not_open(state: PipelineState) -> None:
    first = begin(state, 1)
    state.append("run-abandoned", run_id=first)
    second = begin(state, 2)
    assert [(run.run_id, run.status) for run in state.runs()] == [(first, "abandoned"), (second, "unfinished")]


def test_a_line_that_was_cut_short_is_dropped_and_written_over(state: PipelineState) -> None:
    run_id = begin(state, 1)
    file = state.folder / RUNS
    whole = file.read_bytes()
    for cut in ('{"event":"run-finished","run_id":"', '{"event":"run-fini', "{"):
        file.write_bytes(whole + cut.encode())
        run = state.last_run()
        assert run is not None
        assert run.status == "unfinished"
    state.append("step-done", run_id=run_id, step="write.a", details={})
    assert [json.loads(line)["event"] for line in file.read_text().splitlines()] == [
        "state-created", "run-started", "step-done",
    ]  # fmt: skip


def test_a_damaged_line_is_an_error(state: PipelineState) -> None:
    begin(state, 1)
    file = state.folder / RUNS
    file.write_text(file.read_text() + "[]\n")
    with pytest.raises(InvalidStateError, match=r"runs.jsonl, line 3, is not a record"):
        state.runs()


def test_the_identity_stays_and_belongs_to_one_pipeline(state: PipelineState) -> None:
    assert state.identity() == state.identity() == PipelineState(state.folder, "trips").identity()
    with pytest.raises(ConfigError, match="is of the pipeline 'trips', not of 'rides'"):
        PipelineState(state.folder, "rides").identity()


def _hold(folder: Path, held: object, release: object) -> None:
    with PipelineState(folder, "trips").locked():
        held.set()  # type: ignore[attr-defined]
        release.wait(30)  # type: ignore[attr-defined]


def test_two_runs_do_not_overlap_and_a_dead_one_holds_nothing(state: PipelineState) -> None:
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(state.folder, held, release))
    other.start()
    try:
        assert held.wait(30)
        with (
            pytest.raises(InvalidStateError, match=rf"running already \(process {other.pid} on "),
            state.locked(),
        ):
            pass
    finally:
        other.kill()
        other.join()
    with state.locked():
        assert f"process {multiprocessing.current_process().pid} " in (state.folder / "lock").read_text()
