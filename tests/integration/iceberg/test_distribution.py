"""Spark's layout of rows: its keys tell rows apart exactly where Iceberg's partition values do."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import parse_transform

from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.distribution import transform_keys
from lakeshift.iceberg.schemas import to_iceberg_schema
from lakeshift.iceberg.transforms import PartitionValues

INTS = [0, 1, -1, 9, 10, -9, -10, -11, 2**31 - 1, -(2**31) + 8, None]
LONGS = [*INTS, 2**63 - 1, -(2**63) + 8]
# Around midnight, the turn of the year and the epoch, as microseconds.
MOMENTS = [0, -1, 1, 3_599_999_999, 3_600_000_000, 86_399_999_999, 86_400_000_000, -86_400_000_000, None]
MOMENTS += [moment - 31_536_000_000_000 for moment in MOMENTS if moment is not None] + [10**15, -(10**16), 10**16]
TEXTS = ["", "a", "ab", "abcd", "abce", "Straße", "\U0001f600\U0001f601\U0001f602", "日本語", None]

CASES = [
    ("int", INTS, ["identity", "bucket[16]", "truncate[10]"]),
    ("bigint", LONGS, ["identity", "bucket[16]", "truncate[10]", "bucket[1000]"]),
    ("date", [0, -1, 1, 30, 31, 364, 365, -365, -366, 20_000, None], ["year", "month", "day", "bucket[16]"]),
    ("timestamp", MOMENTS, ["year", "month", "day", "hour", "bucket[16]"]),
    ("timestamp_ntz", MOMENTS, ["year", "month", "day", "hour", "bucket[16]"]),
    ("string", TEXTS, ["identity", "bucket[16]", "truncate[3]"]),
    ("binary", [text and text.encode() for text in TEXTS], ["identity", "bucket[16]", "truncate[3]"]),
    (
        "decimal(9,2)",
        [None, *(Decimal(n).scaleb(-2) for n in (0, 1, -1, 49, 50, -50, -51))],
        ["bucket[16]", "truncate[50]"],
    ),
]


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_keys_are_equal_where_partition_values_are(spark: Any, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for kind, values, transforms in CASES:
            # Only moments know of time zones.
            if zone == "UTC" or kind.startswith("timestamp"):
                check(spark, kind, values, transforms)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def check(spark: Any, kind: str, values: list[Any], texts: list[str]) -> None:
    schema = to_iceberg_schema(f"x {kind}")
    column = _array(values, arrow_schema(schema).field(0).type)
    batch = pa.RecordBatch.from_arrays([column], names=["x"])
    frame = _frame(spark, column, kind)
    transforms = [parse_transform(text) for text in texts]
    keys = [transform_keys("`x`", frame.schema["x"].dataType, transform) for transform in transforms]
    named = [key.alias(f"k{at}_{n}") for at, found in enumerate(keys) for n, key in enumerate(found)]
    rows = sorted(frame.select("at", *named).collect(), key=lambda row: row.at)
    for at, (text, transform) in enumerate(zip(texts, transforms, strict=True)):
        spec = PartitionSpec(PartitionField(1, 1000, transform, "p"))
        expected = PartitionValues(schema, spec).compute(batch)[0].to_pylist()
        found = [tuple(row[f"k{at}_{n}"] for n in range(len(keys[at]))) for row in rows]
        assert _classes(found) == _classes(expected), (kind, text)
        if text.startswith("bucket"):
            assert [key[0] for key in found] == expected, (kind, text)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(kind):
        plain = pa.int32() if pa.types.is_date(kind) else pa.int64()
        return pa.array(values, plain).cast(kind)
    return pa.array(values, kind)


def _frame(spark: Any, column: pa.Array, kind: str) -> Any:
    """The values as Spark has them, handed over as Arrow so that no date passes through Python's calendar."""

    def give(batches: Any) -> Any:
        # A worker whose input is left unread is not used again.
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array(range(len(column))), column], names=["at", "x"])

    return spark.range(0, 1, 1, 1).mapInArrow(give, f"at long, x {kind}").localCheckpoint()


def _classes(values: list[Any]) -> list[int]:
    """For each value the place of the first that equals it."""
    return [values.index(value) for value in values]
