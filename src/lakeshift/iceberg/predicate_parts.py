"""The three truths of SQL over Iceberg expressions: where a part of a condition is true, false and null.

Iceberg's negative predicates take null for a match and have no opinion on NaN; Spark's do neither. Whatever is
built here says it outright, so that it means the same to every evaluator. No SQL text comes in here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.expressions.literals import Literal

from lakeshift.iceberg.predicate_columns import Column


@dataclass(frozen=True)
class Parts:
    """Where a part of a condition is true, where false, and where null.

    Each follows from what it stands for; if ``exact``, each also implies it. ``null`` is None where nobody worked
    it out.
    """

    true: BooleanExpression
    false: BooleanExpression
    null: BooleanExpression | None = None
    exact: bool = True

    def swapped(self) -> Parts:
        """NOT."""
        return Parts(self.false, self.true, self.null, self.exact)


UNKNOWN = Parts(AlwaysTrue(), AlwaysTrue(), None, exact=False)
ALWAYS = Parts(AlwaysTrue(), AlwaysFalse(), AlwaysFalse())
NULL = Parts(AlwaysFalse(), AlwaysFalse(), AlwaysTrue())


def both(left: Parts, right: Parts) -> Parts:
    """AND."""
    null: BooleanExpression | None = None
    if left.null is not None and right.null is not None:
        null = Or(And(left.null, right.null), Or(And(left.null, right.true), And(left.true, right.null)))
    return Parts(And(left.true, right.true), Or(left.false, right.false), null, left.exact and right.exact)


def either(left: Parts, right: Parts) -> Parts:
    """OR, which is AND with true and false exchanged."""
    return both(left.swapped(), right.swapped()).swapped()


def is_true(parts: Parts) -> Parts:
    """IS TRUE: what is not true is false, null included."""
    if parts.null is None or not parts.exact:
        return Parts(parts.true, AlwaysTrue(), AlwaysFalse(), exact=False)
    return Parts(parts.true, Or(parts.false, parts.null), AlwaysFalse())


def is_null(parts: Parts) -> Parts:
    """IS NULL, of a condition."""
    if parts.null is None or not parts.exact:
        return UNKNOWN
    return Parts(parts.null, Or(parts.true, parts.false), AlwaysFalse())


def column_is_null(column: Column) -> Parts:
    """IS NULL, of a column."""
    if column.null_by_parent:
        return UNKNOWN
    return Parts(_on(IsNull, column), _on(NotNull, column), AlwaysFalse())


def constant(truth: bool, column: Column) -> Parts:
    """A comparison that comes out alike for every value of the column."""
    null = column_is_null(column)
    parts = Parts(null.false, AlwaysFalse(), null.true, null.exact)
    return parts if truth else parts.swapped()


def compare(name: str, column: Column, value: Literal[Any]) -> Parts:
    """A comparison with a number or text, by its name: EQ, NEQ, LT, LTE, GT or GTE."""
    when_true, when_false = _COMPARISONS[name]
    return _leaf(column, _compare(when_true, column, value), _compare(when_false, column, value))


def compare_with_nan(name: str, column: Column) -> Parts:
    """A comparison with NaN, which to Spark equals itself and is above every number."""
    nan, number = _on(IsNaN, column), _not_null(column, _on(NotNaN, column))
    match name:
        case "EQ" | "GTE":
            return _leaf(column, nan, number)
        case "NEQ" | "LT":
            return _leaf(column, number, nan)
        case _:
            return constant(name == "LTE", column)


def is_in(column: Column, values: Sequence[Literal[Any]], *, with_null: bool) -> Parts:
    """IN a list. With a null in it, what is not found is unknown, so that NOT IN is never true."""
    true = _on(In, column, list(values))
    if with_null:
        return Parts(true, AlwaysFalse())
    return _leaf(column, true, _not_null(column, _on(NotIn, column, list(values))))


def starts_with(column: Column, prefix: str) -> Parts:
    """LIKE 'prefix%'."""
    if not prefix:
        return constant(True, column)
    return _leaf(column, _on(StartsWith, column, prefix), _not_null(column, _on(NotStartsWith, column, prefix)))


def boolean(column: Column) -> Parts:
    """A boolean column as a condition."""
    return _leaf(column, _on(EqualTo, column, True), _on(EqualTo, column, False))


_COMPARISONS: dict[str, tuple[Any, Any]] = {
    "EQ": (EqualTo, NotEqualTo),
    "NEQ": (NotEqualTo, EqualTo),
    "LT": (LessThan, GreaterThanOrEqual),
    "LTE": (LessThanOrEqual, GreaterThan),
    "GT": (GreaterThan, LessThanOrEqual),
    "GTE": (GreaterThanOrEqual, LessThan),
}


def _leaf(column: Column, true: BooleanExpression, false: BooleanExpression) -> Parts:
    null = column_is_null(column)
    return Parts(true, false, null.true, null.exact)


def _compare(kind: Any, column: Column, value: Literal[Any]) -> BooleanExpression:
    compared = _on(kind, column, value)
    if kind is NotEqualTo:
        return _not_null(column, compared)
    if kind in (GreaterThan, GreaterThanOrEqual) and column.is_floating:
        return Or(compared, _on(IsNaN, column))
    return compared


def _not_null(column: Column, expression: BooleanExpression) -> BooleanExpression:
    return And(expression, _on(NotNull, column))


def _on(kind: Any, column: Column, *values: Any) -> BooleanExpression:
    # PyIceberg's models take their arguments by position, which the type checker does not know.
    expression: BooleanExpression = kind(column.name, *values)
    return expression
