"""Spark, Arrow, PyIceberg and SQL schemas become the same Iceberg schema."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyspark.sql import types as spark

from lakeshift.errors import ConfigError
from lakeshift.iceberg.schemas import to_iceberg_schema

pytestmark = pytest.mark.each_line  # pyspark's own types differ between the lines

SQL = (
    "id bigint not null comment 'the key', n int, r float, d double, ok boolean, day date, ts timestamp, "
    "wall timestamp_ntz, price decimal(12, 3), name string, raw binary, tags array<string>, "
    "counts map<string, bigint>, address struct<city: string, lines: array<struct<text: string>>>"
)
SPARK = spark.StructType(
    [
        spark.StructField("id", spark.LongType(), False, {"comment": "the key"}),
        spark.StructField("n", spark.IntegerType()),
        spark.StructField("r", spark.FloatType()),
        spark.StructField("d", spark.DoubleType()),
        spark.StructField("ok", spark.BooleanType()),
        spark.StructField("day", spark.DateType()),
        spark.StructField("ts", spark.TimestampType()),
        spark.StructField("wall", spark.TimestampNTZType()),
        spark.StructField("price", spark.DecimalType(12, 3)),
        spark.StructField("name", spark.StringType()),
        spark.StructField("raw", spark.BinaryType()),
        spark.StructField("tags", spark.ArrayType(spark.StringType())),
        spark.StructField("counts", spark.MapType(spark.StringType(), spark.LongType())),
        spark.StructField(
            "address",
            spark.StructType(
                [
                    spark.StructField("city", spark.StringType()),
                    spark.StructField(
                        "lines", spark.ArrayType(spark.StructType([spark.StructField("text", spark.StringType())]))
                    ),
                ]
            ),
        ),
    ]
)
ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), False, {"doc": "the key"}),
        ("n", pa.int32()),
        ("r", pa.float32()),
        ("d", pa.float64()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("price", pa.decimal128(12, 3)),
        ("name", pa.string()),
        ("raw", pa.large_binary()),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("address", pa.struct([("city", pa.string()), ("lines", pa.list_(pa.struct([("text", pa.string())])))])),
    ]
)


def test_every_form_gives_the_same_schema() -> None:
    from_sql = to_iceberg_schema(SQL)
    assert from_sql == to_iceberg_schema(SPARK)
    assert from_sql == to_iceberg_schema(ARROW)
    assert from_sql == to_iceberg_schema(from_sql)
    assert [f.field_id for f in from_sql.fields] == list(range(1, 15))
    assert from_sql.find_field("id").required
    assert from_sql.find_field("id").doc == "the key"
    assert not from_sql.find_field("address.city").required


def test_field_ids_of_a_given_schema_are_assigned_anew() -> None:
    given = Schema(NestedField(77, "id", LongType(), required=True))
    assert to_iceberg_schema(given).find_field("id").field_id == 1


def test_narrow_integers_and_chars_take_the_type_that_holds_them() -> None:
    schema = to_iceberg_schema("a tinyint, b smallint, c varchar(10), d char(3)")
    assert [str(f.field_type) for f in schema.fields] == ["int", "int", "string", "string"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "Cannot read the columns"),
        ("id", "Write name and type"),
        ("id bigint, ID string", "'id' appears twice"),
        ("id interval", "no type for column 'id'"),
        ("a struct<b: array<interval>>", r"no type for column 'a\.b\.element'"),
        ("id bigint); drop table x", "Cannot read the columns"),
        (pa.schema([("a", pa.duration("s"))]), "duration"),
        (spark.StructType([spark.StructField("n", spark.NullType())]), "no type for column 'n': void"),
        (42, "a int. Give a pyspark StructType"),
    ],
)
def test_what_cannot_become_a_table_is_refused_by_name(given: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        to_iceberg_schema(given)  # type: ignore[arg-type]
