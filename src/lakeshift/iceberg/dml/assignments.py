"""Assignments to a table's columns: who may be assigned to, and how values become the column's without loss.

A value is stored as `INSERT` would store it, but never with a loss: what append refuses, an assignment refuses too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType

from lakeshift.errors import ConfigError, SchemaMismatchError
from lakeshift.iceberg.dml.failures import MISFIT, MISFIT_END, sql_errors
from lakeshift.iceberg.dml.run import spark_schema
from lakeshift.iceberg.value_casts import Certainty, find_cast
from lakeshift.spark.frames import analyse, check_expression, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

ACTION = "__lakeshift_action"
_VALUE = "__lakeshift_value_"
_NULL = "__lakeshift_null_"


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
    """What the rows of one case become: the values of columns; a column that is not there becomes null.

    ``kept`` are columns that stay as they are, each by the SQL that names it in the frame. ``number`` is what such rows
    have in the column `ACTION`.
    """

    number: int
    values: Mapping[str, str | Column]
    kept: Mapping[str, str] = field(default_factory=dict)


def project(frame: DataFrame, schema: Schema, cases: Sequence[Case], what: str) -> DataFrame:
    """Rows of the table made from a frame's rows, each by its own case; a frame of one case needs no `ACTION`.

    Every column keeps its own type: a value is cast to it without loss, or is an error.
    """
    from pyspark.sql import functions

    several = len(cases) > 1
    wanted = spark_schema(schema).fields
    with sql_errors(what):
        values = _values(cases, several=several)
        nulls = [
            functions.lit(None).cast(member.dataType).alias(f"{_NULL}{number}")
            for number, member in enumerate(wanted)
            if not any(member.name in case.values or member.name in case.kept for case in cases)
        ]
        evaluated = frame.select("*", *(value.column for value in values), *nulls)
        fitted = _fitted_values(values, evaluated, schema, what)
    made: dict[str, dict[int, str]] = {}
    for case in cases:
        for name, own in case.kept.items():
            made.setdefault(name, {})[case.number] = own
    for value in values:
        made.setdefault(value.target, {})[value.case] = fitted[value.name]
    # As one text a column: a Column that is built call by call crosses into the JVM with each of them.
    texts = [
        _chosen(made[member.name], several=several) if member.name in made else f"{_NULL}{number}"
        for number, member in enumerate(wanted)
    ]
    return evaluated.selectExpr(
        *(f"{text} AS {quoted(member.name)}" for text, member in zip(texts, wanted, strict=True))
    )


def check_case(frame: DataFrame, schema: Schema, case: Case, what: str) -> None:
    """Raise an error unless each value fits its column, and is one for each row, made of that row alone.

    Spark would select others as well: an aggregate turns many rows into one, a generator one into many.
    """
    from pyspark.sql import functions

    with sql_errors(what):
        values = _values([case], several=False)
        _fitted_values(values, frame.select(*(value.column for value in values)), schema, what)
    try:
        # Where such expressions cannot be meant, in a filter, Spark itself refuses them.
        with sql_errors(what):
            analyse(frame.filter(functions.coalesce(*(value.column.isNull() for value in values))))
    except ConfigError as error:
        raise ConfigError(
            f"{what} assigns a value that is not made of the row alone. Aggregates, windows and generators such as "
            f"explode cannot be assigned: compute them in a frame, and merge that. {error}"
        ) from error


@dataclass(frozen=True)
class _Value:
    """What a case assigns to a column, as the column ``name`` of a frame."""

    name: str
    case: int
    target: str
    column: Column


def _values(cases: Sequence[Case], *, several: bool) -> list[_Value]:
    from pyspark.sql import functions

    found: list[_Value] = []
    for case in cases:
        for target, value in case.values.items():
            column = functions.expr(value) if isinstance(value, str) else value
            # An expression must not see rows that are not its own: it may fail on them.
            column = functions.when(functions.col(ACTION) == case.number, column) if several else column
            name = f"{_VALUE}{len(found)}"
            found.append(_Value(name, case.number, target, column.alias(name)))
    return found


def _fitted_values(values: Sequence[_Value], evaluated: DataFrame, schema: Schema, what: str) -> dict[str, str]:
    """SQL that makes the column's value of each that a frame has, or a SchemaMismatchError that names the misfits."""
    came = {member.name: member.dataType for member in evaluated.schema.fields}
    wanted = spark_schema(schema)
    problems: list[str] = []
    fitted = {
        value.name: _fitted(
            value.name, came[value.name], wanted[value.target].dataType, schema.find_field(value.target), problems
        )
        for value in values
    }
    if problems:
        listed = "\n".join(f"- {problem}" for problem in dict.fromkeys(problems))
        raise SchemaMismatchError(f"{what} assigns values that do not fit; nothing was written:\n{listed}")
    return fitted


def _chosen(by_case: Mapping[int, str], *, several: bool) -> str:
    """SQL that takes the value of a row's own case; null where that has none."""
    if not several:
        return next(iter(by_case.values()))
    cases = " ".join(f"WHEN {ACTION} = {number} THEN {value}" for number, value in by_case.items())
    return f"CASE {cases} END"


def _fitted(name: str, came: DataType, wanted: DataType, column: NestedField, problems: list[str]) -> str:
    """SQL that makes a column's value of one that came, and raises where that would lose something."""
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import NullType

    kind = wanted.simpleString()
    if came.simpleString() == kind:
        return name
    if isinstance(came, NullType):
        return f"cast({name} as {kind})"
    cast = find_cast(to_arrow_type(came), column.field_type) if isinstance(column.field_type, PrimitiveType) else None
    if cast is None:
        problems.append(
            f"column {column.name!r} is of type {column.field_type}, the value of type {came.simpleString()}, and no "
            f"cast between them keeps every value. Cast it yourself to {kind}, as you want it done."
        )
        return name
    if cast.certainty is Certainty.SAFE:
        return f"cast({name} as {kind})"
    shown = column.name.replace("\\", "\\\\").replace("'", "\\'")
    misfit = f"' does not fit column {shown} ({kind}) without loss.{MISFIT_END}'"
    message = f"concat('{MISFIT}the value ', string({name}), {misfit})"
    back = f"try_cast(try_cast({name} as {kind}) as {came.simpleString()})"
    fits = f"{name} is null or {back} = {name}"
    return f"case when {fits} then try_cast({name} as {kind}) else raise_error({message}) end"
