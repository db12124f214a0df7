"""Batches cut into partitions: which rows go where, and what is copied."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakeshift.iceberg.partition_split import partition_tuples, split_by_partition, split_by_place


def split(values: list[pa.Array]) -> list[tuple[Any, list[int]]]:
    batch = pa.record_batch([pa.array(range(len(values[0])), pa.int64())], ["row"])
    return [(partition, part["row"].to_pylist()) for partition, part in split_by_partition(batch, values)]


def test_rows_keep_their_order_and_partitions_come_as_they_appear() -> None:
    values = [pa.array(["b", "a", "b", None, "a", None, "b"]), pa.array([1, 1, 1, 2, 2, 2, 1], pa.int32())]
    assert split(values) == [(("b", 1), [0, 2, 6]), (("a", 1), [1]), ((None, 2), [3, 5]), (("a", 2), [4])]


def test_nan_is_one_partition_and_minus_zero_another_than_zero() -> None:
    other_nan = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
    for kind in (pa.float64(), pa.float32()):
        found = split([pa.array([0.0, math.nan, -0.0, other_nan, None, 0.0], kind)])
        assert [rows for _, rows in found] == [[0, 5], [1, 3], [2], [4]]
        assert [repr(partition[0]) for partition, _ in found] == ["0.0", "nan", "-0.0", "None"]


def test_values_are_those_of_file_metadata() -> None:
    one = pa.array([1], pa.int64())
    values = [
        pa.array([19_000], pa.int32()).cast(pa.date32()),
        one.cast(pa.timestamp("us")),
        one.cast(pa.timestamp("us", "UTC")),
        one.cast(pa.timestamp("ns")),
        one.cast(pa.time64("us")),
        pa.array([Decimal("1.50")]),
        pa.array([b"0123456789abcdef"], pa.binary(16)),
        pa.nulls(1),
        pa.array([True]),
    ]
    expected = (19_000, 1, 1, 1, 1, Decimal("1.50"), b"0123456789abcdef", None, True)
    assert split(values) == [(expected, [0])]
    assert partition_tuples(values) == [expected]


def test_batches_in_order_are_not_copied() -> None:
    rows = pa.array(range(6), pa.int64())
    batch = pa.record_batch([rows], ["row"])
    address = rows.buffers()[1].address
    for values, sizes in [
        ([pa.array(["a"] * 6)], [6]),
        ([], [6]),
        ([pa.nulls(6)], [6]),
        ([pa.array(["a", "a", "b", "b", "b", None])], [2, 3, 1]),
    ]:
        parts = [part for _, part in split_by_partition(batch, values)]
        assert [len(part) for part in parts] == sizes
        assert {part["row"].buffers()[1].address for part in parts} == {address}
    (whole,) = split_by_partition(batch, [pa.array(["a"] * 6)])
    assert whole[1] is batch
    assert list(split_by_partition(batch, [])) == [((), batch)]


def test_an_empty_batch_has_no_partitions() -> None:
    batch = pa.record_batch([pa.array([], pa.int64())], ["row"])
    assert list(split_by_partition(batch, [pa.array([], pa.string())])) == []
    assert list(split_by_partition(batch, [])) == []


def test_many_partitions_of_many_fields() -> None:
    count = 70_000
    values = [pa.array([(row * 7919) % base for row in range(count)], pa.int64()) for base in (41, 43, 47)]
    batch = pa.record_batch([pa.array(range(count), pa.int64())], ["row"])
    seen = 0
    for partition, part in split_by_partition(batch, values):
        rows = part["row"].to_pylist()
        assert rows == sorted(rows)
        assert all(tuple((row * 7919) % base for base in (41, 43, 47)) == partition for row in rows)
        seen += len(rows)
    assert seen == count


def test_nested_columns_travel_with_their_rows() -> None:
    rows = [{"k": "b", "tags": ["x"]}, {"k": "a", "tags": None}, {"k": "b", "tags": []}]
    batch = pa.RecordBatch.from_pylist(rows)
    parts = dict(split_by_partition(batch, [batch["k"]]))
    assert parts["b",].to_pylist() == [rows[0], rows[2]]
    assert parts["a",].to_pylist() == [rows[1]]


def test_rows_of_a_place_lie_together_by_partition() -> None:
    def placed(keys: list[str | None]) -> dict[int, list[tuple[str, int]]]:
        batch = pa.record_batch([pa.array(range(len(keys)), pa.int64()), pa.array(keys, pa.string())], ["row", "k"])
        found = split_by_place(batch, [batch["k"]], lambda partition: 1 if partition[0] in ("a", "c") else 2)
        return {place: list(zip(part["k"].to_pylist(), part["row"].to_pylist(), strict=True)) for place, part in found}

    mixed = {2: [("b", 0), ("b", 3), (None, 4)], 1: [("a", 1), ("a", 5), ("c", 2)]}
    assert placed(["b", "a", "c", "b", None, "a"]) == mixed
    in_order = {2: [("b", 0), ("b", 1), (None, 5)], 1: [("a", 2), ("a", 3), ("c", 4)]}
    assert placed(["b", "b", "a", "a", "c", None]) == in_order
    assert placed(["a", "a"]) == {1: [("a", 0), ("a", 1)]}
    assert placed([]) == {}
