"""Which Arrow values may become values of a table's primitive type, and which of them would lose something.

A cast that can lose is checked value by value; one that would usually lose, or whose result depends on a time zone
or on a format, does not exist. Arrow compute alone: no Spark, no catalog, no file, no numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
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
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.iceberg.bad_rows import Reason
from lakeshift.iceberg.partition_types import arrow_type

Faults: TypeAlias = list[tuple[pa.Array, Reason]]

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_LAST_DAY = (2**63 - 1) // 86_400_000_000
_UUID_PATTERN = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"


class Certainty(Enum):
    """Whether a cast can fail for a value."""

    SAFE = "safe"
    CHECKED = "checked"


@dataclass(frozen=True)
class ValueCast:
    """How the values of a column become those of a table's primitive type. Picklable."""

    target: pa.DataType
    certainty: Certainty

    def apply(self, array: pa.Array) -> tuple[pa.Array, Faults]:
        """The values cast, null where that would lose something, and which those are."""
        array = plain(array)
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), self.target), []
        if array.type != self.target:
            if self.certainty is Certainty.SAFE:
                array = _cast(array, self.target)
            else:
                array, faults = self._checked(array)
                if faults:
                    return array, faults
        return without_broken_text(array) if pa.types.is_string(self.target) else (array, [])

    def _checked(self, array: pa.Array) -> tuple[pa.Array, Faults]:
        if not _is_special(array.type, self.target):
            # Most batches have no fault, and Arrow finds that out while it casts.
            try:
                return _cast(array, self.target), []
            except pa.ArrowInvalid:
                pass
        faults = [(pc.fill_null(mask, False), reason) for mask, reason in _faults(array, self.target)]
        faults = [(mask, reason) for mask, reason in faults if pc.any(mask).as_py()]
        for mask, _ in faults:
            array = pc.if_else(mask, pa.scalar(None, array.type), array)
        return _cast(array, self.target), faults


def find_cast(source: pa.DataType, target: IcebergType) -> ValueCast | None:
    """The cast from an Arrow type to a primitive type of Iceberg; None where there is none."""
    try:
        wanted = arrow_type(target)
    except TypeError:
        return None
    source = plain_type(source)
    if pa.types.is_null(source):
        return ValueCast(wanted, Certainty.SAFE)
    rule = _RULES.get(type(target))
    certainty = rule(source, wanted) if rule else None
    return ValueCast(wanted, certainty) if certainty else None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves, whatever encoding or extension is around them."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def plain(array: pa.Array) -> pa.Array:
    """The same values without encoding or extension."""
    while array.type != (kind := plain_type(array.type)):
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()
        else:
            array = array.cast(kind)
    return array


def without_broken_text(array: pa.Array) -> tuple[pa.Array, Faults]:
    """Text as it is, null where its bytes are not UTF-8: other readers, and some transforms, would fail on it."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        broken = pa.array([_is_broken(value) for value in array.cast(pa.binary()).to_pylist()], pa.bool_())
        return pc.if_else(broken, pa.scalar(None, array.type), array), [(broken, Reason.NOT_UTF8)]
    return array, []


def _is_broken(value: bytes | None) -> bool:
    try:
        _ = value is None or value.decode()
    except UnicodeDecodeError:
        return True
    return False


# Which casts there are.


def _when(safe: bool, checked: bool = False) -> Certainty | None:
    return Certainty.SAFE if safe else Certainty.CHECKED if checked else None


def _to_integer(source: pa.DataType, target: pa.DataType) -> Certainty | None:
    return _when(_fits(source, target.bit_width), pa.types.is_integer(source) or pa.types.is_decimal(source))


def _to_floating(source: pa.DataType, target: pa.DataType) -> Certainty | None:
    if pa.types.is_floating(source):
        return _when(source.bit_width <= target.bit_width)
    return _when(_fits(source, 25 if target.bit_width == 32 else 54), pa.types.is_integer(source))


def _to_decimal(source: pa.DataType, target: pa.DataType) -> Certainty | None:
    whole = target.precision - target.scale
    if pa.types.is_decimal(source):
        return _when(source.scale <= target.scale and source.precision - source.scale <= whole, True)
    return _when(pa.types.is_integer(source) and _decimal_digits(source) <= whole, pa.types.is_integer(source))


def _to_text(source: pa.DataType, target: pa.DataType) -> Certainty | None:
    return _when(_is_text(source))


def _to_binary(source: pa.DataType, target: pa.DataType) -> Certainty | None:
    return _when(_is_binary(source) or pa.types.is_fixed_size_binary(source))


def _to_fixed(source: pa.DataType, target: pa.DataType) -> Certainty | None:
    return _when(source == target, _is_binary(source))


def _to_uuid(source: pa.DataType, target: pa.DataType) -> Certainty | None:
    # Spark has no UUIDs: it shows and takes them as text.
    return _when(source == target, _is_binary(source) or _is_text(source))


def _to_date(source: pa.DataType, target: pa.DataType) -> Certainty | None:
    return _when(pa.types.is_date32(source), pa.types.is_date64(source))


def _to_time(source: pa.DataType, target: pa.DataType) -> Certainty | None:
    return _when(pa.types.is_time(source) and source.unit != "ns", pa.types.is_time(source))


def _to_timestamp(source: pa.DataType, target: pa.DataType) -> Certainty | None:
    if pa.types.is_date32(source):
        return _when(False, target.tz is None)  # midnight is only clear without a zone
    if not pa.types.is_timestamp(source) or (source.tz is None) != (target.tz is None):
        return None
    return _when(source.unit == target.unit, True)


_RULES: dict[type[IcebergType], Callable[[pa.DataType, pa.DataType], Certainty | None]] = {
    BooleanType: lambda source, _: _when(pa.types.is_boolean(source)),
    IntegerType: _to_integer,
    LongType: _to_integer,
    FloatType: _to_floating,
    DoubleType: _to_floating,
    DecimalType: _to_decimal,
    StringType: _to_text,
    BinaryType: _to_binary,
    FixedType: _to_fixed,
    UUIDType: _to_uuid,
    DateType: _to_date,
    TimeType: _to_time,
    TimestampType: _to_timestamp,
    TimestamptzType: _to_timestamp,
    TimestampNanoType: _to_timestamp,
    TimestamptzNanoType: _to_timestamp,
}


def _fits(source: pa.DataType, bits: int) -> bool:
    """Whether every integer of the type fits a signed number of this many bits."""
    return bool(pa.types.is_integer(source) and source.bit_width + pa.types.is_unsigned_integer(source) <= bits)


def _decimal_digits(source: pa.DataType) -> int:
    return {8: 3, 16: 5, 32: 10, 64: 20 if pa.types.is_unsigned_integer(source) else 19}[source.bit_width]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


# How they are done.


def _is_special(source: pa.DataType, target: pa.DataType) -> bool:
    """Casts whose faults must be known first, as Arrow has no cast that would find them."""
    return bool(pa.types.is_fixed_size_binary(target))


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_binary(target) and (_is_text(array.type) or _is_binary(array.type)):
        return _fixed(array, target)
    if pa.types.is_integer(array.type) and pa.types.is_decimal(target):
        array = array.cast(pa.decimal128(20, 0))  # Arrow wants room for any integer, whatever the values are
    return array.cast(target)


def _fixed(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Texts of UUIDs, or binary values, all known to be right, as values of a fixed length."""
    width = target.byte_width
    if _is_text(array.type):
        digits = pc.replace_substring(pc.fill_null(array, "0" * 32), "-", "")
        content = bytes.fromhex("".join(digits.to_pylist()))
    else:
        content = b"".join(pc.fill_null(array, b"\0" * width).to_pylist())
    validity = array.is_valid()
    fixed = pa.Array.from_buffers(target, len(array), [None, pa.py_buffer(content)])
    return fixed if array.null_count == 0 else pc.if_else(validity, fixed, pa.scalar(None, target))


