"""Record batches cut into one batch per partition, each row in its order.

Arrow compute alone: no Spark, no catalog, no file, no numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Partition: TypeAlias = tuple[Any, ...]


def split_by_partition(batch: pa.RecordBatch, values: Sequence[pa.Array]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """Each partition of a batch with its rows, in the order in which partitions first appear.

    ``values`` are the batch's partition values, one array per field. A partition is a tuple of them as file
    metadata holds them: dates and times as counts since 1970, UUIDs as bytes. Null equals null, NaN equals NaN,
    -0.0 is not 0.0. Rows keep their order. Batches whose partitions already lie one after another are cut without
    copying; otherwise the rows are copied once. The parts share memory: keeping one keeps all of the batch.
    """
    if not len(batch):
        return
    found = _Segments.of(values, len(batch))
    if len(found.partitions) == 1:
        yield found.partitions[0], batch
        return
    ordered = batch if found.order is None else batch.take(found.order)
    for partition, start, end in zip(found.partitions, found.starts, found.ends, strict=True):
        yield partition, ordered.slice(start, end - start)


def split_by_place(
    batch: pa.RecordBatch, values: Sequence[pa.Array], place_of: Callable[[Partition], int]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each place that a partition of the batch belongs to with its rows, those of each partition together."""
    if not len(batch):
        return
    found = _Segments.of(values, len(batch))
    by_place: dict[int, list[int]] = {}
    for number, partition in enumerate(found.partitions):
        by_place.setdefault(place_of(partition), []).append(number)
    for place, numbers in by_place.items():
        stretches = [(found.starts[number], found.ends[number] - found.starts[number]) for number in numbers]
        if found.order is None:
            parts = [batch.slice(*stretch) for stretch in stretches]
            yield place, parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        else:
            # Rows are copied once, by their numbers: to cut first and to join then would copy them twice.
            yield place, batch.take(pa.concat_arrays([found.order.slice(*stretch) for stretch in stretches]))


@dataclass(frozen=True)
class _Segments:
    """The partitions of a batch, and from which row to which each lies once rows are in ``order``; None if they are."""

    partitions: list[Partition]
    starts: list[int]
    ends: list[int]
    order: pa.Array | None

    @classmethod
    def of(cls, values: Sequence[pa.Array], length: int) -> _Segments:
        numbers = _number_rows(values, length)
        runs = pc.run_end_encode(numbers)
        counts = pc.value_counts(numbers).field(1)
        if len(runs.values) == len(counts):
            order, ends = None, runs.run_ends.to_pylist()
            firsts = starts = [0, *ends[:-1]]
        else:
            order = pc.array_sort_indices(numbers)  # stable, and by counting where the numbers are few
            ends = pc.cumulative_sum(counts).to_pylist()
            starts = [0, *ends[:-1]]
            firsts = order.take(pa.array(starts, pa.int64())).to_pylist()
        return cls(_tuples(values, firsts), starts, ends, order)


def partition_tuples(values: Sequence[pa.Array]) -> list[Partition]:
    """Rows of partition values as tuples, as file metadata holds them."""
    length = len(values[0]) if values else 0
    return _tuples(values, range(length))


def _tuples(values: Sequence[pa.Array], rows: Sequence[int]) -> list[Partition]:
    if not values:
        return [() for _ in rows]
    indices = pa.array(rows, pa.int64())
    return list(zip(*(_as_stored(array.take(indices)).to_pylist() for array in values), strict=True))


def _as_stored(array: pa.Array) -> pa.Array:
    if pa.types.is_date32(array.type):
        return array.view(pa.int32())
    return array.view(pa.int64()) if pa.types.is_temporal(array.type) else array


def _by_bits(array: pa.Array) -> pa.Array:
    """Floats as the bits they consist of, with one NaN only: what Iceberg tells partitions apart by."""
    if not pa.types.is_floating(array.type):
        return array
    one_nan = pc.if_else(pc.is_nan(array), pa.scalar(math.nan, array.type), array)
    return one_nan.view(pa.int64() if pa.types.is_float64(array.type) else pa.int32())


def _number_rows(values: Sequence[pa.Array], length: int) -> pa.Array:
    """A number for each row, equal where all values are; counted from 0 as partitions appear."""
    numbers, distinct = pa.repeat(pa.scalar(0, pa.int32()), length), 1
    for array in values:
        if pa.types.is_null(array.type):
            continue
        column = pc.dictionary_encode(_by_bits(array), null_encoding="encode")
        if distinct == 1:
            numbers, distinct = column.indices, len(column.dictionary)
        elif len(column.dictionary) > 1:
            mixed = pc.multiply(numbers.cast(pa.int64()), len(column.dictionary))
            encoded = pc.dictionary_encode(pc.add(mixed, column.indices.cast(pa.int64())))
            numbers, distinct = encoded.indices, len(encoded.dictionary)
    return numbers
