"""Deletion vectors: the positions in a blob of a Puffin file, as format version 3 stores them.

A blob is a length, a magic number, a 64-bit Roaring bitmap in its portable form, and a checksum. Bytes in,
positions out; nothing is opened here.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

from lakeshift.errors import LakeshiftError

Positions = npt.NDArray[np.int64]

_MAGIC = b"\xd1\xd3\x39\x64"
_COOKIE_WITH_RUNS = 12347
_COOKIE_WITHOUT_RUNS = 12346
_OFFSETS_FROM = 4
_BITSET_BYTES = 8192
_BITSET_FROM = 4096


def deleted_positions(blob: bytes, location: str) -> Positions:
    """The positions that a deletion vector deletes, in ascending order."""
    size = len(blob) - 8
    if size < len(_MAGIC) or struct.unpack_from(">i", blob)[0] != size or blob[4:8] != _MAGIC:
        raise LakeshiftError(f"{location} does not hold a deletion vector where the manifest says: {blob[:8]!r}.")
    if zlib.crc32(blob[4 : 4 + size]) != struct.unpack_from(">I", blob, 4 + size)[0]:
        raise LakeshiftError(f"The deletion vector in {location} is damaged: its checksum is wrong.")
    (count,) = struct.unpack_from("<q", blob, 8)
    offset, found = 16, []
    for _ in range(count):
        (high,) = struct.unpack_from("<I", blob, offset)
        low, offset = _read_bitmap(blob, offset + 4)
        found.append(low + (np.int64(high) << np.int64(32)))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _read_bitmap(data: bytes, offset: int) -> tuple[Positions, int]:
    """A 32-bit bitmap in Roaring's portable form, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, offset)
    runs: npt.NDArray[np.bool_]
    may_have_runs = cookie & 0xFFFF == _COOKIE_WITH_RUNS
    if may_have_runs:
        containers, offset = (cookie >> 16) + 1, offset + 4
        flags = np.frombuffer(data, np.uint8, (containers + 7) // 8, offset)
        runs = np.unpackbits(flags, bitorder="little")[:containers].astype(bool)
        offset += len(flags)
    elif cookie == _COOKIE_WITHOUT_RUNS:
        (containers,) = struct.unpack_from("<I", data, offset + 4)
        runs, offset = np.zeros(containers, bool), offset + 8
    else:
        raise LakeshiftError(f"A deletion vector begins with {cookie}, which is not a Roaring bitmap.")
    header = np.frombuffer(data, "<u2", 2 * containers, offset).reshape(-1, 2)
    offset += header.nbytes
    if not may_have_runs or containers >= _OFFSETS_FROM:
        offset += 4 * containers
    found = []
    for (key, last), is_run in zip(header.tolist(), runs.tolist(), strict=True):
        values, offset = _read_container(data, offset, last + 1, is_run)
        found.append(values + (key << 16))
    return (np.concatenate(found) if found else np.empty(0, np.int64)), offset


def _read_container(data: bytes, offset: int, cardinality: int, is_run: bool) -> tuple[Positions, int]:
    if is_run:
        (count,) = struct.unpack_from("<H", data, offset)
        pairs = np.frombuffer(data, "<u2", 2 * count, offset + 2).reshape(-1, 2).astype(np.int64)
        values = [np.arange(start, start + more + 1) for start, more in pairs.tolist()]
        return np.concatenate(values).astype(np.int64), offset + 2 + 4 * count
    if cardinality > _BITSET_FROM:
        bits = np.unpackbits(np.frombuffer(data, np.uint8, _BITSET_BYTES, offset), bitorder="little")
        return np.flatnonzero(bits).astype(np.int64), offset + _BITSET_BYTES
    return np.frombuffer(data, "<u2", cardinality, offset).astype(np.int64), offset + 2 * cardinality
