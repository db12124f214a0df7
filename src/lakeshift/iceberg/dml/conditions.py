"""Conditions of DELETE and UPDATE: what of them prunes files, and whether kernels can decide them without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from lakeshift.errors import ConfigError
from lakeshift.iceberg.dml.failures import sql_errors
from lakeshift.iceberg.dml.run import Run, spark_schema
from lakeshift.iceberg.predicates import translate
from lakeshift.spark.frames import analyse, check_expression, is_case_sensitive

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Condition:
    """A condition on the table's rows.

    ``pushed`` follows from it, and if ``exact`` is the same. ``columns`` are the top-level columns it needs.
    """

    original: str | Column
    pushed: BooleanExpression
    exact: bool
    columns: tuple[str, ...]


def read_condition(run: Run, where: str | Column) -> Condition:
    """A condition, checked: unknown columns and non-deterministic expressions are errors before anything runs."""
    check_expression(where, "The condition")
    schema = run.table.schema()
    if isinstance(where, str):
        found = translate(
            where,
            schema,
            case_sensitive=is_case_sensitive(run.spark),
            session_time_zone=run.spark.conf.get("spark.sql.session.timeZone"),
        )
        condition = Condition(where, found.pushed, found.exact, found.columns)
    else:
        condition = Condition(where, AlwaysTrue(), False, tuple(member.name for member in schema.fields))
    if not condition.exact:
        empty = run.spark.createDataFrame([], spark_schema(schema))
        check_condition(empty, condition.original, "the condition")
    return condition


def check_condition(frame: DataFrame, condition: str | Column, what: str) -> None:
    """Raise a ConfigError unless Spark can evaluate a condition on a frame's rows, each time alike."""
    from pyspark.sql import functions

    check_expression(condition, what)
    text = f"{what} {str(condition)!r}"
    with sql_errors(text):
        analyse(frame.filter(condition))
    column = functions.expr(condition) if isinstance(condition, str) else condition
    try:
        # Spark itself refuses what is not deterministic as a condition of a join.
        analyse(frame.join(frame.sparkSession.range(1).toDF("__lakeshift_one"), column, "left_semi"))
    except Exception as error:
        if "NON_DETERMINISTIC" not in str(error).upper().replace("NONDETERMINISTIC", "NON_DETERMINISTIC"):
            return
        raise ConfigError(
            f"{text} is not deterministic: which rows it is true for would change from one evaluation to the next. "
            "Write what it draws into a column first."
        ) from error
