"""Iceberg schemas as Spark's, in the JSON form that both Spark and Spark Connect understand; and rows likewise.

Spark has no UUIDs, no fixed-length binaries and no times of day: the first two become text and binary, as Iceberg's
own Spark reader has it; columns of the last are refused by name. Neither pyspark nor a JVM is needed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema
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
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from lakeshift.errors import UnsupportedTableError
from lakeshift.iceberg.arrow_schema import arrow_type_of

_NAMES: dict[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "integer",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
    StringType: "string",
    UUIDType: "string",
    BinaryType: "binary",
    FixedType: "binary",
}


def spark_json(schema: Schema) -> dict[str, Any]:
    """The JSON form of the Spark schema of a table's rows."""
    return _struct(schema.fields, "")


def _struct(fields: tuple[NestedField, ...], path: str) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {
                "name": field.name,
                "type": _type(field.field_type, f"{path}{field.name}"),
                "nullable": field.optional,
                "metadata": {"comment": field.doc} if field.doc else {},
            }
            for field in fields
        ],
    }


def _type(kind: IcebergType, path: str) -> Any:
    match kind:
        case StructType():
            return _struct(kind.fields, f"{path}.")
        case ListType():
            element = _type(kind.element_type, f"{path}.element")
            return {"type": "array", "elementType": element, "containsNull": not kind.element_required}
        case MapType():
            return {
                "type": "map",
                "keyType": _type(kind.key_type, f"{path}.key"),
                "valueType": _type(kind.value_type, f"{path}.value"),
                "valueContainsNull": not kind.value_required,
            }
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
    if type(kind) not in _NAMES:
        raise UnsupportedTableError(
            f"Column {path!r} is of type {kind}, which Spark does not have. Name the columns to read without it."
        )
    return _NAMES[type(kind)]


def to_spark(schema: Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """How batches of a schema's rows, in its order, become what Spark takes; further columns stay as they are."""
    kinds = [field.field_type for field in schema.fields]
    changed = {index for index, kind in enumerate(kinds) if _spark_type(kind) != arrow_type_of(kind)}
    if not changed:
        return lambda batch: batch

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns, fields = list(batch.columns), list(batch.schema)
        for index in changed:
            columns[index] = _spark_array(columns[index], kinds[index])
            fields[index] = fields[index].with_type(columns[index].type)
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    return convert


def _spark_type(kind: IcebergType) -> pa.DataType:
    match kind:
        case UUIDType():
            return pa.string()
        case FixedType():
            return pa.binary()
        case StructType():
            return pa.struct([_spark_field(field) for field in kind.fields])
        case ListType():
            return pa.list_(_spark_field(kind.element_field))
        case MapType():
            return pa.map_(_spark_field(kind.key_field), _spark_field(kind.value_field))
    return arrow_type_of(kind)


def _spark_field(field: NestedField) -> pa.Field:
    return pa.field(field.name, _spark_type(field.field_type), field.optional)


def _spark_array(array: Any, kind: IcebergType) -> Any:
    wanted = _spark_type(kind)
    if array.type == wanted:
        return array
    match kind:
        case UUIDType():
            return pa.array([None if value is None else str(UUID(bytes=value)) for value in array.to_pylist()], wanted)
        case StructType():
            members = [_spark_array(array.field(index), field.field_type) for index, field in enumerate(kind.fields)]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(members, fields=list(wanted), mask=mask)
        case ListType():
            children = [_spark_array(array.values, kind.element_type)]
        case MapType():
            pairs = [_spark_array(array.keys, kind.key_type), _spark_array(array.items, kind.value_type)]
            children = [pa.StructArray.from_arrays(pairs, fields=[wanted.key_field, wanted.item_field])]
        case _:
            return array.cast(wanted)
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        wanted, len(array), [validity, offsets], array.null_count, array.offset, children=children
    )
