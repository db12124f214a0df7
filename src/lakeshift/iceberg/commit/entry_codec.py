"""Manifest entries in their Avro encoding: walked without decoding, decoded where needed, and written.

Most of what a rewritten manifest holds is unchanged, so a file's description is carried over as the bytes
it has: faster than decoding, and nothing is lost that a newer writer may have added. Values are *physical*
here: dates are days, decimals their unscaled integers, UUIDs sixteen bytes. Fields are known by their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakeshift.errors import LakeshiftError
from lakeshift.iceberg.adapter import new_decoder
from lakeshift.iceberg.commit.avro_types import (
    Read,
    Skip,
    Write,
    is_pairs,
    read_nothing,
    reader_of,
    shape_of,
    skipper_of,
    writer_of,
)

STATUS, SNAPSHOT_ID, DATA_FILE, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER = 0, 1, 2, 3, 4
CONTENT, FILE_PATH, PARTITION, RECORD_COUNT, FILE_SIZE = 134, 100, 102, 103, 104


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
    prefix: tuple[tuple[int, Read], ...]
    head: tuple[tuple[int, Any], ...]
    tail: tuple[tuple[int, Skip], ...]
    read_file: Read
    read_partition: Read
    file_shape: Any

    @classmethod
    def of(cls, avro_schema: Mapping[str, Any], location: str) -> EntryReader:
        names: dict[str, Any] = {}
        prefix: list[tuple[int, Read]] = []
        fields = avro_schema["fields"]
        if fields[-1]["field-id"] != DATA_FILE:
            raise LakeshiftError(f"The entries of {location} do not end with the file; it cannot be rewritten.")
        for item in fields[:-1]:
            prefix.append((item["field-id"], reader_of(item["type"], names)))
        file_type = fields[-1]["type"]
        steps = [(item["field-id"], item["type"]) for item in file_type["fields"]]
        last = max(at for at, (number, _) in enumerate(steps) if number in _WANTED)
        head: list[tuple[int, Any]] = []
        read_partition: Read = read_nothing
        for number, avro_type in steps[: last + 1]:
            if number in _WANTED and number != PARTITION:
                head.append((number, reader_of(avro_type, names)))
            else:
                if number == PARTITION:
                    read_partition = reader_of(avro_type, dict(names))
                head.append((number, skipper_of(avro_type, names)))
        tail = tuple((_kind_of_optional(avro_type), skipper_of(avro_type, names)) for _, avro_type in steps[last + 1 :])
        return cls(
            avro_schema, tuple(prefix), tuple(head), tail, reader_of(file_type, {}), read_partition, shape_of(file_type)
        )

    def entries(self, count: int, block: bytes) -> Iterator[RawEntry]:
        """Walk the records of one decompressed block."""
        decoder = new_decoder(block)
        found: dict[int, Any] = {}
        values: dict[int, Any] = {CONTENT: 0}
        tell, read_int = decoder.tell, decoder.read_int
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
            for kind, skip in tail:
                if kind == _ANYTHING:
                    skip(decoder)
                elif not read_int():  # null
                    continue
                elif kind == _BYTES:
                    decoder.skip_bytes()
                elif kind == _INT:
                    decoder.skip_int()
                else:
                    while items := read_int():
                        if items < 0:
                            decoder.skip(read_int())
                        elif kind == _INT_TO_BYTES:
                            decoder.read_int_bytes_dict(items, {})
                        else:
                            decoder.read_ints(items * kind)
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


# Most fields of a file's description are optional and of few kinds. Walking over these takes most of the time of
# rewriting a manifest, so that it is done without a call per field. Arrays of ints have their width as their kind.
_ANYTHING, _INTS, _INT_TO_LONG, _INT_TO_BYTES, _BYTES, _INT = 0, 1, 2, 3, 4, 5


def _kind_of_optional(avro_type: Any) -> int:
    if not isinstance(avro_type, list) or len(avro_type) != 2 or avro_type[0] != "null":
        return _ANYTHING
    inner = avro_type[1]
    if inner in ("bytes", "string"):
        return _BYTES
    if inner in ("int", "long"):
        return _INT
    if isinstance(inner, dict) and inner.get("type") == "array":
        items = inner["items"]
        if items in ("int", "long"):
            return _INTS
        if is_pairs(items, "long"):
            return _INT_TO_LONG
        if is_pairs(items, "bytes"):
            return _INT_TO_BYTES
    return _ANYTHING


_WANTED = frozenset({CONTENT, FILE_PATH, PARTITION, RECORD_COUNT, FILE_SIZE})


@dataclass(frozen=True)
class EntryWriter:
    """Encodes entries under one Avro schema."""

    avro_schema: Mapping[str, Any]
    prefix: tuple[tuple[int, Write], ...]
    write_file: Write
    file_shape: Any
    _starts: dict[tuple[int | None, ...], bytes] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, avro_schema: Mapping[str, Any]) -> EntryWriter:
        names: dict[str, Any] = {}
        fields = avro_schema["fields"]
        prefix = tuple((item["field-id"], writer_of(item["type"], names)) for item in fields[:-1])
        file_type = fields[-1]["type"]
        return cls(avro_schema, prefix, writer_of(file_type, names), shape_of(file_type))

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
