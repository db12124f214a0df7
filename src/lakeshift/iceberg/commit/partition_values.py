"""Partition values between their two forms, and the bounds that a manifest list keeps of them.

*Logical* values are the ones PyIceberg holds in a file's partition record (days as ints, Decimal, UUID);
*physical* ones are what Avro stores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from struct import unpack
from typing import Any
from uuid import UUID

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import PartitionFieldSummary
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
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.errors import LakeshiftError

_INTS = (
    IntegerType,
    LongType,
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
)
_PYTHON_TYPES: dict[type[IcebergType], tuple[type, ...]] = {
    **dict.fromkeys(_INTS, (int,)),
    BooleanType: (bool,),
    FloatType: (float, int),
    DoubleType: (float, int),
    StringType: (str,),
    BinaryType: (bytes,),
    FixedType: (bytes,),
    DecimalType: (Decimal,),
    UUIDType: (UUID, bytes),
}

Partition = tuple[Any, ...]


def logical_partition(struct: StructType, values: Sequence[Any], file_path: str) -> Partition:
    """A file's partition in one spelling, checked against its spec's types."""
    if len(values) != len(struct.fields):
        raise LakeshiftError(
            f"{file_path} has {len(values)} partition values {tuple(values)}, but its spec has {len(struct.fields)} "
            f"fields ({', '.join(field.name for field in struct.fields)}). The file was written for another spec."
        )
    checked = []
    for field, value in zip(struct.fields, values, strict=True):
        wanted = _PYTHON_TYPES.get(type(field.field_type), ())
        if value is not None and (not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted)):
            raise LakeshiftError(
                f"{file_path} has the value {value!r} for partition field {field.name!r} of type {field.field_type}; "
                f"it must be {' or '.join(kind.__name__ for kind in wanted)} (dates and times are counts since 1970)."
            )
        checked.append(
            UUID(bytes=value) if isinstance(field.field_type, UUIDType) and isinstance(value, bytes) else value
        )
    return tuple(checked)


def to_physical(struct: StructType, partition: Partition) -> dict[int, Any]:
    """The values by partition field id, as Avro stores them."""
    return {
        field.field_id: _physical(field.field_type, value)
        for field, value in zip(struct.fields, partition, strict=True)
    }


def to_logical(struct: StructType, physical: dict[int, Any]) -> Partition:
    """The partition that these stored values mean."""
    return tuple(_logical(field.field_type, physical.get(field.field_id)) for field in struct.fields)


def _physical(field_type: IcebergType, value: Any) -> Any:
    if isinstance(value, Decimal):
        assert isinstance(field_type, DecimalType)
        scaled = value.scaleb(field_type.scale)
        if scaled != scaled.to_integral_value():
            raise LakeshiftError(f"The partition value {value} does not fit {field_type}.")
        return int(scaled)
    return value.bytes if isinstance(value, UUID) else value


def _logical(field_type: IcebergType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(field_type, DecimalType):
        return Decimal(value).scaleb(-field_type.scale)
    return UUID(bytes=value) if isinstance(field_type, UUIDType) else value


def summarise(struct: StructType, partitions: Iterable[Partition]) -> list[PartitionFieldSummary]:
    """The bounds of each partition field over some files, for the manifest list."""
    columns = list(zip(*set(partitions), strict=True)) if struct.fields else []
    summaries = []
    for field, column in zip(struct.fields, columns, strict=True):
        assert isinstance(field.field_type, PrimitiveType)
        nans = [value for value in column if isinstance(value, float) and math.isnan(value)]
        known = [
            value for value in column if value is not None and not (isinstance(value, float) and math.isnan(value))
        ]
        summaries.append(
            PartitionFieldSummary(
                None in column,
                bool(nans),
                to_bytes(field.field_type, min(known)) if known else None,
                to_bytes(field.field_type, max(known)) if known else None,
            )
        )
    return summaries


def merge_summaries(
    struct: StructType, summaries: Sequence[Sequence[PartitionFieldSummary] | None]
) -> list[PartitionFieldSummary] | None:
    """Bounds that hold for all of several manifests; None if one of them has none."""
    known = [each for each in summaries if each is not None and len(each) == len(struct.fields)]
    if len(known) < len(summaries):
        return None
    merged = []
    for field, column in zip(struct.fields, zip(*known, strict=True), strict=True):
        assert isinstance(field.field_type, PrimitiveType)
        lower = [_bound(field.field_type, each.lower_bound) for each in column if each.lower_bound is not None]
        upper = [_bound(field.field_type, each.upper_bound) for each in column if each.upper_bound is not None]
        nans = [each.contains_nan for each in column]
        merged.append(
            PartitionFieldSummary(
                any(each.contains_null for each in column),
                True if True in nans else (None if None in nans else False),
                to_bytes(field.field_type, min(lower)) if lower else None,
                to_bytes(field.field_type, max(upper)) if upper else None,
            )
        )
    return merged


def _bound(field_type: PrimitiveType, stored: bytes) -> Any:
    # A bound keeps the type its column had when it was written; the column may have been widened since.
    if isinstance(field_type, LongType) and len(stored) == 4:
        return unpack("<i", stored)[0]
    if isinstance(field_type, DoubleType) and len(stored) == 4:
        return unpack("<f", stored)[0]
    return from_bytes(field_type, stored)
