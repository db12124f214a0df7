"""Where data files go: partition paths as Iceberg's Java writes them, and the table's location properties.

A path carries no meaning in Iceberg: readers take partition values from metadata. It should still look familiar,
and whatever a value contains, it must stay inside the table's folder and within the limits of file systems.
No file is touched here; neither Spark nor a catalog comes in.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

import mmh3
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, Transform, YearTransform
from pyiceberg.types import (
    DateType,
    FloatType,
    IcebergType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.partition_types import is_unpartitioned

# The longest name that common file systems allow, and a length that leaves room within an object store's 1,024 bytes.
_LONGEST_SEGMENT = 255
_LONGEST_PATH = 700

_DATA_PATH = "write.data.path"
_OBJECT_STORAGE = "write.object-storage.enabled"
_PARTITIONED_PATHS = "write.object-storage.partitioned-paths"
_CUSTOM_PROVIDERS = ("write.location-provider.impl", "write.py-location-provider.impl")
_RETIRED_PATHS = ("write.object-storage.path", "write.folder-storage.path")


@dataclass(frozen=True)
class DataLocations:
    """The table's location provider: gives each data file its place. Picklable."""

    data_path: str
    hashed: bool = False
    partitioned_paths: bool = True
    context: str = ""

    @classmethod
    def of(cls, table_location: str, properties: Mapping[str, str]) -> DataLocations:
        """As the table's properties say; a provider that only its own engine knows is an UnsupportedTableError."""
        for key in _CUSTOM_PROVIDERS:
            if key in properties:
                raise UnsupportedTableError(
                    f"The table at {table_location} places its files by {key}={properties[key]}, which lakeshift "
                    "cannot call. Remove the property, or write this table with the engine it was made for. Nothing "
                    "was written."
                )
        location = _without_slash(table_location)
        path = properties.get(_DATA_PATH)
        if path is None:
            for key in _RETIRED_PATHS:
                if key in properties:
                    raise UnsupportedTableError(
                        f"The table at {table_location} has {key}={properties[key]}, which Iceberg no longer honours. "
                        f"Set {_DATA_PATH} to this value and remove {key}. Nothing was written."
                    )
        data_path = _without_slash(path) if path else f"{location}/data"
        return cls(
            data_path,
            _flag(properties, _OBJECT_STORAGE, default=False),
            _flag(properties, _PARTITIONED_PATHS, default=True),
            # Files outside the table's own folder keep its last two names, so that a person can tell whose they are.
            "" if data_path.startswith(location) else "/".join(location.split("/")[-2:]).lstrip("/"),
        )

    def place(self, file_name: str, partition_path: str = "") -> str:
        """The location of a new data file; ``partition_path`` is empty for an unpartitioned spec."""
        if self.hashed and not self.partitioned_paths:
            partition_path = ""
        name = f"{partition_path}/{file_name}" if partition_path else file_name
        if not self.hashed:
            return f"{self.data_path}/{name}"
        entropy = _entropy(name)
        if self.context:
            return f"{self.data_path}/{entropy}/{self.context}/{name}"
        return f"{self.data_path}/{entropy}{'/' if self.partitioned_paths else '-'}{name}"


