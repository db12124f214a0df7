"""The tutorial, followed literally: every snippet is carried out, and every message compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.snippets import Walk, matches, snippets

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"

# Installing is what other tests do: those of the wheel, and of the demo.
ELSEWHERE = (
    "make demo",
    "source .venv-3.5/bin/activate",
    "pip install 'lakeshift[spark35]'",
)


@pytest.mark.once_last
def test_the_tutorial_can_be_followed(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    walk = Walk(tmp_path, ELSEWHERE)
    for snippet in snippets(PAGE):
        walk.follow(snippet)
    assert set(ELSEWHERE) <= set(walk.commands)
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.plain
def test_dots_stand_for_text_and_for_lines() -> None:
    assert matches("a ... c\n...\nd\n", "a b c\n1\n2\nd\n")
    assert not matches("a ... c\nd\n", "a b c\n1\nd\n")
    assert not matches("a\n", "a\nb\n")
