"""Inputs and transforms as named frames, which SQL sees as temporary views while the run lasts."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeshift.errors import ConfigError
from lakeshift.pipeline.inputs import open_input
from lakeshift.pipeline.model import Pipeline, Transform
from lakeshift.pipeline.streams import ARRIVED, StreamPosition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeshift.lake import Lake


# An incremental read through Hudi's own source switches this off in the session, and leaves it so.
_VECTORIZED = "spark.sql.parquet.enableVectorizedReader"


@dataclass
class Frames:
    """All frames of a run by name, and the pins of its inputs."""

    by_name: dict[str, DataFrame] = field(default_factory=dict)
    pins: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def arrived(self) -> dict[str, int]:
        """How many files or commits are new, by input that is a stream."""
        return {name: pin[ARRIVED] for name, pin in self.pins.items() if ARRIVED in pin}

    @property
    def nothing_new(self) -> bool:
        """Whether there are streams, and nothing has arrived on any of them: then there is nothing to do."""
        return bool(self.arrived) and not any(self.arrived.values())


@contextmanager
def open_frames(
    lake: Lake, base: Path, model: Pipeline, pinned: Mapping[str, Any], reached: Mapping[str, StreamPosition]
) -> Iterator[Frames]:
    """The frames of a pipeline; those of inputs only, if nothing is new on its streams.

    ``pinned`` is what a run that goes on saw when it began, ``reached`` how far streams were read before. Nothing is
    evaluated; the views and cached rows are gone afterwards.
    """
    spark = lake.spark
    frames, cached = Frames(), []
    vectorized = spark.conf.get(_VECTORIZED)
    try:
        for name, read in model.read.items():
            opened = open_input(lake, base, name, read, pinned.get(name), reached.get(name))
            frames.pins[name] = opened.pin
            _add(frames, name, opened.frame)
        for name, step in () if frames.nothing_new else model.transform.items():
            frame = _by_sql(spark, name, step) if step.sql is not None else _by_python(base, name, step, frames.by_name)
            if step.cache:
                frame = frame.persist()
                cached.append(frame)
            _add(frames, name, frame)
        yield frames
    finally:
        for name in frames.by_name:
            spark.catalog.dropTempView(name)
        for frame in cached:
            frame.unpersist()
        if vectorized is not None:
            spark.conf.set(_VECTORIZED, vectorized)


def _add(frames: Frames, name: str, frame: DataFrame) -> None:
    if _is_temporary_view(frame.sparkSession, name):
        raise ConfigError(
            f"The session has a temporary view {name!r} already, which the pipeline would replace. Drop the view, or "
            "rename the step."
        )
    frame.createOrReplaceTempView(name)
    frames.by_name[name] = frame


def _is_temporary_view(spark: SparkSession, name: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return spark.catalog.getTable(name).isTemporary
    except AnalysisException:  # There is nothing of that name, or a table that cannot be loaded; no view hides it.
        return False


def _by_sql(spark: SparkSession, name: str, step: Transform) -> DataFrame:
    text = str(step.sql).strip().rstrip(";")
    try:
        # Inside of a query there can only be a query: a command that changes something is a syntax error here.
        return spark.sql(f"SELECT * FROM (\n{text}\n)")  # noqa: S608 - the text is the user's own
    except Exception as error:  # of PySpark, under another name in each version
        raise ConfigError(
            f"transform.{name}: Spark does not take this as a query: {_first_line(error)}. "
            "Names that can be used are inputs and the transforms above."
        ) from error


def _first_line(error: Exception) -> str:
    """What Spark says without the plan below it, with the lines of the user's text: the first one is ours."""
    line = str(error).strip().splitlines()[0].rstrip(" ;.")
    return re.sub(r"\bline (\d+)(,? pos)", lambda found: f"line {int(found[1]) - 1}{found[2]}", line)


def _by_python(base: Path, name: str, step: Transform, known: Mapping[str, DataFrame]) -> DataFrame:
    from pyspark.sql import DataFrame as ClassicFrame

    function = import_function(base, name, str(step.python))
    try:
        made = function(*(known[each] for each in step.inputs), **step.arguments)
    except Exception as error:
        raise ConfigError(f"transform.{name}: {step.python} failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, ClassicFrame) and not hasattr(made, "createOrReplaceTempView"):
        raise ConfigError(f"transform.{name}: {step.python} returned {type(made).__name__}, not a DataFrame.")
    frame: DataFrame = made
    return frame


def import_function(base: Path, name: str, path: str) -> Callable[..., Any]:
    """A function by its import path; modules beside the pipeline file are found too."""
    module, _, attribute = path.partition(":")
    folder = str(base)
    sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"transform.{name}: {path} cannot be imported: {error}. It is looked for in {folder} and among installed "
            "packages."
        ) from error
    finally:
        sys.path.remove(folder)
    if not callable(found):
        raise ConfigError(f"transform.{name}: the module {module} has no function {attribute!r}.")
    function: Callable[..., Any] = found
    return function