@dataclass(frozen=True)
class PartitionPaths:
    """The partition paths of one spec: ``region=eu/ts_day=2026-01-01``. Picklable."""

    fields: tuple[tuple[str, Transform[Any, Any], IcebergType], ...]

    @classmethod
    def of(cls, spec: PartitionSpec, partition_type: StructType) -> PartitionPaths:
        """For a spec and the types of its partition values."""
        if is_unpartitioned(spec):
            return cls(())
        pairs = zip(spec.fields, partition_type.fields, strict=True)
        return cls(tuple((field.name, field.transform, typed.field_type) for field, typed in pairs))

    def path(self, partition: Sequence[Any]) -> str:
        """The path of a partition, its values as file metadata holds them; empty for an unpartitioned spec."""
        if not self.fields:
            return ""
        segments = [
            f"{_escape(name)}={_escape(human_string(transform, kind, value))}"
            for (name, transform, kind), value in zip(self.fields, partition, strict=True)
        ]
        path = "/".join(segments)
        if len(path) > _LONGEST_PATH or max(map(len, segments)) > _LONGEST_SEGMENT:
            most = max(_LONGEST_PATH // len(segments) - 1, 24)
            path = "/".join(_shorten(segment, min(most, _LONGEST_SEGMENT)) for segment in segments)
        return path


def human_string(transform: Transform[Any, Any], result_type: IcebergType, value: Any) -> str:
    """A partition value as people read it, before it is escaped."""
    if value is None:
        return "null"
    match transform:
        case YearTransform():
            return f"{1970 + value:04d}"
        case MonthTransform():
            return f"{1970 + value // 12:04d}-{1 + value % 12:02d}"
        case DayTransform():
            return _day(value)
        case HourTransform():
            return f"{_day(value // 24)}-{value % 24:02d}"
    match result_type:
        case DateType():
            return _day(value)
        case TimeType():
            return _time(value)
        case TimestampType() | TimestamptzType():
            return _moment(value * 1000) + ("+00:00" if isinstance(result_type, TimestamptzType) else "")
        case TimestampNanoType() | TimestamptzNanoType():
            return _moment(value) + ("+00:00" if isinstance(result_type, TimestamptzNanoType) else "")
        case UUIDType():
            return str(value if isinstance(value, UUID) else UUID(bytes=value))
    match value:
        case bool():
            return str(value).lower()
        case float():
            return _float(value, single=isinstance(result_type, FloatType))
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Decimal():
            return str(value)
    return str(value)


def _escape(text: str) -> str:
    # As Java's URLEncoder has it: a star stays, a tilde does not.
    return quote_plus(text, safe="*").replace("~", "%7E")


def _shorten(segment: str, most: int) -> str:
    """Cut a segment, and mark it by a hash of the whole behind a tilde, which no uncut segment contains."""
    if len(segment) <= most:
        return segment
    mark = "~" + hashlib.sha256(segment.encode("ascii")).hexdigest()[:16]
    kept = segment[: most - len(mark)]
    # Not through the middle of an escape: %E2 is three characters.
    escape = kept.rfind("%", len(kept) - 2)
    return (kept[:escape] if escape >= 0 else kept) + mark


def _day(days: int) -> str:
    # Python's calendar ends with year 9999 and starts with 1; it repeats itself after 400 years.
    cycles, rest = divmod(days, 146_097)
    day = date(1970, 1, 1) + timedelta(rest)
    return f"{day.year + 400 * cycles:04d}-{day.month:02d}-{day.day:02d}"


def _time(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}"
    if second or fraction:
        text += f":{second:02d}"
    if fraction:
        text += f".{fraction:06d}" if fraction % 1000 else f".{fraction // 1000:03d}"
    return text


def _moment(nanos: int) -> str:
    days, rest = divmod(nanos, 86_400_000_000_000)
    seconds, fraction = divmod(rest, 1_000_000_000)
    year, rest_of_date = _day(days).rsplit("-", 2)[0], _day(days)[-6:]
    # ISO 8601: years of more than four digits have a sign, and the sign does not count as a digit.
    number = int(year)
    sign = "-" if number < 0 else "+" if number > 9999 else ""
    text = f"{sign}{abs(number):04d}{rest_of_date}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + (f".{fraction:09d}".rstrip("0") if fraction else "")


def _float(value: float, *, single: bool) -> str:
    """Java's way to write a float: plain from 0.001 to 10,000,000, else with an exponent."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    text = _shortest_single(value) if single else repr(value)
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    exponent += len(digits) - len(shown)
    magnitude = len(shown) + exponent - 1
    prefix = "-" if sign else ""
    if shown == "0":
        return f"{prefix}0.0"
    if -3 <= magnitude < 7:
        whole = str(Decimal((0, tuple(map(int, shown)), exponent)).__format__("f"))
        return prefix + (whole if "." in whole else f"{whole}.0")
    return f"{prefix}{shown[0]}.{shown[1:] or '0'}E{magnitude}"


def _shortest_single(value: float) -> str:
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("<f", float(text)) == struct.pack("<f", value):
            return text
    return repr(value)


def _entropy(name: str) -> str:
    """Twenty bits of the name's hash as folders, which spreads files over an object store's partitions."""
    bits = f"{mmh3.hash(name, signed=False) & 0xFFFFF:020b}"
    return f"{bits[0:4]}/{bits[4:8]}/{bits[8:12]}/{bits[12:]}"


def _without_slash(location: str) -> str:
    return location if location.endswith("://") else location.rstrip("/")


def _flag(properties: Mapping[str, str], key: str, *, default: bool) -> bool:
    value = properties.get(key)
    if value is None:
        return default
    if value.strip().lower() not in ("true", "false"):
        raise ConfigError(f"The table property {key} is {value!r}; it must be true or false.")
    return value.strip().lower() == "true"
