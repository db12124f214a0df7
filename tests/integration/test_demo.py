"""The demo: with all formats, and its chapters where there is no Hudi."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lakeshift import connect
from lakeshift.demo.pipelines import copy_pipelines
from lakeshift.demo.story import Stage, chapters
from lakeshift.stack import Stack
from tests.command import printed, refused, shared, told

EXAMPLES = Path(__file__).parents[2] / "examples" / "story"


@pytest.mark.once  # as `make demo` does
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")  # it opens pages without waiting
def test_the_demo_tells_its_story_and_refuses_a_used_folder(spark: Any, tmp_path: Path) -> None:
    folder, opened = tmp_path / "demo", tmp_path / "opened"
    desktop = tmp_path / "bin" / "xdg-open"  # what a desktop opens files with
    desktop.parent.mkdir()
    desktop.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    desktop.chmod(0o755)
    path = f"{desktop.parent}{os.pathsep}{os.environ['PATH']}"
    result = printed("demo", "--open", "--folder", str(folder), by=shared, PATH=path)
    chapters = [chapter["told"] for chapter in result["chapters"]]
    assert len(chapters) == 9
    assert all(any(line.startswith("checked:") for line in chapter) for chapter in chapters)
    arrival, _, second, third, clash, *_ = ("\n".join(chapter) for chapter in chapters)
    assert arrival.count("V2 (BatchScan)") == 2
    assert "hudi/fares has 1 log file now, which a read merges" in second
    assert "+ tip: double" in second
    assert "~ meters: short -> int" in third
    assert "fare: the table has double, the input string" in clash
    assert "meters: int to long needs Delta 4 on Spark 4.1" in clash
    assert "partitions by spec" in chapters[-1][0]
    page = Path(result["report"]).read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert opened.read_text().strip() == result["report"]
    # What the demo ran is what a user can copy; the demo mended land.yaml on the way, and nothing else.
    for name in ("arrive.yaml", "tidy.yaml", "landed.py"):
        assert (folder / name).read_text() == (EXAMPLES / name).read_text()
    refused("demo", "--folder", str(folder), saying="is not empty; the demo wants a new one", by=shared)

    # The Hudi tables that it leaves are there to ask about.
    table = next(folder.rglob(".hoodie")).parent
    read = printed("hudi explain", str(table), by=shared)
    assert (Path(read["table"]).name, read["uses_v2"]) == (table.name, True)
    assert "V1 (FileScan), since " in told("hudi explain", str(table), "--v1", by=shared)
    settings = printed("hudi settings", by=shared)
    assert "HoodieSparkSessionExtension" in settings["spark.sql.extensions"]
    assert told("hudi settings", by=shared).startswith("setting\tvalue\nspark.")


@pytest.mark.full  # its parts are in the tutorial's pipeline, which runs on this line by default
@pytest.mark.once_last
def test_the_story_is_told_without_hudi(spark: Any, stack: Stack, tmp_path: Path) -> None:
    if stack.hudi is not None:
        pytest.skip("this Spark has Hudi, and the demo tells it")
    lines: list[str] = []
    copy_pipelines(tmp_path)
    stage = Stage(tmp_path, connect(warehouse=tmp_path / "lakehouse", spark=spark), lines.append, lambda *table: None)
    for title, chapter in chapters(stack.available_formats()):
        lines.append(title)
        chapter(stage)
    text = "\n".join(lines)
    assert "this Spark has no Hudi" in text
    assert "fare: the table has double, the input string" in text
    assert "int to long" not in text  # which this Delta can do
    assert "checked: commits that the refused run made = 0" in text
