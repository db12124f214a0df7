"""Partition values against the definitions of the Iceberg specification, worked out here value by value."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Context, Decimal
from typing import Any

import mmh3
import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
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
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.errors import BadRowsError, SpecNotWritableError
from lakeshift.iceberg.transforms import PartitionValues

EXACT = Context(prec=50)
DAY, HOUR = 86_400_000_000, 3_600_000_000
INTS = [0, 1, -1, 9, 10, -9, -10, -11, 34, 2**31 - 1, -(2**31) + 8, None]
LONGS = [*INTS, 2**63 - 1, -(2**63) + 8]
MICROS = [0, 1, -1, DAY, -DAY, -DAY - 1, HOUR, -HOUR, -HOUR - 1, 1_767_225_599_999_999, -62_135_596_800_000_001, None]
STRINGS = ["", "a", "ab", "abc", "abcd", "iceberg", "é", "日本語", "𝄞😀x", "e\u0301a\u0301", "\x00\x01", "🏳️‍🌈ab", None]
BYTES = [b"", b"\x00", b"abc", b"abcd", b"\xff\xfe\xfd\xfc\xfb", None]
UNSCALED = [0, 1, -1, 127, 128, -128, -129, 255, 256, 65535, 10_05, -10_05, 99_999_990, -99_999_990, None]


def values_of(
    transform: str, source: IcebergType, array: pa.Array, *, required: bool = False
) -> tuple[pa.Array, PartitionValues]:
    schema = Schema(NestedField(7, "v", source, required=required))
    spec = PartitionSpec(PartitionField(7, 1000, parse_transform(transform), "p"), spec_id=3)
    computer = pickle.loads(pickle.dumps(PartitionValues(schema, spec)))
    (found,) = computer.compute(pa.record_batch([array], ["v"]))
    assert found.type == computer.types[0]
    return found, computer


def each(function: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    return [None if value is None else function(value) for value in values]


def bucket_of(content: bytes, count: int = 16) -> int:
    return (mmh3.hash(content) & 0x7FFFFFFF) % count


def long_bucket(value: int) -> int:
    return bucket_of(struct.pack("<q", value))


def minimal_bytes(unscaled: int) -> bytes:
    length = (8 + (unscaled + (unscaled < 0)).bit_length()) // 8
    return unscaled.to_bytes(length, "big", signed=True)


def decimals(unscaled: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    return pa.array(each(lambda value: Decimal(value).scaleb(-kind.scale, EXACT), unscaled), kind)


def moments(micros: Sequence[int | None], zone: str | None = None) -> pa.Array:
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", zone))


@pytest.mark.parametrize(
    ("source", "array"),
    [
        (IntegerType(), pa.array(INTS, pa.int32())),
        (LongType(), pa.array(LONGS, pa.int64())),
        (DateType(), pa.array(INTS, pa.int32()).cast(pa.date32())),
        (TimeType(), pa.array([0, 1, DAY - 1, None], pa.int64()).cast(pa.time64("us"))),
        (TimestampType(), pa.array(MICROS, pa.int64()).cast(pa.timestamp("us"))),
        (TimestamptzType(), pa.array(MICROS, pa.int64()).cast(pa.timestamp("us", "UTC"))),
    ],
    ids=str,
)
def test_whole_numbers_fall_into_the_bucket_of_their_eight_bytes(source: IcebergType, array: pa.Array) -> None:
    found, _ = values_of("bucket[16]", source, array)
    stored = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()
    assert found.to_pylist() == each(long_bucket, stored)


@pytest.mark.parametrize("source", [TimestampNanoType(), TimestamptzNanoType()], ids=str)
def test_nanoseconds_fall_into_the_bucket_of_their_microseconds(source: IcebergType) -> None:
    zone = "UTC" if isinstance(source, TimestamptzNanoType) else None
    nanos = [0, -1, 999, 1000, -1001, 2**63 - 1, None]
    found, _ = values_of("bucket[16]", source, pa.array(nanos, pa.int64()).cast(pa.timestamp("ns", zone)))
    assert found.to_pylist() == each(lambda value: long_bucket(value // 1000), nanos)


@pytest.mark.parametrize(
    "arrow", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_strings_in_every_arrow_form(arrow: pa.DataType) -> None:
    array = pa.array(STRINGS, pa.string()).cast(arrow)
    assert values_of("bucket[16]", StringType(), array)[0].to_pylist() == each(lambda s: bucket_of(s.encode()), STRINGS)
    # Python counts code points, as the specification does: an emoji is one, however it is encoded.
    assert values_of("truncate[3]", StringType(), array)[0].to_pylist() == each(lambda s: s[:3], STRINGS)
    assert values_of("identity", StringType(), array)[0].to_pylist() == STRINGS


@pytest.mark.parametrize("arrow", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_binary_in_every_arrow_form(arrow: pa.DataType) -> None:
    array = pa.array(BYTES, arrow)
    assert values_of("bucket[16]", BinaryType(), array)[0].to_pylist() == each(bucket_of, BYTES)
    assert values_of("truncate[3]", BinaryType(), array)[0].to_pylist() == each(lambda b: b[:3], BYTES)
    assert values_of("identity", BinaryType(), array)[0].to_pylist() == BYTES


def test_fixed_and_uuid_fall_into_the_bucket_of_their_bytes() -> None:
    content = [bytes(range(16)), b"\xff" * 16, None]
    assert values_of("bucket[16]", FixedType(16), pa.array(content, pa.binary(16)))[0].to_pylist() == each(
        bucket_of, content
    )
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(content, pa.binary(16)))
    for array in (uuids, uuids.storage):
        assert values_of("bucket[16]", UUIDType(), array)[0].to_pylist() == each(bucket_of, content)
        assert values_of("identity", UUIDType(), array)[0].to_pylist() == content


@pytest.mark.parametrize("kind", [pa.decimal128(9, 2), pa.decimal128(18, 4), pa.decimal128(38, 10)], ids=str)
def test_decimals_by_their_unscaled_values(kind: pa.DataType) -> None:
    array, source = decimals(UNSCALED, kind), DecimalType(kind.precision, kind.scale)
    assert values_of("bucket[16]", source, array)[0].to_pylist() == each(
        lambda u: bucket_of(minimal_bytes(u)), UNSCALED
    )
    found, _ = values_of("truncate[10]", source, array)
    assert found.type == kind
    assert found.to_pylist() == decimals(each(lambda u: u - u % 10, UNSCALED), kind).to_pylist()


def test_wide_decimals_by_their_unscaled_values() -> None:
    wide = [10**37, -(10**37), 2**120 + 1, -(2**120) - 1, 10**38 - 1]
    array = decimals(wide, pa.decimal128(38, 0))
    assert values_of("bucket[16]", DecimalType(38, 0), array)[0].to_pylist() == [
        bucket_of(minimal_bytes(u)) for u in wide
    ]
    found, _ = values_of("truncate[1000]", DecimalType(38, 0), array)
    assert found.to_pylist() == [Decimal(u - u % 1000) for u in wide]


@pytest.mark.parametrize("width", [1, 10, 7, 2**30])
def test_numbers_are_truncated_downwards(width: int) -> None:
    numbers = [v for v in LONGS if v is None or v - v % width >= -(2**63)]
    found, _ = values_of(f"truncate[{width}]", LongType(), pa.array(numbers, pa.int64()))
    assert found.to_pylist() == each(lambda v: v - v % width, numbers)
    numbers = [v for v in INTS if v is None or v - v % width >= -(2**31)]
    found, _ = values_of(f"truncate[{width}]", IntegerType(), pa.array(numbers, pa.int32()))
    assert found.to_pylist() == each(lambda v: v - v % width, numbers)


def civil(days: int) -> tuple[int, int]:
    """Year and month of a day: Python's calendar, moved by whole 400-year cycles."""
    cycles, rest = divmod(days, 146_097)
    day = date(1970, 1, 1) + timedelta(rest)
    return day.year + 400 * cycles, day.month