def _faults(array: pa.Array, target: pa.DataType) -> Faults:
    source = array.type
    if pa.types.is_fixed_size_binary(target):
        if _is_text(source):
            return [(pc.invert(pc.match_substring_regex(array, _UUID_PATTERN)), Reason.NOT_A_UUID)]
        return [(pc.not_equal(pc.binary_length(array), target.byte_width), Reason.WRONG_LENGTH)]
    if pa.types.is_decimal(source) or pa.types.is_decimal(target):
        return _decimal_faults(array, target)
    if pa.types.is_integer(source):
        if pa.types.is_integer(target):
            limit = 2 ** (target.bit_width - 1)
            return [(_outside(array, -limit, limit - 1), Reason.OVERFLOW)]
        exact = 2 ** (24 if target.bit_width == 32 else 53)
        return [(_outside(array, -exact, exact), Reason.DIGITS_LOST)]
    if pa.types.is_date32(source):
        return [(_outside(array.view(pa.int32()), -_LAST_DAY, _LAST_DAY), Reason.OVERFLOW)]
    if pa.types.is_date64(source):
        numbers = array.view(pa.int64())
        limit = 86_400_000 * 2**31
        return [
            (_outside(numbers, -limit, limit - 1), Reason.OVERFLOW),
            (_has_remainder(numbers, 86_400_000), Reason.DIGITS_LOST),
        ]
    ratio = _UNITS[source.unit] // _UNITS[target.unit]
    if ratio > 1:
        return [(_has_remainder(array.view(pa.int64()), ratio), Reason.DIGITS_LOST)]
    limit = (2**63 - 1) // (_UNITS[target.unit] // _UNITS[source.unit])
    return [(_outside(array.view(pa.int64()), -limit, limit), Reason.OVERFLOW)]


def _decimal_faults(array: pa.Array, target: pa.DataType) -> Faults:
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    kind, faults = array.type, []
    scale = target.scale if pa.types.is_decimal(target) else 0
    if pa.types.is_decimal(target):
        high = 10 ** (target.precision - target.scale) - 1
        low = -high
    else:
        low, high = -(2 ** (target.bit_width - 1)), 2 ** (target.bit_width - 1) - 1
    whole = pc.round(array, ndigits=0, round_mode="towards_zero") if kind.scale > 0 else array
    if high < 10 ** (kind.precision - kind.scale):
        faults.append((_outside(whole, Decimal(low), Decimal(high)), Reason.OVERFLOW))
    if scale < kind.scale:
        kept = pc.round(array, ndigits=scale, round_mode="towards_zero")
        faults.append((pc.not_equal(kept, array), Reason.DIGITS_LOST))
    return faults


def _outside(array: pa.Array, low: int | Decimal, high: int | Decimal) -> pa.Array:
    masks = []
    if not (pa.types.is_unsigned_integer(array.type) and low < 0):
        masks.append(pc.less(array, pa.scalar(low, array.type)))
    masks.append(pc.greater(array, pa.scalar(high, array.type)))
    return masks[0] if len(masks) == 1 else pc.or_(*masks)


def _has_remainder(numbers: pa.Array, divisor: int) -> pa.Array:
    return pc.not_equal(pc.multiply(pc.divide(numbers, divisor), divisor), numbers)
