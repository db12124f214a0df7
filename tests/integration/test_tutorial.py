"""The tutorial, followed literally: every snippet is carried out, and every message compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.snippets import Walk, matches, snippets

ROOT = Path(__file__).parents[2]
PAGE, README = ROOT / "docs" / "tutorial.md", ROOT / "README.md"

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
    # And the few lines that the README shows; its rows come from anywhere.
    rows = spark.sql("SELECT id, timestamp'2026-02-01 12:00:00' AS ts, 'eu' AS region FROM range(3)")
    readme = Walk(tmp_path, names={"df": rows})
    [example] = [snippet for snippet in snippets(README) if snippet.language == "python"]
    readme.follow(example)
    assert [(spec.rows, spec.fields[-1]) for spec in readme.names["events"].layout() if spec.rows] == [(3, "region")]
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.plain
def test_dots_stand_for_text_and_for_lines() -> None:
    assert matches("a ... c\n...\nd\n", "a b c\n1\n2\nd\n")
    assert not matches("a ... c\nd\n", "a b c\n1\nd\n")
    assert not matches("a\n", "a\nb\n")
