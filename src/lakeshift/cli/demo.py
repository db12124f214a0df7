"""``lakeshift demo``: the tour on a terminal."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import click

from lakeshift.cli.options import output_options, settings
from lakeshift.cli.output import emit, say, show_table
from lakeshift.cli.quiet import quiet_jvm
from lakeshift.demo.layout import report_path
from lakeshift.demo.pipelines import copy_pipelines
from lakeshift.demo.story import Stage, chapters
from lakeshift.errors import ConfigError
from lakeshift.lake import connect

# Spark and Delta spread work over 200 and 50 tasks by default; the tour's tables have a few hundred rows.
_FEW_TASKS = {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "2"}

# For a JVM that lives for a minute and sees each query once: the second compiler's work would never pay.
# The first one alone has room for 48 MB of code by default, and would compile most of Spark's again and again.
_SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xmn256m"


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), help="Where to build the lake; kept. Default: a new folder.")
@click.option("--open", "open_it", is_flag=True, help="Open the report in a browser at the end.")
@output_options
def demo(folder: Path | None, open_it: bool) -> None:
    """Run the tour: trips go through Hudi, Delta and Iceberg tables that evolve; each chapter is checked."""
    folder = (folder or Path(tempfile.mkdtemp(prefix="lakeshift-demo-"))).absolute()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; the demo wants a new folder.")
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"The folder {folder} is not empty; the demo wants a new one.")
    lake = connect(warehouse=folder / "lakehouse")
    told: list[str] = []

    def speak(text: str) -> None:
        told.append(text)
        if not settings.json:
            say(f"  {text}", style="bold" if text.startswith("$ ") else "")

    def show(columns: list[str], rows: list[list[object]]) -> None:
        if not settings.json:
            show_table(columns, rows)

    os.environ.setdefault("SPARK_SUBMIT_OPTS", _SHORT_LIVED_JVM)
    speak(f"Spark {lake.stack.line} is starting; everything happens in {folder}")
    with quiet_jvm():
        lake.spark.sparkContext.setLogLevel("ERROR")
    for name, tasks in _FEW_TASKS.items():
        lake.spark.conf.set(name, tasks)
    copy_pipelines(folder)
    stage = Stage(folder, lake, speak, show)
    done = []
    for number, (title, chapter) in enumerate(chapters(lake.stack.available_formats()), 1):
        if not settings.json:
            say(f"\n{number}. {title}", style="bold")
        start = time.perf_counter()
        told.clear()
        chapter(stage)
        done.append({"title": title, "seconds": round(time.perf_counter() - start, 1), "told": list(told)})
    page = report_path(folder)
    emit({"folder": str(folder), "report": str(page), "chapters": done}, lambda: _finish(folder, page))
    if open_it and click.launch(str(page)) != 0:
        click.echo(f"No program was found that opens pages (xdg-open); open it yourself: {page}", err=True)


def _finish(folder: Path, page: Path) -> None:
    say(f"\nAll checks passed. Look at the report: {page}")
    say(f"The pipeline files that were run are in {folder}, and the lake is in {folder / 'lakehouse'}:")
    program = "lakeshift" if shutil.which("lakeshift") else sys.argv[0]  # `make demo` runs one that is on no path
    say(f"  {program} table show demo.trips --warehouse {folder / 'lakehouse'}")
