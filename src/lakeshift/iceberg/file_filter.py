"""Which files can hold rows that match a filter: by their partition, and by their column metrics.

Inclusive: a file is left out only if none of its rows can match, whatever engine reads it. Where metrics
are missing, of an unexpected form, or of a floating column that may hold NaN, a file can match. Spark
orders NaN above every number, so that an upper bound says nothing about a file that may hold one.

Whole Arrow columns go in and come out; every file is judged by the spec it was written with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import BooleanExpression, BoundPredicate, BoundReference, BoundTerm
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import (
    BoundBooleanExpressionVisitor,
    InclusiveProjection,
    bind,
    rewrite_not,
    visit,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.iceberg.partition_types import partition_field_type, schemas_newest_first, spec_of

# The ledger columns that a filter looks at.
FILTER_COLUMNS = (
    "partition",
    "record_count",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)

# Those of them that a `metrics_can_match` looks at, as a ledger has them.
METRIC_COLUMNS = pa.schema(
    [
        ("record_count", pa.int64()),
        *(
            (name, pa.map_(pa.int32(), pa.int64()))
            for name in ("value_counts", "null_value_counts", "nan_value_counts")
        ),
        ("lower_bounds", pa.map_(pa.int32(), pa.binary())),
        ("upper_bounds", pa.map_(pa.int32(), pa.binary())),
    ]
)

# How a bound of each type may be stored, by its length in bytes: a column may have been narrower once.
_STORED_WIDTHS: dict[type[IcebergType], dict[int, pa.DataType]] = {
    IntegerType: {4: pa.int32()},
    DateType: {4: pa.int32()},
    LongType: {4: pa.int32(), 8: pa.int64()},
    FloatType: {4: pa.float32()},
    DoubleType: {4: pa.float32(), 8: pa.float64()},
    TimeType: {8: pa.int64()},
    TimestampType: {8: pa.int64()},
    TimestamptzType: {8: pa.int64()},
    TimestampNanoType: {8: pa.int64()},
    TimestamptzNanoType: {8: pa.int64()},
}
_COMPARED_AS: dict[type[IcebergType], pa.DataType] = {
    BooleanType: pa.bool_(),
    **{kind: list(widths.values())[-1] for kind, widths in _STORED_WIDTHS.items()},
    **{kind: pa.binary() for kind in (StringType, BinaryType, FixedType, UUIDType)},
}
_FLOATING = (FloatType, DoubleType)


def files_that_can_match(
    where: BooleanExpression,
    spec_id: int,
    files: pa.Table,
    metadata: TableMetadata,
    *,
    case_sensitive: bool = True,
    schema: Schema | None = None,
) -> pa.Array:
    """For each of these files of one spec, whether it can hold a row for which ``where`` is true.

    ``schema`` is the one whose columns the filter names, by default the table's current one. A name that it does
    not have is a ValueError, as PyIceberg raises it.
    """
    schema = schema or metadata.schema()
    bound = bind(schema, rewrite_not(where), case_sensitive)
    spec = spec_of(metadata, spec_id)
    by_partition = partitions_that_match(
        project_onto_partitions(bound, spec, metadata), spec, files.column("partition")
    )
    return pc.and_(by_partition, metrics_that_match(bound, files))


def project_onto_partitions(
    bound: BooleanExpression, spec: PartitionSpec, metadata: TableMetadata
) -> BooleanExpression:
    """What a filter says of a spec's partitions, bound to the spec's fields.

    The filter has no NOT and is bound to a schema of the table.
    """
    projected = visit(bound, InclusiveProjection(metadata.schema(), spec, case_sensitive=True))
    # Projections name partition fields exactly as the spec does, whatever the case of the filter's columns.
    return bind(Schema(*_typed_fields(spec, metadata)), projected, case_sensitive=True)


def partitions_that_match(
    projected: BooleanExpression, spec: PartitionSpec, partitions: pa.ChunkedArray | pa.StructArray
) -> pa.Array:
    """For each of these partitions of one spec, whether a filter that was projected onto them can match there."""
    columns = {field.field_id: pc.struct_field(partitions, [index]) for index, field in enumerate(spec.fields)}
    return visit(projected, _PartitionMatcher(columns, len(partitions)))


def metrics_that_match(bound: BooleanExpression, files: pa.Table) -> pa.Array:
    """For each of these files, whether by its row count and column metrics alone a bound filter can match there."""
    # Imported Avro files may carry a count of -1: only a count of nothing means that there is nothing.
    not_empty = pc.not_equal(_flat(files.column("record_count")), 0)
    return pc.and_(not_empty, visit(bound, _MetricsMatcher(files)))


def metrics_can_match(
    where: BooleanExpression, metrics: pa.Table, schema: Schema, *, case_sensitive: bool = True
) -> pa.Array:
    """For each row of metrics whether what they describe can hold a row for which ``where`` is true."""
    return visit(bind(schema, rewrite_not(where), case_sensitive), _MetricsMatcher(metrics))


def _typed_fields(spec: PartitionSpec, metadata: TableMetadata) -> list[NestedField]:
    schemas = schemas_newest_first(metadata)
    kinds = ((field, partition_field_type(field, schemas)) for field in spec.fields)
    return [
        NestedField(field.field_id, field.name, kind, required=False)
        for field, kind in kinds
        if isinstance(kind, PrimitiveType)
    ]


class _Matcher(BoundBooleanExpressionVisitor[pa.Array]):
    """What both judges share: they give a boolean for each file and combine them alike."""

    rows: int

    def visit_bound_predicate(self, predicate: BoundPredicate) -> pa.Array:
        # A predicate on a transform of a column is not one on the column, of which values and bounds are known.
        known = isinstance(predicate.term, BoundReference) and isinstance(
            predicate.term.field.field_type, PrimitiveType
        )
        return super().visit_bound_predicate(predicate) if known else self.visit_true()

    def visit_true(self) -> pa.Array:
        return pa.repeat(pa.scalar(True), self.rows)

    def visit_false(self) -> pa.Array:
        return pa.repeat(pa.scalar(False), self.rows)

    def visit_not(self, child_result: pa.Array) -> pa.Array:
        raise TypeError("NOT is pushed down to the leaves before a filter is evaluated.")

    def visit_and(self, left_result: pa.Array, right_result: pa.Array) -> pa.Array:
        return pc.and_(left_result, right_result)

    def visit_or(self, left_result: pa.Array, right_result: pa.Array) -> pa.Array:
        return pc.or_(left_result, right_result)


class _PartitionMatcher(_Matcher):
    """Judges files by partition values, which hold for all their rows."""

    def __init__(self, columns: dict[int, pa.ChunkedArray], rows: int) -> None:
        self.columns = columns
        self.rows = rows

    def visit_is_null(self, term: BoundTerm) -> pa.Array:
        return self._values(term).is_null()

    def visit_not_null(self, term: BoundTerm) -> pa.Array:
        return self._values(term).is_valid()

    def visit_is_nan(self, term: BoundTerm) -> pa.Array:
        return _or_false(pc.is_nan(self._values(term)))

    def visit_not_nan(self, term: BoundTerm) -> pa.Array:
        return pc.invert(self.visit_is_nan(term))

    def visit_less_than(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._compare(pc.less, term, literal)

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._compare(pc.less_equal, term, literal)

    def visit_greater_than(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._or_nan(term, self._compare(pc.greater, term, literal))

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._or_nan(term, self._compare(pc.greater_equal, term, literal))

    def visit_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._compare(pc.equal, term, literal)

    def visit_not_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._compare(pc.not_equal, term, literal)

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> pa.Array:
        return reduce(pc.or_, (self._compare(pc.equal, term, literal) for literal in literals), self.visit_false())

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> pa.Array:
        unequal = (self._compare(pc.not_equal, term, literal) for literal in literals)
        return reduce(pc.and_, unequal, self._values(term).is_valid())

    def visit_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return _or_false(pc.starts_with(self._values(term), pattern=str(_raw(literal))))

    def visit_not_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return _or_false(pc.invert(pc.starts_with(self._values(term), pattern=str(_raw(literal)))))

    def _values(self, term: BoundTerm) -> pa.Array:
        column = _flat(self.columns[term.ref().field.field_id])
        kind = _COMPARED_AS.get(type(term.ref().field.field_type), column.type)
        # Text is only turned into bytes where it is compared with bytes.
        return column if pa.types.is_string(column.type) or column.type == kind else column.cast(kind)

    def _compare(self, compare: Callable[..., pa.Array], term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        values = self._values(term)
        wanted = _scalar(literal, term.ref().field.field_type)
        if pa.types.is_string(values.type):
            values = values.cast(pa.binary())
        return _or_false(compare(values, wanted))

    def _or_nan(self, term: BoundTerm, matches: pa.Array) -> pa.Array:
        return pc.or_(matches, self.visit_is_nan(term)) if _is_floating(term) else matches


class _MetricsMatcher(_Matcher):
    """Judges files by the counts and bounds of their columns."""

    def __init__(self, files: pa.Table) -> None:
        self.files = files
        self.rows = files.num_rows

    def visit_is_null(self, term: BoundTerm) -> pa.Array:
        return pc.invert(_or_false(pc.equal(self._count("null_value_counts", term), 0)))

    def visit_not_null(self, term: BoundTerm) -> pa.Array:
        return pc.invert(self._only_nulls(term))

    def visit_is_nan(self, term: BoundTerm) -> pa.Array:
        without = _or_false(pc.equal(self._count("nan_value_counts", term), 0))
        return pc.invert(pc.or_(without, self._only_nulls(term)))

    def visit_not_nan(self, term: BoundTerm) -> pa.Array:
        values, nans = self._count("value_counts", term), self._count("nan_value_counts", term)
        return pc.invert(_or_false(pc.and_(pc.equal(values, nans), pc.greater(values, 0))))

    def visit_less_than(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._unless(term, self._lower_is(pc.greater_equal, term, literal))

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._unless(term, self._lower_is(pc.greater, term, literal))

    def visit_greater_than(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._unless(term, self._upper_is(pc.less_equal, term, literal))

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._unless(term, self._upper_is(pc.less, term, literal))

    def visit_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        outside = pc.or_(self._lower_is(pc.greater, term, literal), self._upper_is(pc.less, term, literal))
        return self._unless(term, outside)

    def visit_not_equal(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self.visit_not_null(term)

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> pa.Array:
        return reduce(pc.or_, (self.visit_equal(term, literal) for literal in literals), self.visit_false())

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> pa.Array:
        return self.visit_not_null(term)

    def visit_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        prefix = str(_raw(literal)).encode()
        above = _or_false(pc.greater(_start(self._bound("lower_bounds", term), len(prefix)), prefix))
        below = _or_false(pc.less(_start(self._bound("upper_bounds", term), len(prefix)), prefix))
        return self._unless(term, pc.or_(above, below))

    def visit_not_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self.visit_not_null(term)

    def _unless(self, term: BoundTerm, excluded: pa.Array) -> pa.Array:
        """Null makes no comparison true, so that a column of nulls only cannot match either."""
        return pc.invert(pc.or_(excluded, self._only_nulls(term)))

    def _only_nulls(self, term: BoundTerm) -> pa.Array:
        values, nulls = self._count("value_counts", term), self._count("null_value_counts", term)
        return _or_false(pc.and_(pc.equal(values, nulls), pc.greater(values, 0)))

    def _lower_is(self, compare: Callable[..., pa.Array], term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        return self._bound_is(compare, "lower_bounds", term, literal)

    def _upper_is(self, compare: Callable[..., pa.Array], term: BoundTerm, literal: Literal[Any]) -> pa.Array:
        found = self._bound_is(compare, "upper_bounds", term, literal)
        if not _is_floating(term):
            return found
        return pc.and_(found, _or_false(pc.equal(self._count("nan_value_counts", term), 0)))

    def _bound_is(
        self, compare: Callable[..., pa.Array], name: str, term: BoundTerm, literal: Literal[Any]
    ) -> pa.Array:
        # A bound that is NaN makes every comparison false, and so excludes nothing.
        return _or_false(compare(self._bound(name, term), _scalar(literal, term.ref().field.field_type)))

    def _count(self, name: str, term: BoundTerm) -> pa.Array:
        return _entry(self.files.column(name), term.ref().field.field_id)

    def _bound(self, name: str, term: BoundTerm) -> pa.Array:
        field = term.ref().field
        return _decode_bounds(_entry(self.files.column(name), field.field_id), field.field_type)


def _entry(maps: pa.ChunkedArray, field_id: int) -> pa.Array:
    return _flat(pc.map_lookup(maps, pa.scalar(field_id, pa.int32()), "first"))


def _decode_bounds(stored: pa.Array, kind: IcebergType) -> pa.Array:
    """Bounds as values that compare as the column's do; null where they cannot be read."""
    if isinstance(kind, DecimalType):
        return _decode_decimals(stored, kind)
    if isinstance(kind, BooleanType):
        return pc.if_else(
            pc.equal(pc.binary_length(stored), 1), pc.not_equal(stored, b"\x00"), pa.scalar(None, pa.bool_())
        )
    widths = _STORED_WIDTHS.get(type(kind))
    if widths is None:
        # Text in UTF-8 compares as its bytes do.
        return stored if type(kind) in _COMPARED_AS else pa.nulls(len(stored), stored.type)
    decoded = pa.nulls(len(stored), _COMPARED_AS[type(kind)])
    for width, stored_type in widths.items():
        fits = _or_false(pc.equal(pc.binary_length(stored), width))
        # With every value of the same width, the bytes lie one after the other as a numeric column has them.
        padded = pc.if_else(fits, stored, pa.scalar(bytes(width), pa.binary()))
        values = pa.Array.from_buffers(stored_type, len(stored), [None, padded.buffers()[2]])
        decoded = pc.if_else(fits, values.cast(decoded.type), decoded)
    return decoded


def _decode_decimals(stored: pa.Array, kind: DecimalType) -> pa.Array:
    distinct = stored.dictionary_encode()
    values = [None if not raw else from_bytes(kind, raw) for raw in distinct.dictionary.to_pylist()]
    return pa.array(values, pa.decimal128(38, kind.scale)).take(distinct.indices)


def _scalar(literal: Literal[Any], kind: IcebergType) -> pa.Scalar:
    value = _raw(literal)
    if isinstance(value, UUID):
        value = value.bytes
    elif isinstance(value, str):
        value = value.encode()
    if isinstance(kind, DecimalType):
        return pa.scalar(value, pa.decimal128(38, kind.scale))
    return pa.scalar(value, _COMPARED_AS[type(kind)])


def _raw(literal: Literal[Any]) -> Any:
    return literal.value if isinstance(literal, Literal) else literal


def _start(values: pa.Array, length: int) -> pa.Array:
    return pc.binary_slice(values, 0, length)


def _is_floating(term: BoundTerm) -> bool:
    return isinstance(term.ref().field.field_type, _FLOATING)


def _or_false(matches: pa.Array) -> pa.Array:
    return matches.fill_null(False)


def _flat(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
