"""The Arrow form of an Iceberg schema, as our writers and readers hold rows: field ids in, large types out.

Plain strings, binaries and lists are what Spark hands over and what Parquet stores; the large forms that
PyIceberg prefers would cost a copy of every column.
"""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

FIELD_ID = b"PARQUET:field_id"


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table's rows, with each field's id in its metadata."""
    return pa.schema([_plain_field(field) for field in schema_to_pyarrow(schema)])


def _plain_field(field: pa.Field) -> pa.Field:
    ids = {FIELD_ID: field.metadata[FIELD_ID]} if field.metadata and FIELD_ID in field.metadata else None
    return pa.field(field.name, _plain_type(field.type), field.nullable, ids)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    return kind
