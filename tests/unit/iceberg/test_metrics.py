"""Column metrics as the manifest keeps them, from real Parquet footers."""

from __future__ import annotations

import io
import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
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
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.errors import ConfigError
from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.metrics import FileMetrics, MetricsPlan
from lakeshift.iceberg.parquet_options import ParquetOptions


def collect(
    schema: Schema, *groups: pa.Table, properties: dict[str, str] | None = None, sorted_by: frozenset[int] = frozenset()
) -> FileMetrics:
    plan = MetricsPlan.of(schema, properties or {}, sorted_by)
    options = ParquetOptions.of(schema, properties or {})
    nans: dict[int, int] = {}
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, arrow_schema(schema), **options.writer_arguments) as writer:
        for rows in groups:
            writer.write_table(rows)
            for field_id, count in plan.count_nans(rows).items():
                nans[field_id] = nans.get(field_id, 0) + count
    return plan.collect(pq.ParquetFile(sink).metadata, nans)


def one_column(kind: IcebergType, *groups: list[Any], **more: Any) -> FileMetrics:
    schema = Schema(NestedField(1, "x", kind, required=False))
    target = arrow_schema(schema)
    return collect(
        schema, *(pa.table([pa.array(values, target.field(0).type)], schema=target) for values in groups), **more
    )


def bounds(kind: PrimitiveType, metrics: FileMetrics) -> tuple[Any, Any]:
    return from_bytes(kind, metrics.lower_bounds[1]), from_bytes(kind, metrics.upper_bounds[1])


@pytest.mark.parametrize(
    ("kind", "values", "lowest", "highest"),
    [
        (BooleanType(), [True, False], False, True),
        (IntegerType(), [5, -7, 3], -7, 5),
        (LongType(), [2**62, -(2**62)], -(2**62), 2**62),
        (FloatType(), [1.5, -2.5], -2.5, 1.5),
        (DoubleType(), [1.5, -2.5], -2.5, 1.5),
        (DateType(), [-10, 20], -10, 20),
        (TimeType(), [1, 86_399_999_999], 1, 86_399_999_999),
        (TimestampType(), [-1, 2**55], -1, 2**55),
        (TimestamptzType(), [-1, 2**55], -1, 2**55),
        (StringType(), ["b", "a"], "a", "b"),
        (BinaryType(), [b"\xff", b""], b"", b"\xff"),
        (FixedType(2), [b"ab", b"aa"], b"aa", b"ab"),
        (DecimalType(9, 2), [Decimal("-1.28"), Decimal("1.27")], Decimal("-1.28"), Decimal("1.27")),
        (DecimalType(18, 2), [Decimal("-1.29"), Decimal("1.28")], Decimal("-1.29"), Decimal("1.28")),
        (DecimalType(38, 2), [Decimal("-3.00"), Decimal("655.36")], Decimal("-3.00"), Decimal("655.36")),
    ],
)
def test_bounds_hold_the_extremes_of_every_row_group(
    kind: PrimitiveType, values: list[Any], lowest: Any, highest: Any
) -> None:
    metrics = one_column(kind, values[:1], [None], values[1:])
    assert bounds(kind, metrics) == (lowest, highest)
    assert metrics.value_counts == {1: len(values) + 1}
    assert metrics.null_value_counts == {1: 1}
    assert len(metrics.split_offsets) == 3


def test_bounds_of_a_uuid_are_its_bytes() -> None:
    low, high = UUID(int=1), UUID(int=2**127)
    metrics = one_column(UUIDType(), [high.bytes, low.bytes])
    assert (metrics.lower_bounds[1], metrics.upper_bounds[1]) == (low.bytes, high.bytes)


def test_not_a_number_is_counted_and_never_a_bound() -> None:
    metrics = one_column(DoubleType(), [math.nan, 1.0], [math.nan, -0.0])
    assert metrics.nan_value_counts == {1: 2}
    assert bounds(DoubleType(), metrics) == (-0.0, 1.0)


def test_a_row_group_of_nothing_but_nan_leaves_no_bounds() -> None:
    metrics = one_column(DoubleType(), [math.nan], [1.0])
    assert metrics.lower_bounds == metrics.upper_bounds == {}
    assert metrics.nan_value_counts == {1: 1}


