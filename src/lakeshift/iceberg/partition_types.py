"""What partition values are made of: the Arrow type of each spec's partition struct.

A spec outlives the columns it was made for, so the types come from whichever schema of the table
still knows the source column: the current one first, then the newest historical one. No file is
read here and no engine is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
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
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from lakeshift.errors import UnknownSpecError

# Transforms whose result has one type whatever the source: known even if no schema has the source any more.
_RESULTS_BY_TRANSFORM: Mapping[type, IcebergType] = {
    BucketTransform: IntegerType(),
    YearTransform: IntegerType(),
    MonthTransform: IntegerType(),
    DayTransform: DateType(),
    HourTransform: IntegerType(),
}

_ARROW_TYPES: Mapping[type, pa.DataType] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", tz="UTC"),
    TimestampNanoType: pa.timestamp("ns"),
    TimestamptzNanoType: pa.timestamp("ns", tz="UTC"),
    StringType: pa.string(),
    UUIDType: pa.binary(16),
    BinaryType: pa.binary(),
    UnknownType: pa.null(),
}


def spec_of(metadata: TableMetadata, spec_id: int) -> PartitionSpec:
    """The table's spec of this number, or an UnknownSpecError that lists the ones it has."""
    specs = metadata.specs()
    if spec_id not in specs:
        known = ", ".join(str(number) for number in sorted(specs))
        raise UnknownSpecError(f"The table has no partition spec {spec_id}; it has {known}.")
    return specs[spec_id]


def is_unpartitioned(spec: PartitionSpec) -> bool:
    """Whether files of this spec belong to no partition; a spec whose fields are all void is such a one."""
    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)


def schemas_newest_first(metadata: TableMetadata) -> list[Schema]:
    """The current schema, then the others from the newest to the oldest."""
    others = [schema for schema in metadata.schemas if schema.schema_id != metadata.current_schema_id]
    return [metadata.schema(), *sorted(others, key=lambda schema: schema.schema_id, reverse=True)]


def partition_field_type(field: PartitionField, schemas: Iterable[Schema]) -> IcebergType | None:
    """The type of a partition field's values; None if no schema has its source and the transform does not tell."""
    for schema in schemas:
        try:
            source = schema.find_type(field.source_id)
        except ValueError:
            continue
        return field.transform.result_type(source)
    return _RESULTS_BY_TRANSFORM.get(type(field.transform))


def arrow_type(iceberg_type: IcebergType) -> pa.DataType:
    """The Arrow type in which the ledger holds values of a primitive Iceberg type."""
    if isinstance(iceberg_type, DecimalType):
        return pa.decimal128(iceberg_type.precision, iceberg_type.scale)
    if isinstance(iceberg_type, FixedType):
        return pa.binary(len(iceberg_type))
    found = _ARROW_TYPES.get(type(iceberg_type))
    if found is None:
        raise TypeError(f"{iceberg_type} cannot be the type of a partition value.")
    return found


def partition_array(partitions: Sequence[Record], spec: PartitionSpec, metadata: TableMetadata) -> pa.StructArray:
    """Partition values as PyIceberg keeps them in data files, as a ledger column."""
    if not spec.fields:
        return pa.Array.from_buffers(pa.struct([]), len(partitions), [None])
    schemas = schemas_newest_first(metadata)
    columns, fields = [], []
    for position, field in enumerate(spec.fields):
        known = partition_field_type(field, schemas)
        wanted = pa.string() if known is None else arrow_type(known)
        values = [plain_value(partition[position]) for partition in partitions]
        # Days and the like are plain numbers in PyIceberg; everything else Arrow understands as it is.
        stored = {pa.date32(): pa.int32()}.get(wanted, pa.int64() if pa.types.is_temporal(wanted) else wanted)
        columns.append(pa.array(values, stored).cast(wanted))
        fields.append(pa.field(field.name, wanted))
    return pa.StructArray.from_arrays(columns, fields=fields)


def partition_values(partitions: pa.StructArray, spec: PartitionSpec, metadata: TableMetadata) -> list[tuple[Any, ...]]:
    """A ledger column of partitions as PyIceberg keeps them in data files: days as ints, and the like."""
    schemas = schemas_newest_first(metadata)
    columns = []
    for position, field in enumerate(spec.fields):
        column = pc.struct_field(partitions, [position])
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int32() if column.type == pa.date32() else pa.int64())
        values = column.to_pylist()
        if isinstance(partition_field_type(field, schemas), UUIDType):
            values = [None if value is None else UUID(bytes=value) for value in values]
        columns.append(values)
    return list(zip(*columns, strict=True)) if columns else [()] * len(partitions)


def plain_value(value: Any) -> Any:
    """A partition value as Arrow takes it."""
    return value.bytes if isinstance(value, UUID) else value
