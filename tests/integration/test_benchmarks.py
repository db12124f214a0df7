"""A tiny run of every benchmark: ours and the peers agree. Nothing is said about time."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import names
from benchmarks.harness import OURS, Lab, run_case
from lakeshift.stack import Capability, Stack

pytestmark = pytest.mark.once  # as `make bench` does


@pytest.mark.parametrize("name", names())
def test_sides_agree(name: str, stack: Stack, spark: Any, tmp_path: Path) -> None:
    if name == "hudi" and not stack.can(Capability.HUDI_DSV2_READS):
        pytest.skip(f"Spark {stack.line} has no Hudi bundle")
    module = importlib.import_module(f"benchmarks.{name}")
    cases = module.cases(Lab(tmp_path, tiny=True, session=spark))
    outcomes = [run_case(case, repetitions=1, warmups=0) for case in cases]
    assert outcomes
    assert all(set(outcome.sides) > {OURS} for outcome in outcomes)
