"""Iceberg schemas and rows as Spark takes them."""

from __future__ import annotations

from uuid import UUID

import pyarrow as pa
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


def test_the_schema_keeps_names_types_nullability_and_comments() -> None:
    found = spark_json(SCHEMA)["fields"]
    assert found[0] == {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "the key"}}
    assert [field["type"] for field in found[1:5]] == ["timestamp", "timestamp_ntz", "decimal(9,2)", "string"]
    inner = {field["name"]: field["type"] for field in found[5]["type"]["fields"]}
    assert inner == {
        "us": {"type": "array", "elementType": "string", "containsNull": True},
        "m": {"type": "map", "keyType": "string", "valueType": "binary", "valueContainsNull": True},
    }


def test_uuids_become_text_and_fixed_binaries_plain_at_any_depth() -> None:
    first, second = UUID(int=1), UUID(int=2**127)
    rows = [
        {"id": 1, "u": first.bytes, "st": {"us": [second.bytes, None], "m": [("k", b"ab"), ("l", None)]}},
        {"id": 2, "u": None, "st": None},
        {"id": 3, "u": second.bytes, "st": {"us": None, "m": None}},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(SCHEMA))
    expected = [
        {"id": 1, "u": str(first), "st": {"us": [str(second), None], "m": [("k", b"ab"), ("l", None)]}},
        {"id": 2, "u": None, "st": None},
        {"id": 3, "u": str(second), "st": {"us": None, "m": None}},
    ]
    convert = to_spark(SCHEMA)
    for start in range(3):
        found = convert(batch.slice(start)).select(["id", "u", "st"]).to_pylist()
        assert found == expected[start:]
    assert convert(batch).schema.field("u").type == pa.string()
    plain = batch.select(["id", "ts"])
    assert to_spark(SCHEMA.select("id", "ts"))(plain) is plain
