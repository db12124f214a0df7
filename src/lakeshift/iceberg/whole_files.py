"""Which files hold nothing but rows that match a filter, so that they can be dropped unread.

Strict: a file counts only if every row of it matches to Spark, whatever wrote the file. Null matches nothing, so a
column must be known to have none; a floating column must be known to have no NaN. Where metrics are missing or do not
cover every row, a file does not count. Only filters made by `predicates` come in here, and only exact ones mean what
their SQL says.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, BoundPredicate, BoundReference, BoundTerm
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import bind, rewrite_not, visit
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import PrimitiveType

# The two filters read the same columns in the same way, and differ only in what they conclude.
from lakeshift.iceberg.file_filter import (
    _flat,
    _is_floating,
    _Matcher,
    _MetricsMatcher,
    _or_false,
    _PartitionMatcher,
    _raw,
    _start,
)
from lakeshift.iceberg.partition_types import spec_of


def files_that_match_wholly(
    where: BooleanExpression, spec_id: int, files: pa.Table, metadata: TableMetadata, schema: Schema
) -> pa.Array:
    """For each of these files of one spec, whether ``where`` is true for every row of it.

    ``schema`` is the one whose columns the filter names; the files have `file_filter.FILTER_COLUMNS`.
    """
    bound = bind(schema, rewrite_not(where), case_sensitive=True)
    spec = spec_of(metadata, spec_id)
    partitions = files.column("partition")
    identities = {
        field.source_id: pc.struct_field(partitions, [index])
        for index, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform)
    }
    # A count of -1, as imported files may have, says nothing.
    counted = pc.greater(_flat(files.column("record_count")), 0)
    return pc.and_(counted, visit(bound, _WholeMatcher(files, identities)))


class _WholeMatcher(_MetricsMatcher):
    """Judges files by the counts and bounds of their columns, and by partition values that are column values."""

    def __init__(self, files: pa.Table, identities: dict[int, pa.ChunkedArray]) -> None:
        super().__init__(files)
        self._identities = identities
        self._by_partition = _PartitionMatcher(identities, files.num_rows)
        self._record_count = _flat(files.column("record_count"))

    def visit_bound_predicate(self, predicate: BoundPredicate) -> pa.Array:
        term = predicate.term
        if not isinstance(term, BoundReference) or not isinstance(term.field.field_type, PrimitiveType):
            return self.visit_false()
        by_metrics = super(_Matcher, self).visit_bound_predicate(predicate)
        if term.field.field_id not in self._identities:
            return by_metrics
        return pc.or_(by_metrics, self._by_partition.visit_bound_predicate(predicate))

    def visit_is_null(self, term: BoundTerm) -> pa.Array:
        return self._counts_all("null_value_counts", term)

    def visit_not_null(self, term: BoundTerm) -> pa.Array:
        none = _or_false(pc.equal(self._count("null_value_counts", term), 0))
        return pc.and_(none, self._counts_all("value_counts", term))

    def visit_is_nan(self, term: BoundTerm) -> pa.Array:
        return self._counts_all("nan_value_counts", term)

    def visit_not_nan(self, term: BoundTerm) -> pa.Array:
        return self._if_numbers(term, self.visit_true())

    def visit_less_than(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._if_numbers(term, self._bound_is(pc.less, "upper_bounds", term, literal))

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._if_numbers(term, self._bound_is(pc.less_equal, "upper_bounds", term, literal))

    def visit_greater_than(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._if_numbers(term, self._bound_is(pc.greater, "lower_bounds", term, literal))

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._if_numbers(term, self._bound_is(pc.greater_equal, "lower_bounds", term, literal))

    def visit_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        low = self._bound_is(pc.equal, "lower_bounds", term, literal)
        return self._if_numbers(term, pc.and_(low, self._bound_is(pc.equal, "upper_bounds", term, literal)))

    def visit_not_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        above = self._bound_is(pc.greater, "lower_bounds", term, literal)
        return self._if_numbers(term, pc.or_(above, self._bound_is(pc.less, "upper_bounds", term, literal)))

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> pa.Array:
        return reduce(pc.or_, (self.visit_equal(term, literal) for literal in literals), self.visit_false())

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> pa.Array:
        unequal = (self.visit_not_equal(term, literal) for literal in literals)
        return reduce(pc.and_, unequal, self.visit_not_null(term))

    def visit_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        prefix = str(_raw(literal)).encode()
        low = _or_false(pc.equal(_start(self._bound("lower_bounds", term), len(prefix)), prefix))
        high = _or_false(pc.equal(_start(self._bound("upper_bounds", term), len(prefix)), prefix))
        return self._if_numbers(term, pc.and_(low, high))

    def visit_not_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        prefix = str(_raw(literal)).encode()
        above = _or_false(pc.greater(_start(self._bound("lower_bounds", term), len(prefix)), prefix))
        below = _or_false(pc.less(_start(self._bound("upper_bounds", term), len(prefix)), prefix))
        return self._if_numbers(term, pc.or_(above, below))

    def _if_numbers(self, term: BoundTerm, matches: pa.Array) -> pa.Array:
        """Bounds say nothing of nulls and NaN, so there must be none."""
        present = self.visit_not_null(term)
        if _is_floating(term):
            present = pc.and_(present, _or_false(pc.equal(self._count("nan_value_counts", term), 0)))
        return pc.and_(matches, present)

    def _counts_all(self, name: str, term: BoundTerm) -> pa.Array:
        return _or_false(pc.equal(self._count(name, term), self._record_count))
