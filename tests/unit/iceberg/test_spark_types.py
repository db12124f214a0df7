"""Iceberg schemas and rows as Spark takes them."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    FixedType,
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

from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.kernels.read import FileToRead, ReadContext, read_file
from lakeshift.iceberg.spark_types import spark_json, to_spark

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True, doc="the key"),
    NestedField(2, "ts", TimestamptzType(), required=False),
    NestedField(3, "ntz", TimestampType(), required=False),
    NestedField(4, "price", DecimalType(9, 2), required=False),
    NestedField(5, "u", UUIDType(), required=False),
    NestedField(
        6,
        "st",
        StructType(
            NestedField(7, "us", ListType(8, UUIDType(), element_required=False), required=False),
            NestedField(9, "m", MapType(10, StringType(), 11, FixedType(2), value_required=False), required=False),
        ),
        required=False,
    ),
)


def _stored(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_stored(child) for child in kind]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_stored(kind.value_field)))
    return field.with_type(pa.binary(16)) if kind == pa.uuid() else field


def test_the_schema_keeps_names_types_nullability_and_comments() -> None:
    found = spark_json(SCHEMA)["fields"]
    assert found[0] == {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "the key"}}
    assert [field["type"] for field in found[1:5]] == ["timestamp", "timestamp_ntz", "decimal(9,2)", "string"]
    inner = {field["name"]: field["type"] for field in found[5]["type"]["fields"]}
    assert inner == {
        "us": {"type": "array", "elementType": "string", "containsNull": True},
        "m": {"type": "map", "keyType": "string", "valueType": "binary", "valueContainsNull": True},
    }


def test_uuids_become_text_and_fixed_binaries_plain_at_any_depth(tmp_path: Path) -> None:
    first, second = UUID(int=1), UUID(int=2**127)
    rows = [
        {"id": 1, "u": first.bytes, "st": {"us": [second.bytes, None], "m": [("k", b"ab"), ("l", None)]}},
        {"id": 2, "u": None, "st": None},
        {"id": 3, "u": second.bytes, "st": {"us": None, "m": None}},
    ]
    # Arrow cannot make nested UUIDs of Python values: the bytes are written, and read as the table has them.
    schema = arrow_schema(SCHEMA)
    stored = pa.Table.from_pylist(rows, schema=pa.schema([_stored(field) for field in schema]))
    pq.write_table(stored, tmp_path / "rows.parquet")
    context = ReadContext(SCHEMA, tuple(schema.names), (SCHEMA,), {0: PartitionSpec()})
    file = FileToRead(str(tmp_path / "rows.parquet"), "PARQUET", 0, 0, (), 3)
    (batch,) = read_file(file, context, PyArrowFileIO())
    assert batch.schema.field("u").type == pa.uuid()
    expected = [
        {"id": 1, "u": str(first), "st": {"us": [str(second), None], "m": [("k", b"ab"), ("l", None)]}},
        {"id": 2, "u": None, "st": None},
        {"id": 3, "u": str(second), "st": {"us": None, "m": None}},
    ]
    convert = to_spark(schema)
    for start in range(3):
        found = convert(batch.slice(start)).select(["id", "u", "st"]).to_pylist()
        assert found == expected[start:]
    assert convert(batch).schema.field("u").type == pa.string()
    plain = batch.select(["id", "ts"])
    assert to_spark(plain.schema)(plain) is plain
