"""Partition expressions as people write them."""

from __future__ import annotations

import pytest

from lakeshift.errors import ConfigError
from lakeshift.iceberg.partitioning import build_partition_spec, describe_spec, parse_partition_expression
from lakeshift.iceberg.schemas import to_iceberg_schema

SCHEMA = to_iceberg_schema(
    "id bigint, ts timestamp, sku string, `odd name` string, "
    "address struct<city: string, tags: array<struct<key: string>>>, price decimal(9, 2)"
)


@pytest.mark.parametrize(
    ("text", "source", "transform", "name"),
    [
        ("sku", "sku", "identity", "sku"),
        (" identity( sku ) ", "sku", "identity", "sku"),
        ("year(ts)", "ts", "year", "ts_year"),
        ("years(ts)", "ts", "year", "ts_year"),
        ("MONTHS(ts)", "ts", "month", "ts_month"),
        ("day(ts)", "ts", "day", "ts_day"),
        ("days(ts)", "ts", "day", "ts_day"),
        ("hour(ts)", "ts", "hour", "ts_hour"),
        ("bucket(16, id)", "id", "bucket[16]", "id_bucket_16"),
        ("bucket(id, 16)", "id", "bucket[16]", "id_bucket_16"),
        ("truncate(4,sku)", "sku", "truncate[4]", "sku_trunc_4"),
        ("void(sku)", "sku", "void", "sku_null"),
        ("address.city", "address.city", "identity", "address.city"),
        ("`odd name`", "odd name", "identity", "odd name"),
        ("truncate(2, `odd name`)", "odd name", "truncate[2]", "odd name_trunc_2"),
    ],
)
def test_expressions_are_read_as_written(text: str, source: str, transform: str, name: str) -> None:
    found = parse_partition_expression(text)
    assert (found.source, str(found.transform), found.name) == (source, transform, name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bucket(id)",
        "bucket(0, id)",
        "bucket(-1, id)",
        "bucket(x, id)",
        "day()",
        "day(a, b)",
        "week(ts)",
        "a b",
        "(",
        "day(ts",
    ],
)
def test_what_is_no_expression_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"day\(ts\), bucket\(16, id\)"):
        parse_partition_expression(text)


def test_a_spec_is_described_as_it_was_written() -> None:
    written = ["day(ts)", "bucket(16, id)", "truncate(4, sku)", "address.city", "odd name", "truncate(100, price)"]
    spec = build_partition_spec(SCHEMA, [f"`{text}`" if " name" in text else text for text in written])
    assert describe_spec(spec, [SCHEMA]) == written
    assert [field.field_id for field in spec.fields] == [1000, 1001, 1002, 1003, 1004, 1005]


@pytest.mark.parametrize(
    ("expressions", "message"),
    [
        (["nope"], "no column 'nope'; the schema has .*sku"),
        (["day(sku)"], r"day\(sku\): 'sku' is of type string"),
        (["address"], "'address' is of type struct"),
        (["address.tags.element.key"], "nested in structs only"),
        (["sku", "identity(sku)"], "'sku' appears twice"),
        (["truncate(2, ts)"], "is of type timestamptz"),
    ],
)
def test_a_spec_that_the_schema_cannot_carry_is_refused(expressions: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_partition_spec(SCHEMA, expressions)
