"""What a literal of Spark SQL is as a value of an Iceberg column, where that is certain.

Spark casts whatever is compared to a common type, by rules that depend on its version and settings. A literal
counts here only if every such rule gives the same comparison; anything else is None, and Spark decides. No
Spark here, and no rows.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Context, Decimal
from enum import Enum, auto
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyiceberg.expressions.literals import DateLiteral, DecimalLiteral, Literal, TimestampLiteral, UUIDLiteral, literal
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

if TYPE_CHECKING:
    from sqlglot import exp

_INTEGER = re.compile(r"\d+")
_DECIMAL = re.compile(r"\d+\.\d*|\.\d+")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIMESTAMP = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[ T](?P<time>(?:[01]\d|2[0-3]):\d{2}(?::\d{2}(?:\.\d{1,6})?)?)(?P<zone>Z|[+-]\d{2}:\d{2})?)?"
)
_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SPECIAL_DOUBLES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INTEGER_RANGES = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_EPOCH = datetime(1970, 1, 1)
# Outside these, Python's and Java's tables of time zones may differ.
_SETTLED_YEARS = range(1971, 2037)
# Every integer up to here is a value of its own in a 32-bit float.
_FLOAT_INTEGERS = 2**24
_DIGITS = 38
# Room for every decimal of 38 digits, so that nothing is rounded.
_WIDE = Context(prec=100)


class Kind(Enum):
    """What Spark takes a literal for, before it casts it to anything."""

    NULL = auto()
    BOOLEAN = auto()
    INTEGER = auto()
    DECIMAL = auto()
    DOUBLE = auto()
    STRING = auto()
    DATE = auto()
    TIMESTAMP = auto()
    TIMESTAMP_NTZ = auto()


@dataclass(frozen=True)
class SqlValue:
    """A literal as it was written: its kind, and its value or text."""

    kind: Kind
    value: Any


def read_literal(node: exp.Expr, *, trust_strings: bool) -> SqlValue | None:
    """The literal that a piece of SQL is; None if it is anything else, or not certain.

    ``trust_strings`` is False where the text has escapes, which Spark reads by its settings.
    """
    from sqlglot import exp

    match node:
        case exp.Paren():
            return read_literal(node.this, trust_strings=trust_strings)
        case exp.Null():
            return SqlValue(Kind.NULL, None)
        case exp.Boolean():
            return SqlValue(Kind.BOOLEAN, bool(node.this))
        case exp.Neg():
            found = read_literal(node.this, trust_strings=trust_strings)
            if found is None or found.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE):
                return None
            return _in_range(SqlValue(found.kind, -found.value))
        case exp.Literal() if node.is_string:
            return SqlValue(Kind.STRING, str(node.this)) if trust_strings else None
        case exp.Literal():
            return _number(str(node.this))
        case exp.Cast():
            return _typed(node, trust_strings)
        case _:
            return None


def _number(text: str) -> SqlValue | None:
    if _INTEGER.fullmatch(text):
        return SqlValue(Kind.INTEGER, int(text))
    if _DECIMAL.fullmatch(text):
        return SqlValue(Kind.DECIMAL, Decimal(text))
    try:
        number = float(text)
    except ValueError:
        return None
    return SqlValue(Kind.DOUBLE, number) if math.isfinite(number) else None


def _in_range(value: SqlValue) -> SqlValue | None:
    """Spark makes a decimal of an integer that no long can hold."""
    if value.kind is Kind.INTEGER and not -(2**63) <= value.value < 2**63:
        return None
    return value


def _typed(node: exp.Cast, trust_strings: bool) -> SqlValue | None:
    """``5L``, ``DATE '2026-01-01'`` and other casts of literals that lose nothing."""
    if node.args.get("safe"):
        return None
    inner = read_literal(node.this, trust_strings=trust_strings)
    wanted = node.to.this.value
    if inner is None:
        return None
    match inner.kind, wanted:
        case Kind.INTEGER, "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            limit = 2 ** (_INTEGER_RANGES[wanted] - 1)
            return inner if -limit <= inner.value < limit else None
        case ((Kind.INTEGER | Kind.DECIMAL | Kind.DOUBLE), "DOUBLE"):
            return SqlValue(Kind.DOUBLE, float(inner.value))
        case ((Kind.INTEGER | Kind.DECIMAL | Kind.DOUBLE), "FLOAT"):
            number = float(inner.value)
            return SqlValue(Kind.DOUBLE, number) if number == inner.value and _is_float(number) else None
        case Kind.STRING, "DOUBLE" if inner.value in _SPECIAL_DOUBLES:
            return SqlValue(Kind.DOUBLE, _SPECIAL_DOUBLES[inner.value])
        case Kind.STRING, "DECIMAL" if isinstance(_number(inner.value), SqlValue):
            return _big_decimal(inner.value, node)
        case Kind.STRING, "DATE" if _DATE.fullmatch(inner.value):
            return SqlValue(Kind.DATE, inner.value)
        case Kind.STRING, "TIMESTAMPTZ" | "TIMESTAMPLTZ":
            return SqlValue(Kind.TIMESTAMP, inner.value)
        case Kind.STRING, "TIMESTAMPNTZ":
            return SqlValue(Kind.TIMESTAMP_NTZ, inner.value)
    return None


def _big_decimal(text: str, node: exp.Cast) -> SqlValue | None:
    """``5.5BD``, which comes as a cast to the very precision and scale that the text has."""
    if not (_INTEGER.fullmatch(text) or _DECIMAL.fullmatch(text)):
        return None
    number = Decimal(text)
    sizes = [int(str(parameter.this.this)) for parameter in node.to.expressions]
    precision, scale = _size(number)
    return SqlValue(Kind.DECIMAL, number) if sizes == [max(precision, scale), scale] else None


def fit(value: SqlValue, column: IcebergType, session_time_zone: str | None, *, in_list: bool) -> Literal[Any] | None:
    """The literal to compare a column with; None if only Spark can tell, or if the value is NaN.

    In a list Spark may compare as text what it would otherwise cast: there, text must be spelled as Spark spells it.
    """
    match column, value.kind:
        case BooleanType(), Kind.BOOLEAN:
            return literal(value.value)
        case ((IntegerType() | LongType()), Kind.INTEGER):
            return literal(value.value) if -(2**63) <= value.value < 2**63 else None
        case ((FloatType() | DoubleType()), (Kind.INTEGER | Kind.DECIMAL | Kind.DOUBLE)):
            return _fit_floating(value, column)
        case DecimalType(), (Kind.INTEGER | Kind.DECIMAL):
            return _fit_decimal(value, column)
        case StringType(), Kind.STRING:
            return literal(value.value)
        case UUIDType(), Kind.STRING:
            # To Spark it is text in lower case.
            return UUIDLiteral(UUID(value.value).bytes) if _UUID.fullmatch(value.value) else None
        case DateType(), (Kind.DATE | Kind.STRING):
            day = _day(value.value)
            return None if day is None else DateLiteral((day - _EPOCH.date()).days)
        case ((TimestampType() | TimestamptzType()), (Kind.DATE | Kind.STRING | Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ)):
            if in_list and value.kind is Kind.STRING:
                return None
            return _fit_timestamp(value, column, session_time_zone)
    return None


def _fit_floating(value: SqlValue, column: IcebergType) -> Literal[Any] | None:
    if value.kind is Kind.INTEGER and not -(2**63) <= value.value < 2**63:
        return None
    number = float(value.value)
    if math.isnan(number):
        return None
    if isinstance(column, DoubleType):
        return literal(number)
    if value.kind is Kind.INTEGER and abs(value.value) > _FLOAT_INTEGERS:
        return None
    # Spark compares a float with a decimal or a double as doubles: alike only if the number is a float itself.
    return literal(number) if math.isfinite(number) and _is_float(number) else None


def _is_float(number: float) -> bool:
    try:
        return bool(struct.unpack("<f", struct.pack("<f", number))[0] == number)
    except OverflowError:
        return False


def _fit_decimal(value: SqlValue, column: DecimalType) -> Literal[Any] | None:
    number = Decimal(value.value)
    precision, scale = _size(number)
    whole = column.precision - column.scale
    if scale > column.scale or precision - scale > whole:
        return None
    # Spark may take an integer for a decimal of 10 or 20 digits, and then has to round where both do not fit.
    if value.kind is Kind.INTEGER and max(whole, 10 if abs(value.value) < 2**31 else 20) + column.scale > _DIGITS:
        return None
    # The scale must be the column's own: buckets are computed from the digits.
    digits = int(number.scaleb(column.scale, _WIDE))
    return DecimalLiteral(Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -column.scale)))


def _size(number: Decimal) -> tuple[int, int]:
    _, digits, exponent = number.as_tuple()
    scale = max(-int(exponent), 0)
    return max(len(digits), scale), scale


def _day(text: str) -> date | None:
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    try:
        return date(*map(int, found.groups()))
    except ValueError:
        return None


def _fit_timestamp(value: SqlValue, column: IcebergType, session_time_zone: str | None) -> Literal[Any] | None:
    found = _TIMESTAMP.fullmatch(value.value)
    if found is None:
        return None
    try:
        local = datetime.fromisoformat(found["day"] + (f"T{found['time']}" if found["time"] else ""))
    except ValueError:
        return None
    zone = found["zone"]
    if isinstance(column, TimestampType):
        # TIMESTAMP without a zone is one or the other type by Spark's settings.
        plain = value.kind in (Kind.DATE, Kind.STRING, Kind.TIMESTAMP_NTZ) and zone is None
        return TimestampLiteral(_micros(local)) if plain else None
    if value.kind is Kind.TIMESTAMP_NTZ:
        return None
    instant = _instant(local, zone or session_time_zone)
    return None if instant is None else TimestampLiteral(_micros(instant))


def _instant(local: datetime, zone: str | None) -> datetime | None:
    """The moment at which clocks of a zone show a time; None if they do so twice or never."""
    known = _zone(zone)
    if known is None or (isinstance(known, ZoneInfo) and local.year not in _SETTLED_YEARS):
        return None
    try:
        moments = {local.replace(tzinfo=known, fold=fold).astimezone(UTC).replace(tzinfo=None) for fold in (0, 1)}
    except OverflowError:
        return None
    return moments.pop() if len(moments) == 1 else None


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    if name in ("UTC", "Z", "GMT", "Etc/UTC"):
        return UTC
    if offset := _OFFSET.fullmatch(name):
        sign, hours, minutes = offset.groups()
        shift = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-shift if sign == "-" else shift) if shift <= timedelta(hours=18) else None
    # Short names such as PST mean different things to Java.
    if "/" not in name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
