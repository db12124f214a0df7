"""The demo's Delta chapter, on the session of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakeshift import connect
from lakeshift.demo.delta_schema import evolve_delta_schema
from lakeshift.demo.story import Stage


def test_the_demo_s_chapter_checks_itself(spark: Any, tmp_path: Path) -> None:
    told: list[str] = []
    lake = connect(warehouse=tmp_path / "lakehouse", spark=spark)
    evolve_delta_schema(Stage(tmp_path, lake, told.append, lambda columns, rows: None))
    text = "\n".join(told)
    for expected in ("+ city: string", "~ amount: short -> int", "amount: the table has int, the input string"):
        assert expected in text
    assert "checked: rows in orders = 200" in text
