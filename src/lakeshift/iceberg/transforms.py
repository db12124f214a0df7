"""Partition values of record batches: every transform of Iceberg on every type it is allowed for.

Arrow in, Arrow out, column at a time: no Spark, no catalog, no file, and no numpy, which executors may lack.
The results are the ones Iceberg's other engines compute. Where no 32-bit or 64-bit number can hold a result, the
others wrap around silently and their filters then miss the row; here such a row is reported instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)
from pyiceberg_core import transform as core  # type: ignore[import-untyped]

from lakeshift.errors import BadRowsError, SpecNotWritableError
from lakeshift.iceberg.partition_types import arrow_type, partition_field_type
from lakeshift.iceberg.partitioning import describe_field

_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_LONG_MIN = -(2**63)
_MICROS_PER_HOUR, _NANOS_PER_HOUR = 3_600_000_000, 3_600_000_000_000
# The calendar repeats itself after 400 years.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
# Arrow keeps a year in 16 bits; days within this distance of 1970 are safe.
_ARROW_DAYS = 10_000_000
_EXACT = Context(prec=80)


@dataclass(frozen=True)
class Uncomputable:
    """Rows whose value has no partition value: where, and why."""

    field: str
    column: str
    transform: str
    rows: pa.Array


@dataclass(frozen=True)
class ComputedPartitions:
    """The partition values of a batch, one array per field of the spec; null in rows that have none."""

    values: list[pa.Array]
    uncomputable: tuple[Uncomputable, ...] = ()


class PartitionValues:
    """Computes the partition values of batches that have a table's schema, under one of its specs. Picklable."""

    def __init__(self, schema: Schema, spec: PartitionSpec) -> None:
        self.spec = spec
        self._fields = tuple(_Field.of(field, schema, spec) for field in spec.fields)

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The Arrow type of each field's values; years, months, days and hours are counts since 1970."""
        return tuple(field.type for field in self._fields)

    def compute(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """One array per partition field; a value that has no partition value is a BadRowsError."""
        computed = self.attempt(batch)
        if computed.uncomputable:
            first = computed.uncomputable[0]
            value = _source(batch, _path_of(self._fields, first.field))[first.rows[0].as_py()]
            raise BadRowsError(
                f"{first.transform} has no result for {_shown(value)} and {len(first.rows) - 1} other values: it is "
                f"out of the range of a partition value. Nothing was committed; correct column {first.column!r}."
            )
        return computed.values

    def attempt(self, batch: pa.RecordBatch) -> ComputedPartitions:
        """Like `compute`, but rows without a partition value are reported, not raised."""
        values, failures = [], []
        for field in self._fields:
            if not field.path:
                values.append(pa.nulls(len(batch), field.type))
                continue
            array = _canonical(_source(batch, field.path), field.source_type)
            beyond = _beyond_range(field, array)
            if beyond is not None:
                rows = pc.indices_nonzero(beyond)
                failures.append(Uncomputable(field.name, ".".join(field.path), field.text, rows))
                array = pc.if_else(beyond, pa.scalar(None, array.type), array)
            values.append(_TRANSFORMS[type(field.transform)](array, field).cast(field.type))
        return ComputedPartitions(values, tuple(failures))


@dataclass(frozen=True)
class _Field:
    """A partition field bound to its source; a void field has no path, since its column may be gone."""

    name: str
    path: tuple[str, ...]
    source_type: IcebergType
    transform: Any
    type: pa.DataType
    text: str

    @classmethod
    def of(cls, field: PartitionField, schema: Schema, spec: PartitionSpec) -> _Field:
        result = partition_field_type(field, [schema])
        if isinstance(field.transform, VoidTransform):
            kind = arrow_type(result) if result is not None and result.is_primitive else pa.null()
            return cls(field.name, (), UnknownType(), field.transform, kind, "void")
        found = _find(schema.as_struct(), field.source_id)
        if found is None:
            raise SpecNotWritableError(
                f"Partition field {field.name!r} of spec {spec.spec_id} cannot be computed: the schema has no column "
                f"with id {field.source_id}, or it lies within a list or a map."
            )
        path, source = found
        text = describe_field(".".join(path), field.transform)
        if type(field.transform) not in _TRANSFORMS or not field.transform.can_transform(source.field_type):
            raise SpecNotWritableError(
                f"Partition field {field.name!r} of spec {spec.spec_id} cannot be computed: {text} is not defined for "
                f"{source.field_type}."
            )
        counted = isinstance(field.transform, YearTransform | MonthTransform | DayTransform | HourTransform)
        assert result is not None
        return cls(
            field.name, path, source.field_type, field.transform, pa.int32() if counted else arrow_type(result), text
        )


def _find(struct: StructType, field_id: int) -> tuple[tuple[str, ...], NestedField] | None:
    for field in struct.fields:
        if field.field_id == field_id:
            return (field.name,), field
        if isinstance(field.field_type, StructType) and (below := _find(field.field_type, field_id)):
            return (field.name, *below[0]), below[1]
    return None


def _path_of(fields: Sequence[_Field], name: str) -> tuple[str, ...]:
    return next(field.path for field in fields if field.name == name)


def _source(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    index = batch.schema.get_field_index(path[0])
    if index < 0:
        raise KeyError(f"The batch has no column {path[0]!r}; it has {batch.schema.names}.")
    # Null where a parent struct is null, which is what a partition takes from an absent parent.
    return pc.struct_field(batch.column(index), list(path[1:])) if path[1:] else batch.column(index)


def _canonical(array: pa.Array, source: IcebergType) -> pa.Array:
    """The same values in the one Arrow type that the transforms below know for the Iceberg type."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    return array.cast(arrow_type(source))


def _beyond_range(field: _Field, array: pa.Array) -> pa.Array | None:
    """Which rows have no result that its type can hold; None if all have."""
    if isinstance(field.transform, HourTransform) and not _is_nano(field.source_type):
        micros = array.view(pa.int64())
        limits = _INT_MIN * _MICROS_PER_HOUR, (_INT_MAX + 1) * _MICROS_PER_HOUR - 1
        return _outside(micros, *limits)
    if isinstance(field.transform, TruncateTransform):
        width = field.transform.width
        if isinstance(field.source_type, IntegerType):
            beyond = _outside(array, _lowest_multiple(_INT_MIN, width), _INT_MAX)
            return _or(beyond, _wraps_in_java(array, width))
        if isinstance(field.source_type, LongType):
            return _outside(array, _lowest_multiple(_LONG_MIN, width), 2**63 - 1)
        if isinstance(field.source_type, DecimalType):
            least = 1 - 10**field.source_type.precision
            limits = _lowest_multiple(least, width), -least
            scale = field.source_type.scale
            return _outside(array, *(Decimal(limit).scaleb(-scale, _EXACT) for limit in limits))
    return None


def _outside(array: pa.Array, low: Any, high: Any) -> pa.Array | None:
    # Most batches are decided by their two extremes.
    extremes = pc.min_max(array)
    least, most = extremes["min"].as_py(), extremes["max"].as_py()
    if least is None or (low <= least and most <= high):
        return None
    beyond = pc.or_(
        pc.less(array, pa.scalar(low, array.type)),
        pc.greater(array, pa.scalar(high, array.type)),
    )
    return pc.fill_null(beyond, False)


def _lowest_multiple(least: int, width: int) -> int:
    return -(-least // width) * width


def _wraps_in_java(array: pa.Array, width: int) -> pa.Array | None:
    """Rows of an int column for which Java's arithmetic overflows on the way, so that engines would disagree."""
    if width <= 2**30:
        return None
    remainder = pc.subtract(array, pc.multiply(pc.divide(array, width), width))
    wraps = pc.fill_null(pc.greater(remainder, _INT_MAX - width), False)
    return wraps if pc.any(wraps).as_py() else None


def _or(left: pa.Array | None, right: pa.Array | None) -> pa.Array | None:
    return right if left is None else left if right is None else pc.or_(left, right)


def _identity(array: pa.Array, field: _Field) -> pa.Array:
    return array


def _bucket(array: pa.Array, field: _Field) -> pa.Array:
    if _is_nano(field.source_type):  # by their microseconds, rounded down
        array = _floor_divide(array.view(pa.int64()), 1000)
    return core.bucket(array, field.transform.num_buckets)


def _truncate(array: pa.Array, field: _Field) -> pa.Array:
    width = field.transform.width
    if isinstance(field.source_type, StringType):
        return pc.utf8_slice_codeunits(array, start=0, stop=width)  # Arrow's name for code points
    if pa.types.is_binary(array.type):
        return pc.binary_slice(array, start=0, stop=width)
    return core.truncate(array, width)


def _year(array: pa.Array, field: _Field) -> pa.Array:
    return _calendar(_days(array, field), _years_since_1970, 1)


def _month(array: pa.Array, field: _Field) -> pa.Array:
    return _calendar(_days(array, field), _months_since_1970, 12)


def _day(array: pa.Array, field: _Field) -> pa.Array:
    return _days(array, field).view(pa.int32())


def _hour(array: pa.Array, field: _Field) -> pa.Array:
    if _is_nano(field.source_type):
        return _floor_divide(array.view(pa.int64()), _NANOS_PER_HOUR)
    return core.hour(array)


def _days(array: pa.Array, field: _Field) -> pa.Array:
    if isinstance(field.source_type, DateType):
        return array
    # Without its zone Arrow takes the timestamp as it is stored, which is UTC, and rounds down.
    return array.view(pa.timestamp(array.type.unit)).cast(pa.date32())


def _calendar(days: pa.Array, count: Callable[[pa.Array], pa.Array], units_a_year: int) -> pa.Array:
    """Count calendar units since 1970, also for dates whose year Arrow cannot hold."""
    extremes = pc.min_max(days.view(pa.int32()))
    least, most = extremes["min"].as_py(), extremes["max"].as_py()
    if least is None or (least >= -_ARROW_DAYS and most <= _ARROW_DAYS):
        return count(days)
    numbers = days.view(pa.int32()).cast(pa.int64())
    cycles = _floor_divide(numbers, _CYCLE_DAYS)
    within = pc.subtract(numbers, pc.multiply(cycles, _CYCLE_DAYS)).cast(pa.int32()).view(pa.date32())
    return pc.add(count(within), pc.multiply(cycles, _CYCLE_YEARS * units_a_year))


# One component at a time: pyarrow 26's year_month_day damages the process's memory.
def _years_since_1970(days: pa.Array) -> pa.Array:
    return pc.subtract(pc.year(days), 1970)


def _months_since_1970(days: pa.Array) -> pa.Array:
    return pc.add(pc.multiply(_years_since_1970(days), 12), pc.subtract(pc.month(days), 1))


def _floor_divide(numbers: pa.Array, divisor: int) -> pa.Array:
    quotient = pc.divide(numbers, divisor)  # towards zero
    too_high = pc.greater(pc.multiply(quotient, divisor), numbers)
    return pc.subtract(quotient, too_high.cast(pa.int64()))


def _is_nano(source: IcebergType) -> bool:
    return isinstance(source, TimestampNanoType | TimestamptzNanoType)


def _shown(value: pa.Scalar) -> str:
    text = str(value.cast(pa.int64()) if pa.types.is_temporal(value.type) else value)
    return f"{value.type} {text[:80]}"


_TRANSFORMS: dict[type, Callable[[pa.Array, _Field], pa.Array]] = {
    IdentityTransform: _identity,
    BucketTransform: _bucket,
    TruncateTransform: _truncate,
    YearTransform: _year,
    MonthTransform: _month,
    DayTransform: _day,
    HourTransform: _hour,
}
