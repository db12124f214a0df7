"""Manifest entries in their Avro encoding: walked without decoding, decoded where needed, and written.

Most of what a rewritten manifest holds is unchanged, so a file's description is carried over as the bytes
it has: faster than decoding, and nothing is lost that a newer writer may have added. Values are *physical*
here: dates are days, decimals their unscaled integers, UUIDs sixteen bytes. Fields are known by their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from struct import pack
from typing import Any, NamedTuple

from lakeshift.errors import LakeshiftError
from lakeshift.iceberg.adapter import BinaryDecoder, new_decoder
from lakeshift.iceberg.commit.avro import SMALL_LONGS, write_bytes, write_long

STATUS, SNAPSHOT_ID, DATA_FILE, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER = 0, 1, 2, 3, 4
CONTENT, FILE_PATH, PARTITION, RECORD_COUNT, FILE_SIZE = 134, 100, 102, 103, 104
BLOCK_SIZE = 105
_DEFAULTS = {CONTENT: 0, BLOCK_SIZE: 67108864}

_Skip = Callable[[BinaryDecoder], object]
_Read = Callable[[BinaryDecoder], Any]
_Write = Callable[[Any], bytes]


class RawEntry(NamedTuple):
    """One entry as it stands in its block; ``start`` to ``end`` are the bytes of its file's description."""

    status: int
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    file_path: str
    record_count: int
    file_size: int
    content: int
    partition_at: int
    start: int
    end: int


@dataclass(frozen=True)
class EntryReader:
    """Reads the entries of manifests that have one Avro schema."""

    avro_schema: Mapping[str, Any]
    prefix: tuple[tuple[int, _Read], ...]
    head: tuple[tuple[int, Any], ...]
    tail: tuple[_Skip, ...]
    read_file: _Read
    read_partition: _Read
    file_shape: Any

    @classmethod
    def of(cls, avro_schema: Mapping[str, Any], location: str) -> EntryReader:
        names: dict[str, Any] = {}
        prefix: list[tuple[int, _Read]] = []
        fields = avro_schema["fields"]
        if fields[-1]["field-id"] != DATA_FILE:
            raise LakeshiftError(f"The entries of {location} do not end with the file; it cannot be rewritten.")
        for item in fields[:-1]:
            prefix.append((item["field-id"], _reader(item["type"], names)))
        file_type = fields[-1]["type"]
        steps = [(item["field-id"], item["type"]) for item in file_type["fields"]]
        last = max(at for at, (number, _) in enumerate(steps) if number in _WANTED)
        head: list[tuple[int, Any]] = []
        read_partition: _Read = _read_nothing
        for number, avro_type in steps[: last + 1]:
            if number in _WANTED and number != PARTITION:
                head.append((number, _reader(avro_type, names)))
            else:
                if number == PARTITION:
                    read_partition = _reader(avro_type, dict(names))
                head.append((number, _skipper(avro_type, names)))
        tail = tuple(_skipper(avro_type, names) for _, avro_type in steps[last + 1 :])
        return cls(
            avro_schema, tuple(prefix), tuple(head), tail, _reader(file_type, {}), read_partition, shape_of(file_type)
        )

    def entries(self, count: int, block: bytes) -> Iterator[RawEntry]:
        """Walk the records of one decompressed block."""
        decoder = new_decoder(block)
        found: dict[int, Any] = {}
        values: dict[int, Any] = {CONTENT: 0}
        tell = decoder.tell
        prefix, head, tail = self.prefix, self.head, self.tail
        partition_at = 0
        for _ in range(count):
            for number, read in prefix:
                found[number] = read(decoder)
            start = tell()
            for number, step in head:
                if number == PARTITION:
                    partition_at = tell()
                values[number] = step(decoder)
            for skip in tail:
                skip(decoder)
            yield RawEntry(
                found[STATUS],
                found[SNAPSHOT_ID],
                found.get(SEQUENCE_NUMBER),
                found.get(FILE_SEQUENCE_NUMBER),
                values[FILE_PATH],
                values[RECORD_COUNT],
                values[FILE_SIZE],
                values[CONTENT],
                partition_at,
                start,
                tell(),
            )

    def partition(self, block: bytes, entry: RawEntry) -> dict[int, Any]:
        """The physical partition values of an entry, by partition field id."""
        decoded: dict[int, Any] = self.read_partition(new_decoder(block[entry.partition_at : entry.end]))
        return decoded

    def file(self, block: bytes, entry: RawEntry) -> dict[int, Any]:
        """Everything that an entry says of its file, by field id."""
        decoded: dict[int, Any] = self.read_file(new_decoder(block[entry.start : entry.end]))
        return decoded


_WANTED = frozenset({CONTENT, FILE_PATH, PARTITION, RECORD_COUNT, FILE_SIZE})


@dataclass(frozen=True)
class EntryWriter:
    """Encodes entries under one Avro schema."""

    avro_schema: Mapping[str, Any]
    prefix: tuple[tuple[int, _Write], ...]
    write_file: _Write
    file_shape: Any
    _starts: dict[tuple[int | None, ...], bytes] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, avro_schema: Mapping[str, Any]) -> EntryWriter:
        names: dict[str, Any] = {}
        fields = avro_schema["fields"]
        prefix = tuple((item["field-id"], _writer(item["type"], names)) for item in fields[:-1])
        file_type = fields[-1]["type"]
        return cls(avro_schema, prefix, _writer(file_type, names), shape_of(file_type))

    def file(self, values: Mapping[int, Any]) -> bytes:
        """The encoding of a file's description."""
        return self.write_file(values)

    def entry(
        self,
        status: int,
        snapshot_id: int | None,
        sequence_number: int | None,
        file_sequence_number: int | None,
        file: bytes,
    ) -> bytes:
        key = (status, snapshot_id, sequence_number, file_sequence_number)
        start = self._starts.get(key)
        if start is None:  # entries of one snapshot all begin alike
            known = dict(zip((STATUS, SNAPSHOT_ID, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER), key, strict=True))
            start = b"".join([write(known[number]) for number, write in self.prefix])
            self._starts[key] = start
        return start + file


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


