"""Bound filter expressions as people would write them. Only for showing: nothing parses this text."""

from __future__ import annotations

from typing import Any

from pyiceberg.expressions import BooleanExpression, BoundTerm
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, visit
from pyiceberg.transforms import IdentityTransform

_SHOWN_LITERALS = 10


def expression_text(bound: BooleanExpression) -> str:
    """A bound expression as text, such as ``ts_day >= 2026-01-01 and region = eu``."""
    return visit(bound, _Writer())


class _Writer(BoundBooleanExpressionVisitor[str]):
    def visit_true(self) -> str:
        return "true"

    def visit_false(self) -> str:
        return "false"

    def visit_not(self, child_result: str) -> str:
        return f"not ({child_result})"

    def visit_and(self, left_result: str, right_result: str) -> str:
        return f"{_wrapped(left_result)} and {_wrapped(right_result)}"

    def visit_or(self, left_result: str, right_result: str) -> str:
        return f"{left_result} or {right_result}"

    def visit_is_null(self, term: BoundTerm) -> str:
        return f"{_name(term)} is null"

    def visit_not_null(self, term: BoundTerm) -> str:
        return f"{_name(term)} is not null"

    def visit_is_nan(self, term: BoundTerm) -> str:
        return f"{_name(term)} is nan"

    def visit_not_nan(self, term: BoundTerm) -> str:
        return f"{_name(term)} is not nan"

    def visit_less_than(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return f"{_name(term)} < {_value(term, literal)}"

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return f"{_name(term)} <= {_value(term, literal)}"

    def visit_greater_than(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return f"{_name(term)} > {_value(term, literal)}"

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return f"{_name(term)} >= {_value(term, literal)}"

    def visit_equal(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return f"{_name(term)} = {_value(term, literal)}"

    def visit_not_equal(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return f"{_name(term)} != {_value(term, literal)}"

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> str:
        return f"{_name(term)} in {_values(term, literals)}"

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> str:
        return f"{_name(term)} not in {_values(term, literals)}"

    def visit_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return f"{_name(term)} starts with {_value(term, literal)}"

    def visit_not_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return f"{_name(term)} does not start with {_value(term, literal)}"


def _name(term: BoundTerm) -> str:
    return term.ref().field.name


def _value(term: BoundTerm, literal: Any) -> str:
    value = literal.value if isinstance(literal, Literal) else literal
    try:
        return str(IdentityTransform().to_human_string(term.ref().field.field_type, value))
    except (ArithmeticError, ValueError):  # moments that Python's calendar does not have
        return str(value)


def _values(term: BoundTerm, literals: set[Any]) -> str:
    shown = sorted(_value(term, literal) for literal in literals)
    more = [f"and {len(shown) - _SHOWN_LITERALS} more"] if len(shown) > _SHOWN_LITERALS else []
    return f"({', '.join([*shown[:_SHOWN_LITERALS], *more])})"


def _wrapped(text: str) -> str:
    return f"({text})" if " or " in text else text
