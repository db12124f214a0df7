"""The benchmark harness compares before it times."""

from __future__ import annotations

import json

import pytest

from benchmarks.harness import OURS, Case, NotEqualError, as_json, as_markdown, run_case


def test_sides_take_turns_and_are_laid_out_before_each_call() -> None:
    calls: list[str] = []
    case = Case(
        "turns",
        ours=lambda: calls.append("ours"),
        peers={"peer": lambda: calls.append("peer")},
        before=lambda side: calls.append(f"before {side}"),
    )
    run_case(case, repetitions=2, warmups=1)
    assert calls == ["before lakeshift", "ours", "before peer", "peer"] * 3


def test_a_difference_in_any_repetition_gives_no_figure() -> None:
    answers = iter([1, 1, 2])
    case = Case("differ", ours=lambda: 1, peers={"peer": lambda: next(answers)})
    with pytest.raises(NotEqualError, match="lakeshift and peer differ: 1 != 2"):
        run_case(case, repetitions=2, warmups=1)


def test_a_slow_peer_may_be_measured_less_often() -> None:
    outcome = run_case(Case("slow", lambda: 1, {"peer": lambda: 1}, peer_repetitions={"peer": 1}), repetitions=3)
    assert {name: len(side.seconds) for name, side in outcome.sides.items()} == {OURS: 3, "peer": 1}


def test_reports_carry_ratio_memory_and_environment() -> None:
    outcome = run_case(Case("report", lambda: 1, {"peer": lambda: 1}, aim={"peer": 2.0}), repetitions=1)
    content = json.loads(as_json("unit", [outcome]))
    assert content["cases"][0]["ratios"]["peer"] > 0
    assert content["cases"][0]["sides"][OURS]["driver_mib"] > 0
    assert {"cpu", "cores", "java", "pyspark"} <= content["environment"].keys()
    assert "| report | peer |" in as_markdown([outcome])
