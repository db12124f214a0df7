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


def to_spark(schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """How batches of a table's Arrow schema become what Spark takes."""
    wanted = pa.schema([field.with_type(_spark_type(field.type)) for field in schema])
    changed = [index for index, field in enumerate(schema) if field.type != wanted.field(index).type]
    if not changed:
        return lambda batch: batch

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            _spark_array(column, field.type) if index in changed else column
            for index, (column, field) in enumerate(zip(batch.columns, wanted, strict=True))
        ]
        return pa.RecordBatch.from_arrays(columns, schema=wanted)

    return convert


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"


def _spark_type(kind: pa.DataType) -> pa.DataType:
    if _is_uuid(kind):
        return pa.string()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_spark_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_spark_type(kind.value_type)))
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_spark_type(key.type)), item.with_type(_spark_type(item.type)))
    return kind


def _spark_array(array: Any, wanted: pa.DataType) -> Any:
    if array.type == wanted:
        return array
    if _is_uuid(array.type):
        stored = array.storage.to_pylist()
        return pa.array([None if value is None else str(UUID(bytes=value)) for value in stored], wanted)
    if pa.types.is_struct(wanted):
        children = [_spark_array(array.field(index), field.type) for index, field in enumerate(wanted)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    if pa.types.is_list(wanted):
        children = [_spark_array(array.values, wanted.value_type)]
    elif pa.types.is_map(wanted):
        pairs = [_spark_array(array.keys, wanted.key_type), _spark_array(array.items, wanted.item_type)]
        children = [pa.StructArray.from_arrays(pairs, fields=[wanted.key_field, wanted.item_field])]
    else:
        return array.cast(wanted)
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        wanted, len(array), [validity, offsets], array.null_count, array.offset, children=children
    )