DAYS = [
    0,
    1,
    -1,
    30,
    31,
    -31,
    -32,
    364,
    365,
    -365,
    -366,
    19_723,
    -719_162,
    -719_163,
    2_932_896,
    -(2**31),
    2**31 - 1,
    None,
]


@pytest.mark.parametrize("beyond_arrow", [False, True])
def test_dates_before_and_after_1970(beyond_arrow: bool) -> None:
    days = [d for d in DAYS if beyond_arrow or d is None or abs(d) < 10_000_000]
    array = pa.array(days, pa.int32()).cast(pa.date32())
    assert values_of("year", DateType(), array)[0].to_pylist() == each(lambda d: civil(d)[0] - 1970, days)
    months = each(lambda d: (civil(d)[0] - 1970) * 12 + civil(d)[1] - 1, days)
    assert values_of("month", DateType(), array)[0].to_pylist() == months
    assert values_of("day", DateType(), array)[0].to_pylist() == days


@pytest.mark.parametrize(
    "source", [TimestampType(), TimestamptzType(), TimestampNanoType(), TimestamptzNanoType()], ids=str
)
def test_timestamps_are_rounded_down(source: IcebergType) -> None:
    nano = "ns" in str(source)
    zone = "UTC" if "tz" in str(source) else None
    day = DAY * 1000 if nano else DAY
    moments = [m if m is None or not nano else m * 1000 for m in MICROS if m is None or m > -(10**16)]
    moments += [-1, 1, 2**63 - 1, -(2**63)] if nano else [2**31 * HOUR - 1, -(2**31) * HOUR]
    array = pa.array(moments, pa.int64()).cast(pa.timestamp("ns" if nano else "us", zone))
    assert values_of("day", source, array)[0].to_pylist() == each(lambda m: m // day, moments)
    assert values_of("hour", source, array)[0].to_pylist() == each(lambda m: m // (day // 24), moments)
    assert values_of("year", source, array)[0].to_pylist() == each(lambda m: civil(m // day)[0] - 1970, moments)
    months = each(lambda m: (civil(m // day)[0] - 1970) * 12 + civil(m // day)[1] - 1, moments)
    assert values_of("month", source, array)[0].to_pylist() == months


def test_a_zone_is_how_a_moment_is_shown_not_when_it_is() -> None:
    array = pa.array([0, -1], pa.int64()).cast(pa.timestamp("us", "America/New_York"))
    assert values_of("hour", TimestamptzType(), array)[0].to_pylist() == [0, -1]
    assert values_of("day", TimestamptzType(), array)[0].to_pylist() == [0, -1]


@pytest.mark.parametrize(
    ("source", "values", "arrow"),
    [
        (BooleanType(), [True, False, None], pa.bool_()),
        (FloatType(), [1.5, -0.0, float("inf"), None], pa.float32()),
        (DoubleType(), [1.5, -0.0, float("inf"), None], pa.float64()),
        (IntegerType(), INTS, pa.int32()),
        (LongType(), LONGS, pa.int64()),
        (DateType(), INTS, pa.date32()),
        (TimeType(), [0, DAY - 1, None], pa.time64("us")),
        (TimestampType(), MICROS, pa.timestamp("us")),
        (TimestamptzType(), MICROS, pa.timestamp("us", "UTC")),
        (FixedType(2), [b"ab", None], pa.binary(2)),
    ],
    ids=str,
)
def test_identity_is_the_value(source: IcebergType, values: list[Any], arrow: pa.DataType) -> None:
    array = pa.array(values, pa.int64() if pa.types.is_temporal(arrow) and arrow.bit_width == 64 else None)
    array = pa.array(values, pa.int32()).cast(arrow) if arrow == pa.date32() else array.cast(arrow)
    found, _ = values_of("identity", source, array)
    assert found.equals(array)


def test_void_is_null_even_if_its_column_is_gone() -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    spec = PartitionSpec(
        PartitionField(1, 1000, parse_transform("void"), "id_null"),
        PartitionField(9, 1001, parse_transform("void"), "gone_null"),
    )
    computer = PartitionValues(schema, spec)
    values = computer.compute(pa.record_batch([pa.array([1, 2])], ["id"]))
    assert [value.to_pylist() for value in values] == [[None, None], [None, None]]
    assert [value.type for value in values] == list(computer.types) == [pa.int64(), pa.null()]


def test_a_nested_source_is_null_where_its_parent_is() -> None:
    address = StructType(
        NestedField(3, "city", StringType()), NestedField(4, "geo", StructType(NestedField(5, "lat", LongType())))
    )
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "address", address))
    spec = PartitionSpec(
        PartitionField(3, 1000, parse_transform("truncate[1]"), "city"),
        PartitionField(5, 1001, parse_transform("identity"), "lat"),
    )
    # The child below a null parent holds a value all the same: it must not show.
    city = pa.array(["rome", "ghost", None, "oslo"])
    geo = pa.StructArray.from_arrays([pa.array([1, 2, 3, 4])], ["lat"], mask=pa.array([False, False, False, True]))
    parent = pa.StructArray.from_arrays([city, geo], ["city", "geo"], mask=pa.array([False, True, False, False]))
    batch = pa.record_batch([pa.array([1, 2, 3, 4]), parent], ["id", "address"])
    cities, latitudes = PartitionValues(schema, spec).compute(batch)
    assert cities.to_pylist() == ["r", None, None, "o"]
    assert latitudes.to_pylist() == [1, None, 3, None]
    sliced = PartitionValues(schema, spec).compute(batch.slice(1))
    assert [value.to_pylist() for value in sliced] == [[None, None, "o"], [None, 3, None]]


def test_slices_and_empty_batches() -> None:
    array = pa.array(LONGS, pa.int64()).slice(3)
    assert values_of("bucket[16]", LongType(), array)[0].to_pylist() == each(long_bucket, LONGS[3:])
    for transform in ("bucket[4]", "truncate[4]", "identity", "void"):
        assert len(values_of(transform, LongType(), pa.array([], pa.int64()))[0]) == 0
    for transform in ("year", "month", "day", "hour"):
        nulls = pa.nulls(2, pa.timestamp("us"))
        assert values_of(transform, TimestampType(), nulls)[0].to_pylist() == [None, None]
        assert len(values_of(transform, TimestampType(), nulls.slice(2))[0]) == 0


@pytest.mark.parametrize(
    ("transform", "source", "array", "bad"),
    [
        ("truncate[10]", IntegerType(), pa.array([-(2**31), -(2**31) + 7, -(2**31) + 8, None], pa.int32()), [0, 1]),
        ("truncate[10]", LongType(), pa.array([5, -(2**63)], pa.int64()), [1]),
        ("truncate[10]", DecimalType(4, 2), decimals([-9990, -9991, 9999, None], pa.decimal128(4, 2)), [1]),
        ("truncate[10]", DecimalType(38, 0), decimals([-(10**38) + 1], pa.decimal128(38, 0)), [0]),
        ("hour", TimestampType(), moments([2**31 * HOUR - 1, 2**31 * HOUR, 2**63 - 1]), [1, 2]),
        ("hour", TimestamptzType(), moments([-(2**31) * HOUR - 1, None], "UTC"), [0]),
        # The result would be 0, but Java's arithmetic overflows on the way and files under it would not be found.
        ("truncate[2147483647]", IntegerType(), pa.array([0, 1, 5, 2**31 - 1, -1], pa.int32()), [1, 2]),
    ],
)  # fmt: skip
def test_values_without_a_partition_value_are_reported(
    transform: str, source: IcebergType, array: pa.Array, bad: list[int]
) -> None:
    schema = Schema(NestedField(1, "v", source))
    spec = PartitionSpec(PartitionField(1, 1000, parse_transform(transform), "p"))
    computer, batch = PartitionValues(schema, spec), pa.record_batch([array], ["v"])
    computed = computer.attempt(batch)
    (failure,) = computed.uncomputable
    assert (failure.field, failure.column, failure.rows.to_pylist()) == ("p", "v", bad)
    assert "(v)" in failure.transform or ", v)" in failure.transform
    assert all(computed.values[0][row].as_py() is None for row in bad)
    good = pa.array([row for row in range(len(array)) if row not in bad], pa.int64())
    assert computed.values[0].take(good).equals(computer.compute(batch.take(good))[0])
    with pytest.raises(BadRowsError, match="no result for .*correct column 'v'"):
        computer.compute(batch)


def test_fields_that_cannot_be_computed_are_refused_before_any_row() -> None:
    nested = ListType(3, StringType())
    schema = Schema(NestedField(1, "d", DoubleType()), NestedField(2, "tags", nested), NestedField(4, "t", TimeType()))
    for source_id, transform, reason in [
        (1, "bucket[4]", "not defined for double"),
        (1, "day", "not defined for double"),
        (4, "hour", "not defined for time"),
        (3, "identity", "within a list or a map"),
        (9, "identity", "no column with id 9"),
        (1, "zorder[3]", "not defined"),
    ]:
        spec = PartitionSpec(PartitionField(source_id, 1000, parse_transform(transform), "p"), spec_id=5)
        with pytest.raises(SpecNotWritableError, match=f"'p' of spec 5 .*{reason}"):
            PartitionValues(schema, spec)
