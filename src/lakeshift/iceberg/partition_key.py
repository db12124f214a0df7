"""The one key for a partition: its spec's number and its values, never the values alone.

Two specs may well hold equal values that mean different things, so everything that memoises, groups or
packs files by partition does it by this key. Nothing is read or written here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.typedef import Record

from lakeshift.iceberg.partition_types import is_unpartitioned


@dataclass(frozen=True, eq=False)
class PartitionKey:
    """A partition of one spec; ``partition`` is None where the spec is unpartitioned.

    Equal as Iceberg has it: null equals null, NaN equals NaN, and -0.0 is not 0.0.
    """

    spec_id: int
    partition: tuple[Any, ...] | None

    @classmethod
    def of(cls, spec: PartitionSpec, partition: Record | Mapping[str, Any] | Sequence[Any] | None) -> PartitionKey:
        """The key of a file of ``spec`` with these values, in the order of the spec's fields or by their names."""
        if is_unpartitioned(spec):
            return cls(spec.spec_id, None)
        if partition is None:
            raise ValueError(f"Spec {spec.spec_id} is partitioned ({spec}), but no partition values were given.")
        if isinstance(partition, Mapping):
            values = tuple(partition[field.name] for field in spec.fields)
        else:
            values = tuple(partition[position] for position in range(len(partition)))
        if len(values) != len(spec.fields):
            raise ValueError(f"Spec {spec.spec_id} has {len(spec.fields)} fields, but the partition has {values!r}.")
        return cls(spec.spec_id, values)

    def sort_key(self) -> tuple[Any, ...]:
        """Orders keys by spec, then by value field by field; NaN comes after the numbers, and null last."""
        values = () if self.partition is None else tuple(map(_sortable_value, self.partition))
        return self.spec_id, values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionKey) and self._comparable() == other._comparable()

    def __hash__(self) -> int:
        return hash(self._comparable())

    def _comparable(self) -> tuple[Any, ...]:
        values = () if self.partition is None else tuple(map(_comparable_value, self.partition))
        return self.spec_id, self.partition is None, values


def _comparable_value(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return struct.pack("<d", math.nan if math.isnan(value) else value)


def _sortable_value(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (2,)
    return (1,) if isinstance(value, float) and math.isnan(value) else (0, value)


@dataclass(frozen=True)
class PartitionNumbers:
    """Numbers the distinct partitions among some files of one spec, so that those of other files can be looked up.

    Each level is a partition field: its distinct values, and which of them occur together with which
    partition of the fields before it.
    """

    levels: tuple[tuple[pa.Array, pa.Array], ...]

    @classmethod
    def of(cls, partitions: pa.ChunkedArray) -> tuple[PartitionNumbers, pa.Array]:
        """Number these partitions from 0; returns the numbering, and the number of each of them."""
        levels = []
        numbers = _zeros(len(partitions))
        for column in _columns(partitions):
            values = pc.unique(column)
            mixed = _mix(numbers, column, values)
            together = pc.unique(mixed)
            levels.append((values, together))
            numbers = _flat(pc.index_in(mixed, value_set=together)).cast(pa.int64())
        return cls(tuple(levels)), numbers

    @property
    def count(self) -> int:
        """How many distinct partitions there are."""
        return len(self.levels[-1][1]) if self.levels else 1

    def look_up(self, partitions: pa.ChunkedArray) -> pa.Array:
        """The number of each partition, null for one that was not numbered."""
        numbers = _zeros(len(partitions))
        for column, (values, together) in zip(_columns(partitions), self.levels, strict=True):
            mixed = _mix(numbers, column, values)
            numbers = _flat(pc.index_in(mixed, value_set=together)).cast(pa.int64())
        return numbers


def _columns(partitions: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    return [pc.struct_field(partitions, [index]) for index in range(partitions.type.num_fields)]


def _mix(numbers: pa.Array, column: pa.ChunkedArray, values: pa.Array) -> pa.Array:
    # index_in finds null in a set that holds null, and NaN likewise, which is what partitions need.
    positions = _flat(pc.index_in(column, value_set=values)).cast(pa.int64())
    return pc.add(pc.multiply(numbers, max(len(values), 1)), positions)


def _zeros(length: int) -> pa.Array:
    return pa.repeat(pa.scalar(0, pa.int64()), length)


def _flat(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
