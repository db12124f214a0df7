"""Files that hold rows, through Spark's readers: which there are, and what is in some of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakeshift.errors import ConfigError
from lakeshift.locations import canonical_location
from lakeshift.pipeline.paths import resolve
from lakeshift.pipeline.reads import FileRead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_GLOB = re.compile(r"[*?\[{]")


def open_files(spark: SparkSession, base: Path, read: FileRead) -> tuple[DataFrame, list[str]]:
    """All files that are there now."""
    frame = _reader(spark, read, read.schema_).load(_paths(base, read))
    return frame, _names(frame)


def list_files(spark: SparkSession, base: Path, read: FileRead) -> list[str]:
    """The names of the files that are there now, of which nothing is read. A pattern may match none."""
    found: list[str] = []
    for path in _paths(base, read):
        try:
            # Some schema, so that none is looked for inside of the files.
            found += _names(_reader(spark, read, read.schema_ or "none int").load(path))
        except Exception as error:
            if not (_GLOB.search(path) and "[PATH_NOT_FOUND]" in str(error)):
                raise
    return sorted(set(found))


def read_files(spark: SparkSession, base: Path, read: FileRead, files: Sequence[str]) -> DataFrame:
    """The rows of some of the files."""
    paths, reader = _paths(base, read), _reader(spark, read, read.schema_)
    if not files:
        return _no_rows(spark, base, read)
    folder = canonical_location(paths[0]).rstrip("/") + "/"
    if len(paths) == 1 and all(canonical_location(file).startswith(folder) for file in files):
        reader = reader.option("basePath", paths[0])  # Partition values in the names of folders count from there.
    return reader.load(list(files))


def _no_rows(spark: SparkSession, base: Path, read: FileRead) -> DataFrame:
    """A frame of the columns that the files have, as far as that can be told."""
    there = list_files(spark, base, read)
    if there:
        return read_files(spark, base, read, there).limit(0)
    if read.schema_ is None:
        raise ConfigError(
            f"there is no file yet at {', '.join(_paths(base, read))} to take the columns from. Give the input a "
            "schema, such as 'id bigint, ts timestamp'."
        )
    return spark.createDataFrame([], read.schema_)


def _reader(spark: SparkSession, read: FileRead, schema: str | None) -> DataFrameReader:
    reader: Any = spark.read.format(read.format)
    if read.format == "csv":
        reader = reader.option("header", "true").option("inferSchema", "false" if schema else "true")
    if schema:
        reader = reader.schema(schema)
        if read.format != "parquet":
            # A value that does not fit its type stops the run; Spark alone would make null of it.
            reader = reader.option("mode", "FAILFAST")
    options: DataFrameReader = reader.options(**read.options)
    return options


def _paths(base: Path, read: FileRead) -> list[str]:
    return [resolve(base, path) for path in read.paths]


def _names(frame: DataFrame) -> list[str]:
    # Spark gives addresses, in which a space is %20; a path has it as it is.
    return sorted(unquote(file) for file in frame.inputFiles())