def test_a_column_of_nulls_has_counts_and_no_bounds() -> None:
    metrics = one_column(StringType(), [None, None])
    assert metrics.null_value_counts == {1: 2}
    assert metrics.lower_bounds == metrics.upper_bounds == {}


@pytest.mark.parametrize(
    ("text", "lowest", "highest"),
    [
        ("a" * 20, "a" * 16, "a" * 15 + "b"),
        ("é" * 17, "é" * 16, "é" * 15 + "ê"),
        # The code point after U+D7FF is no character; the next one that is comes after the surrogates.
        ("\ud7ff" * 17, "\ud7ff" * 16, "\ud7ff" * 15 + "\ue000"),
        # Nothing follows the last code point, so the one before it grows.
        ("a" + "\U0010ffff" * 16, "a" + "\U0010ffff" * 15, "b"),
    ],
)
def test_long_texts_are_cut_by_code_points(text: str, lowest: str, highest: str) -> None:
    assert bounds(StringType(), one_column(StringType(), [text])) == (lowest, highest)


def test_a_text_that_nothing_short_can_bound_has_no_upper_bound() -> None:
    metrics = one_column(StringType(), ["\U0010ffff" * 17])
    assert 1 in metrics.lower_bounds
    assert 1 not in metrics.upper_bounds


def test_long_binaries_are_cut_by_bytes() -> None:
    metrics = one_column(BinaryType(), [b"a" + b"\xff" * 20])
    assert (metrics.lower_bounds[1], metrics.upper_bounds[1]) == (b"a" + b"\xff" * 15, b"b")


def test_nested_columns_have_counts_and_repeated_ones_no_bounds() -> None:
    schema = Schema(
        NestedField(1, "s", StructType(NestedField(2, "f", DoubleType())), required=False),
        NestedField(3, "l", ListType(4, LongType(), element_required=False), required=False),
        NestedField(5, "m", MapType(6, StringType(), 7, LongType(), value_required=False), required=False),
    )
    rows = pa.Table.from_pylist(
        [{"s": {"f": math.nan}, "l": [1, None], "m": [("k", 1)]}, {"s": None, "l": None, "m": None}],
        schema=arrow_schema(schema),
    )
    metrics = collect(schema, rows)
    assert metrics.value_counts == {2: 2, 4: 3, 6: 2, 7: 2}
    assert metrics.null_value_counts == {2: 1, 4: 2, 6: 1, 7: 1}
    assert metrics.nan_value_counts == {2: 1}
    assert metrics.lower_bounds == metrics.upper_bounds == {}


def test_the_table_says_how_much_is_told_of_each_column() -> None:
    schema = Schema(*(NestedField(i, name, StringType(), required=False) for i, name in enumerate("abcd", 1)))
    rows = pa.table([["xyz"]] * 4, schema=arrow_schema(schema))
    asked = {
        "write.metadata.metrics.default": "counts",
        "write.metadata.metrics.column.b": "none",
        "write.metadata.metrics.column.c": "truncate(1)",
        "write.metadata.metrics.column.d": "full",
    }
    metrics = collect(schema, rows, properties=asked)
    assert metrics.value_counts == {1: 1, 3: 1, 4: 1}
    assert metrics.lower_bounds == {3: b"x", 4: b"xyz"}
    assert metrics.upper_bounds == {3: b"y", 4: b"xyz"}
    assert set(metrics.column_sizes) == {1, 2, 3, 4}


def test_only_the_first_columns_of_a_wide_table_have_metrics() -> None:
    schema = Schema(*(NestedField(i, f"c{i}", LongType(), required=False) for i in range(1, 6)))
    rows = pa.table([[1]] * 5, schema=arrow_schema(schema))
    limited = {"write.metadata.metrics.max-inferred-column-defaults": "2"}
    assert set(collect(schema, rows, properties=limited).lower_bounds) == {1, 2}
    assert set(collect(schema, rows, properties=limited, sorted_by=frozenset({5})).lower_bounds) == {1, 2, 5}


@pytest.mark.parametrize("name", ["write.metadata.metrics.default", "write.metadata.metrics.column.x"])
def test_an_unknown_mode_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name} is 'most'; it must be none, counts"):
        one_column(StringType(), ["a"], properties={name: "most"})
