"""The Arrow form of an Iceberg schema, as our writers and readers hold rows: field ids in, large types out.

Plain strings, binaries and lists are what Spark hands over and what Parquet stores; the large forms that
PyIceberg prefers would cost a copy of every column.
"""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType, UUIDType

from lakeshift.iceberg.partition_types import arrow_type

FIELD_ID = b"PARQUET:field_id"


def arrow_schema(schema: Schema, *, in_file: bool = False) -> pa.Schema:
    """The Arrow schema of a table's rows, with each field's id in its metadata.

    ``in_file`` is the form that a Parquet writer needs: there a UUID says that it is one.
    """
    return pa.schema([_field(member, in_file) for member in schema.fields])


def arrow_type_of(kind: IcebergType, *, in_file: bool = False) -> pa.DataType:
    """The Arrow type of an Iceberg type, nested ones included."""
    match kind:
        case StructType():
            return pa.struct([_field(member, in_file) for member in kind.fields])
        case ListType():
            return pa.list_(_field(kind.element_field, in_file))
        case MapType():
            return pa.map_(_field(kind.key_field, in_file), _field(kind.value_field, in_file))
        case UUIDType() if in_file:
            return pa.uuid()
    return arrow_type(kind)


def _field(member: NestedField, in_file: bool) -> pa.Field:
    ids = {FIELD_ID: str(member.field_id).encode()}
    return pa.field(member.name, arrow_type_of(member.field_type, in_file=in_file), not member.required, ids)
