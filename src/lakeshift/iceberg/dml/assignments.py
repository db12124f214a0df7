"""Assignments to a table's columns: who may be assigned to, and how values become the column's without loss.

A value is stored as `INSERT` would store it, but never with a loss: what append refuses, an assignment refuses too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType

from lakeshift.errors import ConfigError, SchemaMismatchError
from lakeshift.iceberg.dml.failures import MISFIT, MISFIT_END, sql_errors
from lakeshift.iceberg.dml.run import spark_schema
from lakeshift.iceberg.value_casts import Certainty, find_cast
from lakeshift.spark.frames import check_expression

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

ACTION = "__lakeshift_action"
_VALUE = "__lakeshift_value_"


@dataclass(frozen=True)
class Assignments:
    """Expressions by the names of the table's top-level columns, as the schema spells them."""

    values: Mapping[str, str | Column]

    @classmethod
    def of(cls, given: Mapping[str, Any], schema: Schema, *, case_sensitive: bool, what: str) -> Assignments:
        """Assignments, checked: each names one top-level column of the table, and none does so twice."""
        if not isinstance(given, Mapping) or not given:
            raise ConfigError(
                f"{what} must map columns to expressions, such as {{'amount': 'amount + 1'}}, not {given!r}."
            )
        found: dict[str, Any] = {}
        for name, value in given.items():
            if not isinstance(name, str):
                raise ConfigError(f"{what} assigns to {name!r}; name the column by text.")
            column = _column(name, schema, case_sensitive, what)
            check_expression(value, f"What {what} assigns to {column!r}")
            if column in found:
                raise ConfigError(f"{what} assigns to column {column!r} twice: {', '.join(map(str, given))}.")
            found[column] = value
        return cls(found)


def _column(name: str, schema: Schema, case_sensitive: bool, what: str) -> str:
    plain = name[1:-1].replace("``", "`") if len(name) > 1 and name[0] == name[-1] == "`" else name
    there = [field.name for field in schema.fields]
    for text in (plain, plain.removeprefix("target.")):
        found = [known for known in there if known == text or (not case_sensitive and known.lower() == text.lower())]
        if len(found) == 1:
            return found[0]
        if found:
            raise ConfigError(f"{what} assigns to {name!r}, which is ambiguous: {', '.join(found)}.")
    top = plain.removeprefix("target.").split(".")[0]
    if any(known.lower() == top.lower() for known in there):
        raise ConfigError(
            f"{what} assigns to {name!r}, a field inside column {top!r}. Assign the whole column, for instance with "
            "named_struct(...) or Column.withField."
        )
    raise ConfigError(f"{what} assigns to {name!r}, which is no column of the table; there are: {', '.join(there)}.")


@dataclass(frozen=True)
class Case:
    """What the rows of one case become: every column's value; a column that is not there becomes null.

    ``number`` is what such rows have in the column `ACTION`.
    """

    number: int
    values: Mapping[str, str | Column]


def project(frame: DataFrame, schema: Schema, cases: Sequence[Case], what: str) -> DataFrame:
    """Rows of the table made from a frame's rows, each by its own case; a frame of one case needs no `ACTION`.

    Every column keeps its own type: a value is cast to it without loss, or is an error.
    """
    from pyspark.sql import functions

    raw: list[tuple[str, Case, str]] = []
    evaluated: list[Column] = []
    action = functions.col(ACTION) if len(cases) > 1 else None
    with sql_errors(what):
        for case in cases:
            for column, value in case.values.items():
                found = functions.expr(value) if isinstance(value, str) else value
                # An expression must not see rows that are not its own: it may fail on them.
                found = found if action is None else functions.when(action == case.number, found)
                raw.append((f"{_VALUE}{len(raw)}", case, column))
                evaluated.append(found.alias(raw[-1][0]))
        first = frame.select(*([] if action is None else [action]), *evaluated)
        came = {field.name: field.dataType for field in first.schema.fields}
    wanted = spark_schema(schema)
    problems: list[str] = []
    fitted: dict[str, dict[int, Column]] = {}
    for name, case, column in raw:
        kind, field = wanted[column].dataType, schema.find_field(column)
        text = _fitted(name, came[name], kind, field, problems)
        fitted.setdefault(column, {})[case.number] = functions.expr(text)
    if problems:
        listed = "\n".join(f"- {problem}" for problem in dict.fromkeys(problems))
        raise SchemaMismatchError(f"{what} assigns values that do not fit; nothing was written:\n{listed}")
    selected = []
    for column in wanted.fields:
        values = fitted.get(column.name, {})
        made = functions.lit(None).cast(column.dataType)
        for number, value in values.items():
            made = value if action is None else functions.when(action == number, value).otherwise(made)
        selected.append(made.alias(column.name))
    return first.select(*selected)


def check_values(frame: DataFrame, case: Case, what: str) -> None:
    """Raise a ConfigError unless each value is one for each row, made of that row alone.

    Spark would select others as well: an aggregate turns many rows into one, a generator one into many.
    """
    from pyspark.sql import functions

    columns = [functions.expr(value) if isinstance(value, str) else value for value in case.values.values()]
    try:
        # Where such expressions cannot be meant, in a filter, Spark itself refuses them.
        with sql_errors(what):
            frame.filter(functions.coalesce(*(column.isNull() for column in columns))).schema  # noqa: B018 - analyses it
    except ConfigError as error:
        raise ConfigError(
            f"{what} assigns a value that is not made of the row alone. Aggregates, windows and generators such as "
            f"explode cannot be assigned: compute them in a frame, and merge that. {error}"
        ) from error


def _fitted(name: str, came: DataType, wanted: DataType, field: NestedField, problems: list[str]) -> str:
    """SQL that makes a column's value of one that came, and raises where that would lose something."""
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import NullType

    kind = wanted.simpleString()
    if came.simpleString() == kind:
        return name
    if isinstance(came, NullType):
        return f"cast({name} as {kind})"
    cast = find_cast(to_arrow_type(came), field.field_type) if isinstance(field.field_type, PrimitiveType) else None
    if cast is None:
        problems.append(
            f"column {field.name!r} is of type {field.field_type}, the value of type {came.simpleString()}, and no "
            f"cast between them keeps every value. Cast it yourself to {kind}, as you want it done."
        )
        return name
    if cast.certainty is Certainty.SAFE:
        return f"cast({name} as {kind})"
    quoted = field.name.replace("\\", "\\\\").replace("'", "\\'")
    misfit = f"' does not fit column {quoted} ({kind}) without loss.{MISFIT_END}'"
    message = f"concat('{MISFIT}the value ', string({name}), {misfit})"
    back = f"try_cast(try_cast({name} as {kind}) as {came.simpleString()})"
    fits = f"{name} is null or {back} = {name}"
    return f"case when {fits} then try_cast({name} as {kind}) else raise_error({message}) end"
