"""Avro container files: their header, their blocks and the codecs, as far as manifests need them.

Nothing here knows what a record means; see ``entry_codec`` for that.
"""

from __future__ import annotations

import bz2
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeshift.errors import ConfigError, LakeshiftError

MAGIC = b"Obj\x01"
_SYNC_SIZE = 16

# The names of the table property, and what Avro calls the codec.
_CODECS = {"gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "bzip2": "bzip2", "uncompressed": "null"}


@dataclass(frozen=True)
class Codec:
    """How the blocks of a new file are compressed."""

    avro_name: str
    level: int | None = None

    @classmethod
    def named(cls, name: str, level: str | None, property_name: str) -> Codec:
        avro_name = _CODECS.get(name.lower())
        if avro_name is None:
            raise ConfigError(f"{property_name} is {name!r}; it can be {', '.join(_CODECS)}. Set the table property.")
        if level is not None and not level.lstrip("-").isdigit():
            raise ConfigError(f"The compression level for {property_name} is {level!r}; it must be a whole number.")
        return cls(avro_name, None if level is None else int(level))

    def compress(self, block: bytes) -> bytes:
        if self.avro_name == "deflate":
            compressor = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if self.level is None else self.level, wbits=-15)
            return compressor.compress(block) + compressor.flush()
        if self.avro_name == "zstandard":
            return bytes(pa.Codec("zstd", compression_level=self.level).compress(block, asbytes=True))
        if self.avro_name == "snappy":
            return bytes(pa.Codec("snappy").compress(block, asbytes=True)) + zlib.crc32(block).to_bytes(4, "big")
        if self.avro_name == "bzip2":
            return bz2.compress(block, 9 if self.level is None else self.level)
        return block


def _inflate(block: bytes) -> bytes:
    return zlib.decompress(block, wbits=-15)


def _unzstd(block: bytes) -> bytes:
    # The frame header may not tell the size, which the one-shot call needs: stream it.
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        return bytes(stream.read())


def _unsnappy(block: bytes) -> bytes:
    size = shift = 0
    for byte in block:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    content = bytes(pa.Codec("snappy").decompress(block[:-4], decompressed_size=size, asbytes=True))
    if zlib.crc32(content) != int.from_bytes(block[-4:], "big"):
        raise LakeshiftError("A snappy block does not have the checksum that it names; the file is damaged.")
    return content


_DECOMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": lambda block: block,
    "deflate": _inflate,
    "zstandard": _unzstd,
    "snappy": _unsnappy,
    "bzip2": bz2.decompress,
}


@dataclass(frozen=True)
class AvroFile:
    """A container file in memory: what its header says, and its blocks."""

    location: str
    metadata: Mapping[str, bytes]
    content: bytes
    blocks_start: int

    @classmethod
    def parse(cls, content: bytes, location: str) -> AvroFile:
        if not content.startswith(MAGIC):
            raise LakeshiftError(f"{location} is not an Avro file: it does not begin with Avro's magic bytes.")
        metadata: dict[str, bytes] = {}
        try:
            count, at = read_long(content, len(MAGIC))
            while count:
                if count < 0:  # a negative count is followed by the block's size in bytes
                    _, at = read_long(content, at)
                for _ in range(abs(count)):
                    key, at = _read_bytes(content, at)
                    metadata[key.decode()], at = _read_bytes(content, at)
                count, at = read_long(content, at)
        except IndexError:
            raise LakeshiftError(f"{location} ends within its Avro header; the file was cut off.") from None
        return cls(location, metadata, content, at)

    @property
    def schema(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.metadata["avro.schema"])
        return parsed

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """The number of records and the decompressed bytes of each block."""
        codec = self.metadata.get("avro.codec", b"null").decode()
        decompress = _DECOMPRESS.get(codec)
        if decompress is None:
            raise LakeshiftError(f"{self.location} is compressed with {codec!r}, which lakeshift cannot read.")
        at = self.blocks_start
        sync = self.content[at : at + _SYNC_SIZE]
        at += _SYNC_SIZE
        while at < len(self.content):
            try:
                count, at = read_long(self.content, at)
                block, at = _read_bytes(self.content, at)
            except IndexError:
                raise LakeshiftError(f"{self.location} ends within a block; the file was cut off.") from None
            if self.content[at : at + _SYNC_SIZE] != sync:
                raise LakeshiftError(f"{self.location} has no sync marker at byte {at}; the file is damaged.")
            at += _SYNC_SIZE
            yield count, decompress(block)


def encode_file(
    metadata: Mapping[str, bytes], blocks: Iterable[tuple[int, bytes]], codec: Codec, executor: Executor
) -> bytes:
    """A container file as bytes. Compression leaves Python's lock, so that blocks are compressed side by side."""
    sync = os.urandom(_SYNC_SIZE)
    header = {**metadata, "avro.codec": codec.avro_name.encode()}
    parts = [MAGIC, write_long(len(header))]
    for key, value in header.items():
        parts += [write_bytes(key.encode()), write_bytes(value)]
    parts += [write_long(0), sync]
    counted = list(blocks)
    for (count, _), compressed in zip(counted, executor.map(codec.compress, (b for _, b in counted)), strict=True):
        parts += [write_long(count), write_bytes(compressed), sync]
    return b"".join(parts)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append((number & 0x7F) | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


# Most numbers of a manifest are small: field ids, lengths, counts.
SMALL_LONGS = tuple(_varint(number << 1) for number in range(16_384))


def write_long(number: int) -> bytes:
    """An int or long, zig-zag coded with a variable length."""
    if 0 <= number < 16_384:
        return SMALL_LONGS[number]
    return _varint((number << 1) ^ (number >> 63))


def write_bytes(value: bytes) -> bytes:
    return write_long(len(value)) + value


def read_long(buffer: bytes, at: int) -> tuple[int, int]:
    """The number at this place, and the place after it."""
    shift = value = 0
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _read_bytes(buffer: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_long(buffer, at)
    if at + size > len(buffer):
        raise IndexError(at + size)
    return buffer[at : at + size], at + size
