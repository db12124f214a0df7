"""``lakeshift demo``: the tour on a terminal."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import click

from lakeshift.cli.options import output_options, settings
from lakeshift.cli.output import emit, say, show_table
from lakeshift.cli.quiet import quiet_jvm
from lakeshift.demo.story import Stage, chapters
from lakeshift.errors import ConfigError
from lakeshift.lake import connect

# Spark and Delta spread work over 200 and 50 tasks by default; the tour's tables have a few hundred rows.
_FEW_TASKS = {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "2"}


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), help="Where to build the lake; kept. Default: a new folder.")
@output_options
def demo(folder: Path | None) -> None:
    """Run the tour: a lake that evolves, chapter by chapter, each checked by an independent read."""
    folder = (folder or Path(tempfile.mkdtemp(prefix="lakeshift-demo-"))).absolute()
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"The folder {folder} is not empty; the demo wants a new one.")
    lake = connect(warehouse=folder / "lakehouse")
    told: list[str] = []

    def speak(text: str) -> None:
        told.append(text)
        if not settings.json:
            say(f"  {text}")

    def show(columns: list[str], rows: list[list[object]]) -> None:
        if not settings.json:
            show_table(columns, rows)

    speak(f"Spark {lake.stack.line} is starting")
    with quiet_jvm():
        lake.spark.sparkContext.setLogLevel("ERROR")
    for name, tasks in _FEW_TASKS.items():
        lake.spark.conf.set(name, tasks)
    stage = Stage(folder, lake, speak, show)
    done = []
    try:
        for number, (title, chapter) in enumerate(chapters(lake.stack.available_formats()), 1):
            if not settings.json:
                say(f"{number}. {title}", style="bold")
            start = time.perf_counter()
            told.clear()
            chapter(stage)
            done.append({"title": title, "seconds": round(time.perf_counter() - start, 1), "told": list(told)})
    finally:
        with quiet_jvm():
            lake.spark.stop()
    emit(
        {"folder": str(folder), "chapters": done},
        lambda: say(f"All checks passed. The lake is in {folder}: lakeshift table list --warehouse {folder}/lakehouse"),
    )
