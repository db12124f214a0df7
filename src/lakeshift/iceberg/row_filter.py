"""Iceberg expressions evaluated row by row over Arrow, with Spark's semantics.

Nothing is null: where Spark would say null, a row does not match. NaN equals NaN and is above every number, -0.0
equals 0.0, text compares by its bytes. Only expressions made by `predicates` with ``exact`` say the same as their
SQL. No file is read here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, BoundTerm
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, bind, extract_field_ids, rewrite_not, visit
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.types import StructType


@dataclass(frozen=True)
class RowFilter:
    """An expression on rows of a schema; picklable, so that it can travel in a task.

    ``where`` names columns with case. Batches have the schema's top-level columns by name, at least those that
    the expression needs.
    """

    where: BooleanExpression
    schema: Schema

    def field_ids(self) -> set[int]:
        """The ids of the columns that the expression looks at."""
        return extract_field_ids(self._bound())

    def needed_schema(self) -> Schema:
        """The schema, less what the expression does not look at."""
        return prune_columns(self.schema, self.field_ids(), select_full_types=False)

    def mask(self, rows: pa.RecordBatch | pa.Table) -> pa.BooleanArray | pa.ChunkedArray:
        """For each row whether it matches; never null."""
        return visit(self._bound(), _RowMatcher(rows, self.schema))

    def _bound(self) -> BooleanExpression:
        return bind(self.schema, rewrite_not(self.where), case_sensitive=True)


class _RowMatcher(BoundBooleanExpressionVisitor[Any]):
    """Gives a boolean for each row."""

    def __init__(self, rows: pa.RecordBatch | pa.Table, schema: Schema) -> None:
        self._rows = rows
        self._schema = schema
        self._columns: dict[int, Any] = {}

    def visit_true(self) -> Any:
        return pa.repeat(pa.scalar(True), self._rows.num_rows)

    def visit_false(self) -> Any:
        return pa.repeat(pa.scalar(False), self._rows.num_rows)

    def visit_not(self, child_result: Any) -> Any:
        raise TypeError("NOT is pushed down to the leaves before a filter is evaluated.")

    def visit_and(self, left_result: Any, right_result: Any) -> Any:
        return pc.and_(left_result, right_result)

    def visit_or(self, left_result: Any, right_result: Any) -> Any:
        return pc.or_(left_result, right_result)

    def visit_is_null(self, term: BoundTerm) -> Any:
        return self._values(term).is_null()

    def visit_not_null(self, term: BoundTerm) -> Any:
        return self._values(term).is_valid()

    def visit_is_nan(self, term: BoundTerm) -> Any:
        return _or_false(pc.is_nan(self._values(term)))

    def visit_not_nan(self, term: BoundTerm) -> Any:
        return _or_false(pc.invert(pc.is_nan(self._values(term))))

    def visit_less_than(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self._compare(pc.less, term, literal)

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self._compare(pc.less_equal, term, literal)

    def visit_greater_than(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self._or_nan(term, self._compare(pc.greater, term, literal))

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self._or_nan(term, self._compare(pc.greater_equal, term, literal))

    def visit_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self._compare(pc.equal, term, literal)

    def visit_not_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self._compare(pc.not_equal, term, literal)

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> Any:
        values = self._values(term)
        if pa.types.is_floating(values.type):
            # A set tells -0.0 from 0.0.
            return reduce(pc.or_, (self._compare(pc.equal, term, item) for item in literals), self.visit_false())
        wanted = pa.array([_plain(item) for item in literals], values.type)
        return pc.is_in(values, value_set=wanted)

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> Any:
        return pc.and_(self._values(term).is_valid(), pc.invert(self.visit_in(term, literals)))

    def visit_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return _or_false(pc.starts_with(self._values(term), pattern=str(_plain(literal))))

    def visit_not_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return _or_false(pc.invert(pc.starts_with(self._values(term), pattern=str(_plain(literal)))))

    def _compare(self, compare: Callable[..., Any], term: BoundTerm, literal: Any) -> Any:
        values = self._values(term)
        return _or_false(compare(values, pa.scalar(_plain(literal), values.type)))

    def _or_nan(self, term: BoundTerm, matches: Any) -> Any:
        return pc.or_(matches, self.visit_is_nan(term)) if pa.types.is_floating(self._values(term).type) else matches

    def _values(self, term: BoundTerm) -> Any:
        field_id = term.ref().field.field_id
        if field_id not in self._columns:
            names = _path(self._schema.as_struct(), field_id)
            column = self._rows.column(names[0])
            values = pc.struct_field(column, names[1:]) if len(names) > 1 else column
            self._columns[field_id] = values
        return self._columns[field_id]


def _path(struct: StructType, field_id: int) -> list[str]:
    """The names that lead through structs to a field."""
    for field in struct.fields:
        if field.field_id == field_id:
            return [field.name]
        if isinstance(field.field_type, StructType) and (rest := _path(field.field_type, field_id)):
            return [field.name, *rest]
    return []


def _plain(literal: Any) -> Any:
    value = literal.value if isinstance(literal, Literal) else literal
    return value.bytes if isinstance(value, UUID) else value


def _or_false(matches: Any) -> Any:
    return matches.fill_null(False)
