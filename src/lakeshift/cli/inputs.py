"""What commands that write have in common: files as a Spark frame, a quiet session, a bar while they work."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from lakeshift.cli.options import settings
from lakeshift.cli.output import console, on_terminal
from lakeshift.cli.quiet import quiet_jvm
from lakeshift.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeshift.lake import Lake
    from lakeshift.spark.progress import Progress

FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".orc": "orc"}


def format_option(*more: str) -> Callable[[Any], Any]:
    """``--format``, for input whose extension does not tell it; ``more`` are formats that have no extension."""
    return click.option(
        "--format",
        "input_format",
        type=click.Choice([*sorted(set(FORMATS.values())), *more]),
        help="The input's format. Default: by the file's extension, else parquet.",
    )


@contextmanager
def quiet_session(lake: Lake) -> Iterator[SparkSession]:
    """The lake's session, without Spark's own log unless ``--debug`` asks for it."""
    if settings.debug:
        yield lake.spark
        return
    with quiet_jvm():
        lake.spark.sparkContext.setLogLevel("ERROR")
    _quiet_pyspark()
    yield lake.spark


def _quiet_pyspark() -> None:
    """Keep PySpark from printing every error of a query, with the JVM's trace, before we tell it."""
    with suppress(ImportError):  # PySpark 3.5 does not do that
        logger = importlib.import_module("pyspark.logger").PySparkLogger
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logger.getLogger(name).setLevel(logging.CRITICAL)


def read_input(
    spark: SparkSession, paths: Sequence[str], input_format: str | None, schema: str | None = None
) -> DataFrame:
    """Files as a frame. CSV and JSON take the types of ``schema`` where given, else those that Spark infers."""
    found = {input_format or FORMATS.get(PurePath(path).suffix.lower(), "parquet") for path in paths}
    if len(found) > 1:
        raise ConfigError(
            f"The inputs are of several formats ({', '.join(sorted(found))}); give --format, or one kind."
        )
    [chosen] = found
    reader = spark.read.format(chosen)
    if chosen == "csv":
        reader = reader.option("header", "true").option("inferSchema", "false" if schema else "true")
    if schema:
        # A value that does not fit its type stops the command; Spark alone would make null of it.
        reader = reader.schema(schema).option("mode", "FAILFAST")
    try:
        return reader.load(list(paths))
    except Exception as error:  # of PySpark, under another name in each version
        what = str(error).splitlines()[0]
        raise ConfigError(f"Cannot read {', '.join(paths)} as {chosen}: {what} Check the path and --format.") from error


@contextmanager
def progress_bar(title: str) -> Iterator[Progress | None]:
    """A bar over the tasks of a job, on a terminal; nothing when piped or when JSON was asked for."""
    if settings.json or not on_terminal():
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
