"""Which files may be packed together: by their partition, or by the partition they will belong to.

Files that keep their spec are pooled by PartitionKey. Where files move to another spec, a row's new partition is
only known from its values; but as far as a file's old partition determines the new one, as an hour does its day,
files are pooled by that. All rows of one new partition are in the same pool, so that they can be consolidated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import BinaryType, IcebergType, StringType, TimestampType

from lakeshift.iceberg.partition_key import PartitionKey
from lakeshift.iceberg.partition_names import PartitionNames, partition_keys
from lakeshift.iceberg.partition_types import partition_values
from lakeshift.iceberg.rewrite.packing import Numbers

_MICROS_PER_HOUR = 3_600_000_000
# Coarser than each: what an hour, a day or a month determines.
_COARSER: dict[type, tuple[type, ...]] = {
    HourTransform: (DayTransform, MonthTransform, YearTransform),
    DayTransform: (MonthTransform, YearTransform),
    MonthTransform: (YearTransform,),
}


class Pooled(Protocol):
    """Files of one spec by partition; ``used_partitions`` are the numbers of those that have a file to pack."""

    @property
    def spec(self) -> PartitionSpec: ...
    @property
    def distinct_partitions(self) -> pa.StructArray: ...
    @property
    def used_partitions(self) -> Numbers: ...


class Pools(Protocol):
    """Gives each partition of each spec the number of its pool, and says what a pool is."""

    def numbers(self, index: int) -> Numbers:
        """The pool of each distinct partition of the files at this index."""

    def describe(self, pools: Numbers) -> list[tuple[PartitionKey | None, str]]:
        """For each pool the one partition that its new files will have, if it is known, and its name."""


class PoolsByKey:
    """Pools of files that keep their partition, in the order of keys."""

    def __init__(self, metadata: TableMetadata, found: Sequence[Pooled]) -> None:
        self._metadata = metadata
        self._found = found
        self._first = np.append(0, np.cumsum([len(files.distinct_partitions) for files in found])).astype(np.int64)

    def numbers(self, index: int) -> Numbers:
        return np.arange(self._first[index], self._first[index + 1])

    def describe(self, pools: Numbers) -> list[tuple[PartitionKey | None, str]]:
        names = PartitionNames(self._metadata)
        owners = np.searchsorted(self._first, pools, side="right") - 1
        described: list[tuple[PartitionKey | None, str]] = [(None, "")] * len(pools)
        for index, files in enumerate(self._found):
            (mine,) = np.nonzero(owners == index)
            if not len(mine):
                continue
            values = files.distinct_partitions.take(pa.array(pools[mine] - self._first[index]))
            for place, key in zip(mine.tolist(), partition_keys(self._metadata, files.spec, values), strict=True):
                described[place] = key, names.text(key)
        return described


class PoolsByTarget:
    """Pools of files that move to another spec, together with files that are there already.

    Files of the target spec that share no pool with a file that moves are pooled by their own partition.
    """

    def __init__(self, metadata: TableMetadata, target: PartitionSpec, found: Sequence[Pooled]) -> None:
        self._metadata = metadata
        self._target = target
        moving = [files for files in found if files.spec.spec_id != target.spec_id and len(files.used_partitions)]
        known = [_derivations(files.spec, target, metadata.schema()) for files in moving]
        # A part of the new partition is used only if every old spec determines it: else a pool would be split.
        self._fields = [
            position
            for position, field in enumerate(target.fields)
            if not isinstance(field.transform, VoidTransform) and all(position in derived for derived in known)
        ]
        parts = {
            files.spec.spec_id: self._derived(files, derived) for files, derived in zip(moving, known, strict=True)
        }
        # As keys, since they know that NaN equals NaN.
        self._pools = sorted({part for mine in parts.values() for part in mine}, key=PartitionKey.sort_key)
        number = {part: index for index, part in enumerate(self._pools)}
        self._numbers: list[Numbers] = []
        self._own: dict[int, PartitionKey] = {}
        for files in found:
            numbers = np.full(len(files.distinct_partitions), -1, np.int64)
            if files.spec.spec_id == target.spec_id:
                numbers[files.used_partitions] = self._join(files, number)
            elif files.spec.spec_id in parts:
                numbers[files.used_partitions] = [number[part] for part in parts[files.spec.spec_id]]
            self._numbers.append(numbers)

    def numbers(self, index: int) -> Numbers:
        return self._numbers[index]

    def describe(self, pools: Numbers) -> list[tuple[PartitionKey | None, str]]:
        names = PartitionNames(self._metadata)
        writers = {position: names.writer(self._target.fields[position]) for position in self._fields}
        whole = sum(not isinstance(field.transform, VoidTransform) for field in self._target.fields)
        described: list[tuple[PartitionKey | None, str]] = []
        for pool in pools.tolist():
            if pool in self._own or whole == len(self._fields):
                key = self._own.get(pool) or self._whole_key(_values(self._pools[pool]))
                described.append((key, names.text(key)))
                continue
            known = zip(self._fields, _values(self._pools[pool]), strict=True)
            text = "/".join(f"{self._target.fields[place].name}={writers[place](value)}" for place, value in known)
            described.append((None, f"{text}/..." if text else "all partitions"))
        return described

    def _whole_key(self, part: tuple[Any, ...]) -> PartitionKey:
        values: list[Any] = [None] * len(self._target.fields)
        for position, value in zip(self._fields, part, strict=True):
            values[position] = value
        return PartitionKey.of(self._target, values)

    def _join(self, files: Pooled, number: dict[PartitionKey, int]) -> list[int]:
        """Pools for files of the target spec: with those that move if they can meet, else their own."""
        mine = []
        for key in partition_keys(self._metadata, self._target, _used(files)):
            values = () if key.partition is None else key.partition
            part = PartitionKey(self._target.spec_id, tuple(values[position] for position in self._fields))
            if part in number:
                mine.append(number[part])
            else:
                mine.append(len(self._pools) + len(self._own))
                self._own[mine[-1]] = key
        return mine

    def _derived(self, files: Pooled, derived: dict[int, tuple[int, Callable[[Any], Any]]]) -> list[PartitionKey]:
        """What each partition of the files determines of the new one."""
        if not self._fields:
            return [PartitionKey(self._target.spec_id, ())] * len(files.used_partitions)
        values = partition_values(_used(files), files.spec, self._metadata)
        steps = [derived[position] for position in self._fields]
        return [
            PartitionKey(self._target.spec_id, tuple(convert(partition[source]) for source, convert in steps))
            for partition in values
        ]


def _used(files: Pooled) -> pa.StructArray:
    return files.distinct_partitions.take(pa.array(files.used_partitions))


def _values(pool: PartitionKey) -> tuple[Any, ...]:
    assert pool.partition is not None
    return pool.partition


def _derivations(
    source: PartitionSpec, target: PartitionSpec, schema: Schema
) -> dict[int, tuple[int, Callable[[Any], Any]]]:
    """For each field of the target that a partition of the source determines: which field does, and how."""
    found: dict[int, tuple[int, Callable[[Any], Any]]] = {}
    for position, wanted in enumerate(target.fields):
        if isinstance(wanted.transform, (VoidTransform, UnknownTransform)):
            continue
        for place, field in enumerate(source.fields):
            convert = _conversion(field, wanted, schema) if field.source_id == wanted.source_id else None
            if convert is not None:
                found[position] = place, convert
                break
    return found


def _conversion(field: PartitionField, wanted: PartitionField, schema: Schema) -> Callable[[Any], Any] | None:
    """How a value of one partition field gives that of another one with the same source; None if it does not."""
    old, new = field.transform, wanted.transform
    if isinstance(old, (VoidTransform, UnknownTransform)):
        return None
    if old == new:
        return lambda value: value
    kind = schema.find_type(field.source_id)
    if isinstance(old, IdentityTransform):
        return _null_safe(new.transform(kind))
    if type(new) in _COARSER.get(type(old), ()):
        return _null_safe(_coarsened(old, new))
    if isinstance(old, TruncateTransform) and isinstance(new, TruncateTransform) and _truncates_further(old, new, kind):
        return _null_safe(new.transform(kind))
    return None


def _null_safe(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _coarsened(old: Transform[Any, Any], new: Transform[Any, Any]) -> Callable[[int], Any]:
    coarsen = new.transform(TimestampType())
    if isinstance(old, HourTransform):
        return lambda hours: coarsen(hours * _MICROS_PER_HOUR)
    if isinstance(old, DayTransform):
        return lambda days: coarsen(days * 24 * _MICROS_PER_HOUR)
    return lambda months: months // 12


def _truncates_further(old: TruncateTransform[Any], new: TruncateTransform[Any], kind: IcebergType) -> bool:
    if isinstance(kind, (StringType, BinaryType)):
        return new.width <= old.width
    return new.width % old.width == 0