def _is_pairs(items: Any, value: str) -> bool:
    """Whether an array stands for a map from ints to values of this type."""
    if not isinstance(items, dict) or items.get("type") != "record" or len(items["fields"]) != 2:
        return False
    return [item["type"] for item in items["fields"]] == ["int", value]


def _read_nothing(_: BinaryDecoder) -> None:
    return None


def _skipper(avro_type: Any, names: dict[str, Any]) -> _Skip:
    if isinstance(avro_type, list):
        null_at, inner = _nullable(avro_type)
        skip_inner = _skipper(inner, names)

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
        steps = [_skipper(item["type"], names) for item in avro_type["fields"]]

        def skip_record(decoder: BinaryDecoder) -> None:
            for step in steps:
                step(decoder)

        return skip_record
    if kind == "array":
        return _array_skipper(avro_type["items"], names)
    raise LakeshiftError(f"A manifest has a field of the Avro type {kind!r}, which lakeshift cannot read.")


def _array_skipper(items: Any, names: dict[str, Any]) -> _Skip:
    if items in ("int", "long"):
        skip_some: Callable[[BinaryDecoder, int], object] = lambda decoder, n: decoder.read_ints(n)  # noqa: E731
    elif _is_pairs(items, "long"):
        skip_some = lambda decoder, n: decoder.read_ints(2 * n)  # noqa: E731
    elif _is_pairs(items, "bytes"):
        skip_some = lambda decoder, n: decoder.read_int_bytes_dict(n, {})  # noqa: E731
    else:
        skip_one = _skipper(items, names)

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


_SKIP: Mapping[str, _Skip] = {
    "null": _read_nothing,
    "boolean": lambda decoder: decoder.skip_boolean(),
    "int": lambda decoder: decoder.skip_int(),
    "long": lambda decoder: decoder.skip_int(),
    "float": lambda decoder: decoder.skip_float(),
    "double": lambda decoder: decoder.skip_double(),
    "bytes": lambda decoder: decoder.skip_bytes(),
    "string": lambda decoder: decoder.skip_utf8(),
}
_READ: Mapping[str, _Read] = {
    "null": _read_nothing,
    "boolean": lambda decoder: decoder.read_boolean(),
    "int": lambda decoder: decoder.read_int(),
    "long": lambda decoder: decoder.read_int(),
    "float": lambda decoder: decoder.read_float(),
    "double": lambda decoder: decoder.read_double(),
    "bytes": lambda decoder: decoder.read_bytes(),
    "string": lambda decoder: decoder.read_utf8(),
}
_WRITE: Mapping[str, _Write] = {
    "null": lambda _: b"",
    "boolean": lambda value: b"\x01" if value else b"\x00",
    "int": write_long,
    "long": write_long,
    "float": lambda value: pack("<f", value),
    "double": lambda value: pack("<d", value),
    "bytes": write_bytes,
    "string": lambda value: write_bytes(value.encode()),
}


def _reader(avro_type: Any, names: dict[str, Any]) -> _Read:
    if isinstance(avro_type, list):
        null_at, inner = _nullable(avro_type)
        read_inner = _reader(inner, names)
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
        steps = [(item["field-id"], _reader(item["type"], names)) for item in avro_type["fields"]]
        return lambda decoder: {number: read(decoder) for number, read in steps}
    if kind == "array":
        return _array_reader(avro_type["items"], names)
    raise LakeshiftError(f"A manifest has a field of the Avro type {kind!r}, which lakeshift cannot read.")


def _array_reader(items: Any, names: dict[str, Any]) -> _Read:
    read_one = _reader(items, names)
    pairs = _is_pairs(items, "long") or _is_pairs(items, "bytes")

    def read(decoder: BinaryDecoder) -> Any:
        found: list[Any] = []
        while count := decoder.read_int():
            if count < 0:
                decoder.read_int()
            found.extend(read_one(decoder) for _ in range(abs(count)))
        return dict(item.values() for item in found) if pairs else found

    return read


def _writer(avro_type: Any, names: dict[str, Any]) -> _Write:
    if isinstance(avro_type, list):
        null_at, inner = _nullable(avro_type)
        write_inner = _writer(inner, names)
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
            (item["field-id"], _DEFAULTS.get(item["field-id"]), _writer(item["type"], names))
            for item in avro_type["fields"]
        ]
        return lambda value: b"".join([write(value.get(number, default)) for number, default, write in steps])
    if kind == "array":
        return _array_writer(avro_type["items"], names)
    raise LakeshiftError(f"A manifest has a field of the Avro type {kind!r}, which lakeshift cannot write.")


def _array_writer(items: Any, names: dict[str, Any]) -> _Write:
    if _is_pairs(items, "long") or _is_pairs(items, "bytes"):
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
    write_one = _writer(items, names)

    def write(value: list[Any]) -> bytes:
        if not value:
            return b"\x00"
        return b"".join([write_long(len(value)), *(write_one(item) for item in value), b"\x00"])

    return write


def _exactly(value: bytes, size: int) -> bytes:
    if len(value) != size:
        raise ValueError(f"{len(value)} bytes where {size} are wanted")
    return value
