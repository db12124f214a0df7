"""Avro's types as functions: one that walks over a value, one that reads it, one that writes it.

Fields of records are known by their Iceberg ids. Values are *physical*: decimals are their unscaled integers,
UUIDs sixteen bytes. Nothing here knows what a manifest is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import pack
from typing import Any

from lakeshift.errors import LakeshiftError
from lakeshift.iceberg.adapter import BinaryDecoder
from lakeshift.iceberg.commit.avro import SMALL_LONGS, write_bytes, write_long

Skip = Callable[[BinaryDecoder], object]
Read = Callable[[BinaryDecoder], Any]
Write = Callable[[Any], bytes]

# What is written for a required field that a file does not have: it is a data file, and blocks have a size in v1.
_DEFAULTS = {134: 0, 105: 67108864}


def shape_of(avro_type: Any) -> Any:
    """What decides the bytes of a type and the meaning of its fields: no names, docs or defaults."""
    return _shape(avro_type, {})


def _shape(avro_type: Any, names: dict[str, Any]) -> Any:
    if isinstance(avro_type, list):
        return ("union", tuple(_shape(branch, names) for branch in avro_type))
    avro_type = _resolved(avro_type, names)
    kind = _kind(avro_type)
    if kind == "record":
        return ("record", tuple((item.get("field-id"), _shape(item["type"], names)) for item in avro_type["fields"]))
    if kind == "array":
        return ("array", _shape(avro_type["items"], names))
    if kind == "map":
        return ("map", _shape(avro_type["values"], names))
    if kind == "fixed":
        return ("fixed", avro_type["size"], avro_type.get("scale"))
    return kind


def _kind(avro_type: Any) -> str:
    name = avro_type if isinstance(avro_type, str) else avro_type["type"]
    return str(name)


def _resolved(avro_type: Any, names: dict[str, Any]) -> Any:
    """The definition behind a type: named types are defined once and then referred to."""
    if isinstance(avro_type, str):
        return names.get(avro_type, avro_type)
    if isinstance(avro_type.get("type"), (dict, list)):
        return _resolved(avro_type["type"], names)
    if "name" in avro_type:
        names[avro_type["name"]] = avro_type
    return avro_type


def _nullable(avro_type: list[Any]) -> tuple[int, Any]:
    if len(avro_type) != 2 or "null" not in avro_type:
        raise LakeshiftError(f"A manifest has the union {avro_type}; only a type or null can be read.")
    null_at = avro_type.index("null")
    return null_at, avro_type[1 - null_at]


def is_pairs(items: Any, value: str) -> bool:
    """Whether an array stands for a map from ints to values of this type."""
    if not isinstance(items, dict) or items.get("type") != "record" or len(items["fields"]) != 2:
        return False
    return [item["type"] for item in items["fields"]] == ["int", value]


def read_nothing(_: BinaryDecoder) -> None:
    return None


def skipper_of(avro_type: Any, names: dict[str, Any]) -> Skip:
    if isinstance(avro_type, list):
        null_at, inner = _nullable(avro_type)
        skip_inner = skipper_of(inner, names)

        def skip_optional(decoder: BinaryDecoder) -> None:
            if decoder.read_int() != null_at:
                skip_inner(decoder)

        return skip_optional
    avro_type = _resolved(avro_type, names)
    kind = _kind(avro_type)
    if kind in _SKIP:
        return _SKIP[kind]
    if kind == "fixed":
        size = avro_type["size"]
        return lambda decoder: decoder.skip(size)
    if kind == "record":
        steps = [skipper_of(item["type"], names) for item in avro_type["fields"]]

        def skip_record(decoder: BinaryDecoder) -> None:
            for step in steps:
                step(decoder)

        return skip_record
    if kind == "array":
        return _array_skipper(avro_type["items"], names)
    raise LakeshiftError(f"A manifest has a field of the Avro type {kind!r}, which lakeshift cannot read.")


def _array_skipper(items: Any, names: dict[str, Any]) -> Skip:
    if items in ("int", "long"):
        skip_some: Callable[[BinaryDecoder, int], object] = lambda decoder, n: decoder.read_ints(n)  # noqa: E731
    elif is_pairs(items, "long"):
        skip_some = lambda decoder, n: decoder.read_ints(2 * n)  # noqa: E731
    elif is_pairs(items, "bytes"):
        skip_some = lambda decoder, n: decoder.read_int_bytes_dict(n, {})  # noqa: E731
    else:
        skip_one = skipper_of(items, names)

        def skip_some(decoder: BinaryDecoder, n: int) -> object:
            for _ in range(n):
                skip_one(decoder)
            return None

    if isinstance(items, dict) and "name" in items:
        names.setdefault(items["name"], items)

    def skip(decoder: BinaryDecoder) -> None:
        while count := decoder.read_int():
            if count < 0:
                decoder.skip(decoder.read_int())
            else:
                skip_some(decoder, count)

    return skip


_SKIP: Mapping[str, Skip] = {
    "null": read_nothing,
    "boolean": lambda decoder: decoder.skip_boolean(),
    "int": lambda decoder: decoder.skip_int(),
    "long": lambda decoder: decoder.skip_int(),
    "float": lambda decoder: decoder.skip_float(),
    "double": lambda decoder: decoder.skip_double(),
    "bytes": lambda decoder: decoder.skip_bytes(),
    "string": lambda decoder: decoder.skip_utf8(),
}
_READ: Mapping[str, Read] = {
    "null": read_nothing,
    "boolean": lambda decoder: decoder.read_boolean(),
    "int": lambda decoder: decoder.read_int(),
    "long": lambda decoder: decoder.read_int(),
    "float": lambda decoder: decoder.read_float(),
    "double": lambda decoder: decoder.read_double(),
    "bytes": lambda decoder: decoder.read_bytes(),
    "string": lambda decoder: decoder.read_utf8(),
}
_WRITE: Mapping[str, Write] = {
    "null": lambda _: b"",
    "boolean": lambda value: b"\x01" if value else b"\x00",
    "int": write_long,
    "long": write_long,
    "float": lambda value: pack("<f", value),
    "double": lambda value: pack("<d", value),
    "bytes": write_bytes,
    "string": lambda value: write_bytes(value.encode()),
}


def reader_of(avro_type: Any, names: dict[str, Any]) -> Read:
    if isinstance(avro_type, list):
        null_at, inner = _nullable(avro_type)
        read_inner = reader_of(inner, names)
        return lambda decoder: None if decoder.read_int() == null_at else read_inner(decoder)
    avro_type = _resolved(avro_type, names)
    kind = _kind(avro_type)
    if kind in _READ:
        return _READ[kind]
    if kind == "fixed":
        size = avro_type["size"]
        if avro_type.get("logicalType") == "decimal":
            return lambda decoder: int.from_bytes(decoder.read(size), "big", signed=True)
        return lambda decoder: decoder.read(size)
    if kind == "record":
        steps = [(item["field-id"], reader_of(item["type"], names)) for item in avro_type["fields"]]
        return lambda decoder: {number: read(decoder) for number, read in steps}
    if kind == "array":
        return _array_reader(avro_type["items"], names)
    raise LakeshiftError(f"A manifest has a field of the Avro type {kind!r}, which lakeshift cannot read.")


def _array_reader(items: Any, names: dict[str, Any]) -> Read:
    read_one = reader_of(items, names)
    pairs = is_pairs(items, "long") or is_pairs(items, "bytes")

    def read(decoder: BinaryDecoder) -> Any:
        found: list[Any] = []
        while count := decoder.read_int():
            if count < 0:
                decoder.read_int()
            found.extend(read_one(decoder) for _ in range(abs(count)))
        return dict(item.values() for item in found) if pairs else found

    return read


def writer_of(avro_type: Any, names: dict[str, Any]) -> Write:
    if isinstance(avro_type, list):
        null_at, inner = _nullable(avro_type)
        write_inner = writer_of(inner, names)
        null, value_mark = write_long(null_at), write_long(1 - null_at)
        return lambda value: null if value is None else value_mark + write_inner(value)
    avro_type = _resolved(avro_type, names)
    kind = _kind(avro_type)
    if kind in _WRITE:
        return _WRITE[kind]
    if kind == "fixed":
        size = avro_type["size"]
        if avro_type.get("logicalType") == "decimal":
            return lambda value: int(value).to_bytes(size, "big", signed=True)
        return lambda value: _exactly(value, size)
    if kind == "record":
        steps = [
            (item["field-id"], _DEFAULTS.get(item["field-id"]), writer_of(item["type"], names))
            for item in avro_type["fields"]
        ]
        return lambda value: b"".join([write(value.get(number, default)) for number, default, write in steps])
    if kind == "array":
        return _array_writer(avro_type["items"], names)
    raise LakeshiftError(f"A manifest has a field of the Avro type {kind!r}, which lakeshift cannot write.")


def _array_writer(items: Any, names: dict[str, Any]) -> Write:
    if is_pairs(items, "long") or is_pairs(items, "bytes"):
        _resolved(items, names)
        is_long = items["fields"][1]["type"] == "long"

        def write_pairs(value: Mapping[int, Any]) -> bytes:
            if not value:
                return b"\x00"
            pairs = [write_long(len(value))]
            for key, item in value.items():
                # Half of the time of a commit is spent here: no call for what a look-up can do.
                pairs.append(SMALL_LONGS[key] if 0 <= key < 16_384 else write_long(key))
                if is_long:
                    pairs.append(SMALL_LONGS[item] if 0 <= item < 16_384 else write_long(item))
                else:
                    pairs.append(SMALL_LONGS[len(item)] if len(item) < 16_384 else write_long(len(item)))
                    pairs.append(item)
            pairs.append(b"\x00")
            return b"".join(pairs)

        return write_pairs
    write_one = writer_of(items, names)

    def write(value: list[Any]) -> bytes:
        if not value:
            return b"\x00"
        return b"".join([write_long(len(value)), *(write_one(item) for item in value), b"\x00"])

    return write


def _exactly(value: bytes, size: int) -> bytes:
    if len(value) != size:
        raise ValueError(f"{len(value)} bytes where {size} are wanted")
    return value
