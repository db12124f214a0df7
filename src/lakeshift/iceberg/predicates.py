"""Conditions in Spark SQL as Iceberg expressions, and what part of them only Spark can decide.

Two strengths matter. ``pushed`` follows from the condition, so that it is always safe to leave out what it
excludes. Only where ``exact`` is true does it also imply the condition: then no row that it takes, by
`lakeshift.iceberg.row_filter`, is one for which the condition is not true to Spark.

SQL knows three truths. Every part is translated to where it is true, where it is false and where it is null, so
that NOT is an exchange and never a negation that would let nulls through. No Spark here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.expressions.literals import Literal
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, IntegerType, StringType, UUIDType

from lakeshift.errors import ConfigError
from lakeshift.iceberg import predicate_parts as parts
from lakeshift.iceberg.predicate_columns import Column, Names, name_parts, needed_columns
from lakeshift.iceberg.predicate_parts import Parts
from lakeshift.iceberg.predicate_values import Kind, SqlValue, fit, read_literal

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True)
class Translation:
    """A condition as an Iceberg expression.

    ``pushed`` names columns as the schema does, so it binds with case. ``remainder`` holds the conjuncts that
    ``pushed`` does not say exactly, as SQL for people: what Spark runs must be the original text. It is empty if
    and only if ``exact``. ``columns`` are the top-level columns that the whole condition needs, all of them where
    that cannot be told.
    """

    pushed: BooleanExpression
    exact: bool
    remainder: tuple[str, ...]
    columns: tuple[str, ...]


def translate(
    where: str, schema: Schema, *, case_sensitive: bool = False, session_time_zone: str | None = None
) -> Translation:
    """Translate a condition on rows of a schema.

    ``case_sensitive`` is Spark's ``spark.sql.caseSensitive``, ``session_time_zone`` its
    ``spark.sql.session.timeZone``; without the latter, times without a zone are left to Spark. A name that no
    column has, or several, is a ConfigError. Text that cannot be parsed here is left to Spark whole.
    """
    everything = tuple(field.name for field in schema.fields)
    condition, strings = _parse(where)
    if condition is None:
        return Translation(AlwaysTrue(), False, (where,), everything)
    names = Names(schema, case_sensitive)
    # By its settings Spark takes what is in double quotes for names, and reads escapes in one way or another.
    all_strings = not any(text.startswith('"') for text in strings)
    needed = needed_columns(condition, names) if all_strings else None
    plain_strings = all_strings and not any("\\" in text for text in strings)
    translator = _Translator(names, session_time_zone, plain_strings)
    pushed: BooleanExpression = AlwaysTrue()
    remainder = []
    for conjunct in _conjuncts(condition):
        found = translator.parts(conjunct)
        pushed = And(pushed, found.true)
        if not found.exact:
            remainder.append(conjunct.sql(dialect="spark"))
    columns = everything if needed is None else tuple(name for name in everything if name in needed)
    return Translation(pushed, not remainder, tuple(remainder), columns)


def _parse(where: str) -> tuple[exp.Expr | None, list[str]]:
    """The condition's tree, None if only Spark may know it; and its strings as they are written."""
    import sqlglot
    from sqlglot import exp

    if not isinstance(where, str) or not where.strip():
        raise ConfigError(f"A condition must be Spark SQL such as \"region = 'eu' AND amount < 0\", not {where!r}.")
    try:
        tokens = sqlglot.tokenize(where, read="spark")
        parsed = sqlglot.parse_one(where, into=exp.Condition, read="spark")
    except sqlglot.errors.SqlglotError:
        return None, []
    return parsed, [where[token.start : token.end + 1] for token in tokens if token.token_type.name == "STRING"]


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    from sqlglot import exp

    if isinstance(node, exp.Paren) and isinstance(node.this, (exp.And, exp.Paren)):
        yield from _conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "NEQ": operator.ne,
    "LT": operator.lt,
    "LTE": operator.le,
    "GT": operator.gt,
    "GTE": operator.ge,
}
_MIRRORED = {"EQ": "EQ", "NEQ": "NEQ", "LT": "GT", "LTE": "GTE", "GT": "LT", "GTE": "LTE"}


