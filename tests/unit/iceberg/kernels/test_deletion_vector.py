"""Deletion vectors against another implementation of Roaring bitmaps."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lakeshift.errors import LakeshiftError
from lakeshift.iceberg.kernels.deletion_vector import deleted_positions
from tests.conftest import FULL


def _blob(bitmaps: dict[int, BitMap]) -> bytes:
    parts = [struct.pack("<q", len(bitmaps))]
    for high, bitmap in sorted(bitmaps.items()):
        parts += [struct.pack("<I", high), bitmap.serialize()]
    content = b"\xd1\xd3\x39\x64" + b"".join(parts)
    return struct.pack(">i", len(content)) + content + struct.pack(">I", zlib.crc32(content))


# Arrays, bitsets and runs, in one and in several containers.
RANGES = st.tuples(st.integers(0, 400_000), st.integers(1, 70_000), st.sampled_from([1, 2, 3, 7, 1000]))


@settings(max_examples=500 if FULL else 60, deadline=None)
@given(st.dictionaries(st.integers(0, 2), st.lists(RANGES, min_size=1, max_size=4), max_size=2), st.booleans())
def test_positions_are_those_of_the_bitmap(ranges: dict[int, list[tuple[int, int, int]]], runs: bool) -> None:
    bitmaps = {}
    for high, stretches in ranges.items():
        bitmap = BitMap()
        for start, length, step in stretches:
            bitmap |= BitMap(range(start, start + length, step))
        if runs:
            bitmap.run_optimize()
        bitmaps[high] = bitmap
    expected = [np.array(bitmap, np.int64) + (high << 32) for high, bitmap in sorted(bitmaps.items())]
    found = deleted_positions(_blob(bitmaps), "x.puffin")
    assert found.tolist() == (np.concatenate(expected).tolist() if expected else [])


def test_a_damaged_vector_is_not_believed() -> None:
    blob = bytearray(_blob({0: BitMap([1, 2, 3])}))
    blob[-6] ^= 1
    with pytest.raises(LakeshiftError, match="x.puffin is damaged: its checksum is wrong"):
        deleted_positions(bytes(blob), "x.puffin")
    with pytest.raises(LakeshiftError, match="does not hold a deletion vector"):
        deleted_positions(b"PFA1 something else", "x.puffin")
