"""Which rows lie in given partitions, as an expression on columns: never too narrow, perhaps too wide.

It serves to leave out files of other specs, so what cannot be said of a column is simply true.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    IsNaN,
    IsNull,
    LessThan,
    Or,
    StartsWith,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DateType, DecimalType, IcebergType, IntegerType, LongType, StringType

# More partitions than this are not worth telling apart: each would be asked of each file.
_MOST_PARTITIONS = 200
_MICROS_PER_DAY = 24 * 60 * 60 * 1_000_000
_MICROS_PER_HOUR = 60 * 60 * 1_000_000


def rows_in_partitions(schema: Schema, spec: PartitionSpec, partitions: Collection[Sequence[Any]]) -> BooleanExpression:
    """True of every row that lies in one of these partitions of a spec, and of few others."""
    if not partitions or len(partitions) > _MOST_PARTITIONS:
        return AlwaysTrue()
    found: list[BooleanExpression] = []
    for partition in partitions:
        parts = [_field(schema, field, value) for field, value in zip(spec.fields, partition, strict=True)]
        found.append(And(*parts) if len(parts) > 1 else parts[0])
    return Or(*found) if len(found) > 1 else found[0]


def _field(schema: Schema, field: PartitionField, value: Any) -> BooleanExpression:
    name = schema.find_column_name(field.source_id)
    if name is None:
        return AlwaysTrue()
    if value is None:
        return _test(IsNull, name)
    kind = schema.find_type(field.source_id)
    match field.transform:
        case IdentityTransform() if isinstance(value, float) and math.isnan(value):
            return _test(IsNaN, name)
        case IdentityTransform() if not isinstance(value, (bytes, bool)):
            return _compare(EqualTo, name, value)
        case TruncateTransform() as transform:
            return _truncated(name, kind, value, transform.width)
        case YearTransform():
            return _days(name, kind, _first_day(12 * value), _first_day(12 * value + 12))
        case MonthTransform():
            return _days(name, kind, _first_day(value), _first_day(value + 1))
        case DayTransform():
            return _days(name, kind, value, value + 1)
        case HourTransform():
            return _between(name, value * _MICROS_PER_HOUR, (value + 1) * _MICROS_PER_HOUR)
        case _:
            return AlwaysTrue()


def _truncated(name: str, kind: IcebergType, value: Any, width: int) -> BooleanExpression:
    match kind:
        case StringType():
            return _compare(StartsWith, name, value) if value else AlwaysTrue()
        case IntegerType() | LongType():
            return _between(name, value, value + width)
        case DecimalType():
            return _between(name, value, value + Decimal(width).scaleb(-kind.scale))
        case _:
            return AlwaysTrue()


def _days(name: str, kind: IcebergType, first: int, end: int) -> BooleanExpression:
    if isinstance(kind, DateType):
        return _between(name, first, end)
    return _between(name, first * _MICROS_PER_DAY, end * _MICROS_PER_DAY)


def _between(name: str, first: Any, end: Any) -> BooleanExpression:
    return And(_compare(GreaterThanOrEqual, name, first), _compare(LessThan, name, end))


# PyIceberg's constructors take a plain name and a plain value, though their annotations ask for its own classes.
def _compare(kind: Any, name: str, value: Any) -> BooleanExpression:
    found: BooleanExpression = kind(name, value)
    return found


def _test(kind: Any, name: str) -> BooleanExpression:
    found: BooleanExpression = kind(name)
    return found


def _first_day(months: int) -> int:
    """The first day of a month, both counted since 1970."""
    # Python's calendar ends with year 9999; it repeats itself after 400 years.
    cycles, rest = divmod(months, 4800)
    return (date(1970 + rest // 12, rest % 12 + 1, 1) - date(1970, 1, 1)).days + 146_097 * cycles