class _Translator:
    """Translates each part of a condition by its form; what has no case here is Spark's to decide."""

    def __init__(self, names: Names, session_time_zone: str | None, trust_strings: bool) -> None:
        self._names = names
        self._session_time_zone = session_time_zone
        self._trust_strings = trust_strings

    def parts(self, node: exp.Expr) -> Parts:
        from sqlglot import exp

        match node:
            case exp.Paren():
                return self.parts(node.this)
            case exp.Not():
                return self.parts(node.this).swapped()
            case exp.And():
                return parts.both(self.parts(node.this), self.parts(node.expression))
            case exp.Or():
                return parts.either(self.parts(node.this), self.parts(node.expression))
            case exp.Boolean():
                return parts.ALWAYS if node.this else parts.ALWAYS.swapped()
            case exp.Null():
                return parts.NULL
            case exp.Column() | exp.Dot():
                column = self._column(node)
                return parts.boolean(column) if column and isinstance(column.kind, BooleanType) else parts.UNKNOWN
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self._comparison(type(node).__name__, node.this, node.expression)
            case exp.Between() if not node.args.get("symmetric"):
                low = self._comparison("GTE", node.this, node.args["low"])
                return parts.both(low, self._comparison("LTE", node.this, node.args["high"]))
            case exp.NullSafeEQ():
                return self._null_safe(node.this, node.expression)
            case exp.NullSafeNEQ():
                return self._null_safe(node.this, node.expression).swapped()
            case exp.Is():
                return self._is(node)
            case _:
                return self._membership(node)

    def _membership(self, node: exp.Expr) -> Parts:
        from sqlglot import exp

        match node:
            case exp.In() if node.expressions and not node.args.get("query"):
                return self._in(node)
            case exp.Like():
                found = self._like(node)
                return found.swapped() if node.args.get("negate") else found
            case exp.StartsWith():
                column, prefix = self._text(node.this, node.expression)
                return parts.UNKNOWN if column is None else parts.starts_with(column, prefix)
            case exp.IsNan():
                column = self._column(node.this)
                # isnan(null) is false, not null.
                known = column is not None and column.is_floating
                return parts.is_true(parts.compare_with_nan("EQ", column)) if column and known else parts.UNKNOWN
            case exp.Anonymous() if len(node.expressions) == 1 and node.name.lower() in ("isnull", "isnotnull"):
                found = self._null_test(node.expressions[0])
                return found if node.name.lower() == "isnull" else found.swapped()
            case _:
                return parts.UNKNOWN

    def _column(self, node: exp.Expr) -> Column | None:
        from sqlglot import exp

        while isinstance(node, exp.Paren):
            node = node.this
        name = name_parts(node)
        return None if name is None else self._names.find(name)

    def _literal(self, node: exp.Expr) -> SqlValue | None:
        return read_literal(node, trust_strings=self._trust_strings)

    def _fit(self, value: SqlValue, column: Column, *, in_list: bool = False) -> Literal[Any] | None:
        return fit(value, column.kind, self._session_time_zone, in_list=in_list)

    def _comparison(self, name: str, left: exp.Expr, right: exp.Expr) -> Parts:
        column, value = self._column(left), self._literal(right)
        if column is None or value is None:
            column, value, name = self._column(right), self._literal(left), _MIRRORED[name]
        if column is None or value is None:
            return parts.UNKNOWN
        if value.kind is Kind.NULL:
            return parts.NULL
        if value.kind is Kind.DOUBLE and math.isnan(value.value):
            return parts.compare_with_nan(name, column) if column.is_floating else parts.UNKNOWN
        found = self._fit(value, column)
        # The order of booleans and UUIDs is not the same everywhere.
        if found is None or (name not in ("EQ", "NEQ") and isinstance(column.kind, (BooleanType, UUIDType))):
            return parts.UNKNOWN
        if _beyond(found, column):
            # Every number of the column lies on the same side.
            return parts.constant(_OPERATORS[name](0, found.value), column)
        return parts.compare(name, column, found)

    def _null_safe(self, left: exp.Expr, right: exp.Expr) -> Parts:
        if self._column(left) is None:
            left, right = right, left
        column, value = self._column(left), self._literal(right)
        if column is None or value is None:
            return parts.UNKNOWN
        if value.kind is Kind.NULL:
            return parts.column_is_null(column)
        return parts.is_true(self._comparison("EQ", left, right))

    def _in(self, node: exp.In) -> Parts:
        column = self._column(node.this)
        values = [self._literal(item) for item in node.expressions]
        present = [value for value in values if value is not None]
        if column is None or len(present) < len(values):
            return parts.UNKNOWN
        fitted = [self._fit(value, column, in_list=True) for value in present if value.kind is not Kind.NULL]
        known = [found for found in fitted if found is not None]
        if len(known) < len(fitted):
            return parts.UNKNOWN
        within = [found for found in known if not _beyond(found, column)]
        return parts.is_in(column, within, with_null=len(fitted) < len(values))

    def _is(self, node: exp.Is) -> Parts:
        from sqlglot import exp

        if isinstance(node.expression, exp.Null):
            return self._null_test(node.this)
        if isinstance(node.expression, exp.Boolean):
            found = self.parts(node.this)
            return parts.is_true(found if node.expression.this else found.swapped())
        return parts.UNKNOWN

    def _null_test(self, node: exp.Expr) -> Parts:
        column = self._column(node)
        return parts.is_null(self.parts(node)) if column is None else parts.column_is_null(column)

    def _like(self, node: exp.Like) -> Parts:
        column, pattern = self._text(node.this, node.expression)
        prefix = pattern.removesuffix("%")
        if column is None or any(special in prefix for special in "%_\\"):
            return parts.UNKNOWN
        if prefix == pattern:
            return self._comparison("EQ", node.this, node.expression)
        return parts.starts_with(column, prefix)

    def _text(self, left: exp.Expr, right: exp.Expr) -> tuple[Column | None, str]:
        """A text column and a string."""
        column, value = self._column(left), self._literal(right)
        if column is None or value is None or value.kind is not Kind.STRING or not isinstance(column.kind, StringType):
            return None, ""
        return column, value.value


def _beyond(value: Literal[Any], column: Column) -> bool:
    """Whether no value of the column can be as large, or as small, as a number."""
    return isinstance(column.kind, IntegerType) and not -(2**31) <= value.value < 2**31
