"""Avro files as Arrow batches: what DataFusion needs to decode a file that a FileIO can open.

Only Avro is known here, nothing of snapshots or partition specs. DataFusion reads local paths only, so
a file elsewhere is copied into a private folder for as long as its decoding takes.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import SEEK_END, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from pyiceberg.io import FileIO

from lakeshift.errors import LakeshiftError
from lakeshift.locations import canonical_location

if TYPE_CHECKING:
    from datafusion import SessionContext

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_BATCH_ROWS = 16_384
# DataFusion takes *, ? and [ in a path for a pattern; names with anything unusual are read from a copy.
_PLAIN_PATH = re.compile(r"/[\w/.=+-]+\.avro", re.ASCII)

_AVRO_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class AvroHeader:
    """What an Avro file says of itself before its first block."""

    metadata: Mapping[str, bytes]
    sync: bytes

    @cached_property
    def schema(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.metadata["avro.schema"])
        return parsed

    def with_schema(self, schema: Mapping[str, Any]) -> AvroHeader:
        return AvroHeader({**self.metadata, "avro.schema": json.dumps(schema).encode()}, self.sync)

    def encode(self) -> bytes:
        parts = [_MAGIC, _encode_long(len(self.metadata))]
        for key, value in self.metadata.items():
            for text in (key.encode(), value):
                parts += [_encode_long(len(text)), text]
        return b"".join([*parts, _encode_long(0), self.sync])


@dataclass(frozen=True)
class LocalAvro:
    """An Avro file that lies where DataFusion can decode it."""

    path: Path
    location: str
    header: AvroHeader

    def batches(self, context: SessionContext, structs: Mapping[str, Set[str]]) -> Iterator[pa.RecordBatch]:
        """The rows, in order; of each struct column in ``structs`` only the named fields."""
        try:
            schema = context.read_avro(self.path).schema()
            for name, children in structs.items():
                index = schema.get_field_index(name)
                kept = [child for child in schema.field(index).type if child.name in children]
                schema = (
                    schema.set(index, pa.field(name, pa.struct(kept), nullable=False)) if kept else schema.remove(index)
                )
            for batch in context.read_avro(self.path, schema=schema).execute_stream():
                yield batch.to_pyarrow()
        except Exception as error:  # the reader has no error class of its own
            raise LakeshiftError(f"{self.location} could not be decoded as Avro: {error}") from error


def decoding_context() -> SessionContext:
    """A DataFusion context that decodes a file in one thread; callers decode several files at once."""
    # Only here: executors decode Avro for a rare kind of delete file, and may do without the package.
    from datafusion import SessionConfig, SessionContext

    return SessionContext(SessionConfig().with_target_partitions(1).with_batch_size(_BATCH_ROWS))


def is_local(location: str) -> bool:
    return canonical_location(location).startswith("/")


@contextmanager
def local_avro(location: str, io: FileIO, staging: Path, length: int | None = None) -> Iterator[LocalAvro]:
    """The file itself if it can be decoded where it lies, else a copy at ``staging`` that is removed on leaving.

    ``length`` is what the file is known to have. DataFusion reads as many blocks as there are and does not
    notice a file that was cut off, so this is checked here.
    """
    with _opened(location, io) as stream:
        header = read_header(stream, location)
        start = stream.tell()
        found = stream.seek(0, SEEK_END)
        if length is not None and found < length:
            raise LakeshiftError(f"{location} was cut off: it has {found} bytes of {length}.")
        stream.seek(start)
        schema = decodable_schema(header.schema)
        path = canonical_location(location)
        if schema == header.schema and _PLAIN_PATH.fullmatch(path):
            yield LocalAvro(Path(path), location, header)
            return
        header = header.with_schema(schema)
        with staging.open("wb") as copied:
            copied.write(header.encode())
            while chunk := stream.read(1 << 20):
                copied.write(chunk)
    try:
        yield LocalAvro(staging, location, header)
    finally:
        staging.unlink()


@contextmanager
def _opened(location: str, io: FileIO) -> Iterator[BinaryIO]:
    if is_local(location):
        with Path(canonical_location(location)).open("rb") as stream:
            yield stream
    else:
        # One request for the whole file: a manifest is read to its end anyway.
        with io.new_input(location).open() as source:
            content = source.read()
        yield BytesIO(content)


def decodable_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A record schema without what DataFusion fails on, under which a file's blocks read the same.

    Fields that are records of no fields, or of the type null, are left out, since they take no bytes: every manifest
    of an unpartitioned spec has the first, and the second is what Java writes for a partition field whose source
    column was dropped. Fields whose names have letters beyond ASCII, which Iceberg's writers leave in names and Avro
    does not know, are named by their ids: who reads the rows finds them by these.
    """
    kept = []
    for field in schema["fields"]:
        if field["type"] == "null":
            continue
        if isinstance(field["type"], dict) and field["type"].get("type") == "record":
            inner = decodable_schema(field["type"])
            if not inner["fields"]:
                continue
            field = {**field, "type": inner}
        if not _AVRO_NAME.fullmatch(field["name"]) and "field-id" in field:
            field = {**field, "name": f"field_{field['field-id']}"}
        kept.append(copy.copy(field))
    return {**schema, "fields": kept}


def fields_by_id(avro_type: Any) -> dict[int, dict[str, Any]]:
    """The fields of an Avro record by their Iceberg field ids."""
    if isinstance(avro_type, list):  # a union with null
        avro_type = next(branch for branch in avro_type if branch != "null")
    return {field["field-id"]: field for field in avro_type["fields"]}


def read_header(stream: BinaryIO, location: str) -> AvroHeader:
    """Read an Avro file's header and no further."""
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise LakeshiftError(f"{location} is not an Avro file: it does not begin with Avro's magic bytes.")
    metadata = {}
    while count := _read_long(stream, location):
        if count < 0:  # a negative count is followed by the block's size in bytes
            _read_long(stream, location)
        for _ in range(abs(count)):
            key = stream.read(_read_long(stream, location)).decode()
            metadata[key] = stream.read(_read_long(stream, location))
    sync = stream.read(_SYNC_BYTES)
    if len(sync) != _SYNC_BYTES or "avro.schema" not in metadata:
        raise LakeshiftError(f"{location} ends within its Avro header; the file was cut off.")
    return AvroHeader(metadata, sync)


def _read_long(stream: BinaryIO, location: str) -> int:
    shift = value = 0
    while True:
        byte = stream.read(1)
        if not byte:
            raise LakeshiftError(f"{location} ends within its Avro header; the file was cut off.")
        value |= (byte[0] & 0x7F) << shift
        if not byte[0] & 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def _encode_long(value: int) -> bytes:
    """A non-negative number as Avro's variable-length zig-zag long."""
    encoded = bytearray()
    value <<= 1
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
