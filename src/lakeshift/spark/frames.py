"""What a frame and its session tell about themselves, asked in ways that also work on Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeshift.errors import ConfigError, SchemaMismatchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CORES_UNKNOWN = 8


def arrow_schema_of(frame: DataFrame) -> pa.Schema:
    """The frame's columns as Arrow will hand them to a kernel, timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_type

    fields = []
    for column in frame.schema.fields:
        try:
            fields.append(pa.field(column.name, to_arrow_type(column.dataType), column.nullable))
        except Exception as error:  # PySpark has an error class a version for this
            raise SchemaMismatchError(
                f"Column {column.name!r} is of Spark's type {column.dataType.simpleString()}, which no table column "
                "can hold. Cast or drop it."
            ) from error
    return pa.schema(fields)


def analyse(frame: DataFrame) -> None:
    """Have Spark find now what is wrong with a frame: on Spark Connect it would wait for the first query."""
    frame.schema  # noqa: B018 - asking for it is what makes Spark analyse it


def quoted(name: str) -> str:
    """A name as Spark SQL takes it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def check_expression(value: Any, what: str) -> None:
    """Raise a ConfigError unless a value is what Spark can evaluate: SQL text, or a Column of any of its kinds."""
    if not isinstance(value, str) and not any(kind.__name__ == "Column" for kind in type(value).__mro__):
        raise ConfigError(
            f"{what} is {value!r}, of type {type(value).__name__}; it must be Spark SQL text, such as 'amount > 5' or "
            "'5', or a Spark Column, such as lit(5)."
        )


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether the session tells names apart by case."""
    return str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def cores_of(spark: SparkSession) -> int:
    """How many tasks can run at once, as far as the session tells."""
    try:
        return spark.sparkContext.defaultParallelism
    except Exception:  # Spark Connect has no context
        return _CORES_UNKNOWN
