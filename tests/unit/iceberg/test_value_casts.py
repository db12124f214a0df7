"""Casts of values: which there are, which of them look at every value, and what they find."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
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
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.iceberg.bad_rows import Reason
from lakeshift.iceberg.value_casts import find_cast

D = Decimal
BIG, LOST, LENGTH, NO_ID = Reason.OVERFLOW, Reason.DIGITS_LOST, Reason.WRONG_LENGTH, Reason.NOT_A_UUID
SEVEN = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
ALL = [
    BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DecimalType(9, 2), StringType(), BinaryType(),
    FixedType(4), UUIDType(), DateType(), TimeType(), TimestampType(), TimestamptzType(),
]  # fmt: skip


def cast(array: pa.Array, target: IcebergType) -> tuple[list[Any], dict[int, Reason]]:
    found = find_cast(array.type, target)
    assert found is not None
    found = pickle.loads(pickle.dumps(found))
    made, faults = found.apply(array)
    assert made.type == found.target
    bad: dict[int, Reason] = {}
    for mask, reason in faults:
        assert mask.null_count == 0
        for row, is_bad in enumerate(mask.to_pylist()):
            if is_bad:
                bad.setdefault(row, reason)
    assert all(not made[row].is_valid for row in bad)
    if pa.types.is_temporal(made.type):
        made = made.view(pa.int32() if made.type.bit_width == 32 else pa.int64())
    return made.to_pylist(), bad


def moments(values: list[int | None], unit: str, zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone))


def days(values: list[int | None]) -> pa.Array:
    return pa.array(values, pa.int32()).cast(pa.date32())


def decimals(text: str, precision: int, scale: int) -> pa.Array:
    return pa.array([D(value) for value in text.split()], pa.decimal128(precision, scale))


@pytest.mark.parametrize(
    ("array", "target", "expected"),
    [
        (pa.array([-128, 127, None], pa.int8()), IntegerType(), [-128, 127, None]),
        (pa.array([2**16 - 1], pa.uint16()), IntegerType(), [2**16 - 1]),
        (pa.array([2**32 - 1], pa.uint32()), LongType(), [2**32 - 1]),
        (pa.array([1.5, None], pa.float16()), FloatType(), [1.5, None]),
        (pa.array([1.5], pa.float32()), DoubleType(), [1.5]),
        (pa.array([2**31 - 1], pa.int32()), DoubleType(), [2.0**31 - 1]),
        (pa.array([D("1.5"), None], pa.decimal128(4, 1)), DecimalType(9, 2), [D("1.50"), None]),
        (pa.array([D("1.5")], pa.decimal32(4, 1)), DecimalType(9, 2), [D("1.50")]),
        (pa.array([7], pa.int16()), DecimalType(9, 2), [D("7.00")]),
        (pa.array(["é", None]), StringType(), ["é", None]),
        (pa.array(["é", None], pa.large_string()), StringType(), ["é", None]),
        (pa.array(["é", None], pa.string_view()), StringType(), ["é", None]),
        (pa.array(["é", None, "é"]).dictionary_encode(), StringType(), ["é", None, "é"]),
        (pa.array([b"ab", None], pa.large_binary()), BinaryType(), [b"ab", None]),
        (pa.array([b"ab", None], pa.binary(2)), BinaryType(), [b"ab", None]),
        (pa.array([b"ab", None], pa.binary_view()), BinaryType(), [b"ab", None]),
        (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))), UUIDType(), [b"0" * 16]),
        (pa.array([5], pa.int32()).cast(pa.time32("s")), TimeType(), [5_000_000]),
        (moments([5, None], "us", "Europe/Berlin"), TimestamptzType(), [5, None]),
        (pa.nulls(2), LongType(), [None, None]),
        (pa.nulls(2), FixedType(3), [None, None]),
    ],
)
def test_safe_casts_keep_every_value(array: pa.Array, target: IcebergType, expected: list[Any]) -> None:
    assert cast(array, target) == (expected, {})
    assert cast(array.slice(1), target) == (expected[1:], {})


@pytest.mark.parametrize(
    ("array", "target", "expected"),
    [
        (
            pa.array([2**31 - 1, -(2**31), 2**31, -(2**31) - 1, None]),
            IntegerType(),
            [2**31 - 1, -(2**31), BIG, BIG, None],
        ),
        (pa.array([1, 2**63], pa.uint64()), LongType(), [1, BIG]),
        (pa.array([1, 2**31], pa.uint32()), IntegerType(), [1, BIG]),
        (pa.array([2**53, -(2**53) - 1, None]), DoubleType(), [2.0**53, LOST, None]),
        (pa.array([2**24, 2**24 + 1]), FloatType(), [2.0**24, LOST]),
        (decimals("1.20 1.23 100.00", 6, 2), DecimalType(3, 1), [D("1.2"), LOST, BIG]),
        (decimals("99.99 -100.00 100.01", 38, 2), DecimalType(4, 2), [D("99.99"), BIG, BIG]),
        (pa.array([D("1"), D(10**39), None], pa.decimal256(76, 0)), DecimalType(38, 0), [D("1"), BIG, None]),
        (pa.array([99, 100, -100, None]), DecimalType(4, 2), [D("99.00"), BIG, BIG, None]),
        (pa.array([2**64 - 1, 5], pa.uint64()), DecimalType(20, 1), [BIG, D("5.0")]),
        (decimals("5.00 5.50 2147483648 -2147483648", 20, 2), IntegerType(), [5, LOST, BIG, -(2**31)]),
        (decimals("9223372036854775808 1", 38, 0), LongType(), [BIG, 1]),
        (decimals("1.5 2.0", 3, 1), LongType(), [LOST, 2]),
        (moments([1000, 1001, -1, None], "ns"), TimestampType(), [1, LOST, LOST, None]),
        (moments([1, 2**62, None], "s", "UTC"), TimestamptzType(), [1_000_000, BIG, None]),
        (moments([1, -(2**63)], "ms"), TimestampType(), [1000, BIG]),
        (moments([1, 2**62], "us"), TimestampNanoType(), [1000, BIG]),
        (days([0, -1, 2**31 - 1, None]), TimestampType(), [0, -86_400_000_000, BIG, None]),
        (pa.array([86_400_000, 1, None], pa.int64()).cast(pa.date64()), DateType(), [1, LOST, None]),
        (pa.array([1000, 1, None], pa.int64()).cast(pa.time64("ns")), TimeType(), [1, LOST, None]),
        (pa.array([b"abcd", b"abc", b"", None]), FixedType(4), [b"abcd", LENGTH, LENGTH, None]),
        (pa.array([b"x" * 16, b"x" * 17], pa.large_binary()), UUIDType(), [b"x" * 16, LENGTH]),
        (
            pa.array([SEVEN, SEVEN.upper(), "7", SEVEN + "\n", None]),
            UUIDType(),
            [UUID(SEVEN).bytes] * 2 + [NO_ID, NO_ID, None],
        ),
    ],
)
def test_checked_casts_find_what_would_be_lost(array: pa.Array, target: IcebergType, expected: list[Any]) -> None:
    values = [None if isinstance(value, Reason) else value for value in expected]
    bad = {row: value for row, value in enumerate(expected) if isinstance(value, Reason)}
    assert cast(array, target) == (values, bad)
    assert cast(array.slice(1), target) == (values[1:], {row - 1: reason for row, reason in bad.items() if row})
    assert cast(array.slice(0, 0), target) == ([], {})


@pytest.mark.parametrize(
    ("source", "targets"),
    [
        (pa.string(), [StringType(), UUIDType()]),
        (pa.float64(), [DoubleType()]),
        (pa.float32(), [FloatType(), DoubleType()]),
        (pa.bool_(), [BooleanType()]),
        (pa.date32(), [DateType(), TimestampType()]),
        (pa.timestamp("us"), [TimestampType()]),
        (pa.timestamp("us", "UTC"), [TimestamptzType()]),
        (pa.binary(), [BinaryType(), FixedType(4), UUIDType()]),
        (pa.int64(), [IntegerType(), LongType(), FloatType(), DoubleType(), DecimalType(9, 2)]),
        (pa.decimal128(9, 2), [IntegerType(), LongType(), DecimalType(9, 2)]),
        (pa.time64("us"), [TimeType()]),
        (pa.duration("us"), []),
        (pa.struct([("a", pa.int32())]), []),
    ],
    ids=str,
)
def test_there_are_no_other_casts(source: pa.DataType, targets: list[IcebergType]) -> None:
    assert [target for target in ALL if find_cast(source, target)] == targets


def test_bytes_that_are_no_text_are_found() -> None:
    raw = pa.array([b"ok", b"\xff\xfe", None, b"\xed\xa0\x80", "é".encode()], pa.binary())
    text = raw.view(pa.string())
    for array in (text, raw.cast(pa.large_binary()).view(pa.large_string()), text.cast(pa.string_view())):
        assert cast(array, StringType()) == (["ok", None, None, None, "é"], {1: Reason.NOT_UTF8, 3: Reason.NOT_UTF8})
        assert cast(array.slice(4), StringType()) == (["é"], {})
