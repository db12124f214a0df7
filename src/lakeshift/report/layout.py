"""The partitions of a table as columns: which there are under each spec, and what lies in them.

Computed on whole Arrow and numpy columns from the ledger; there is no Python object per file or partition. How
this is drawn, and how much of it fits on a page, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, VoidTransform

from lakeshift.iceberg.deletes import AppliedDeletes
from lakeshift.iceberg.ledger import Ledger
from lakeshift.iceberg.partition_names import PartitionNames
from lakeshift.iceberg.partition_types import is_unpartitioned, partition_values
from lakeshift.iceberg.rewrite.packing import Numbers
from lakeshift.iceberg.rewrite.spec_files import Partitions

# More rows of cells than this, or rows of less than that many cells, would be no easier to read than one long line.
_MOST_RUNS = 60
_LEAST_RUN = 3
# How much of a moment's text names the longer stretch of time that it lies in.
_LONGER_TIMES: Mapping[type, int] = {HourTransform: 10, DayTransform: 7, MonthTransform: 4}


@dataclass(frozen=True)
class FieldValues:
    """The values of one partition field: each distinct text once, None for null, and which one each partition has."""

    name: str
    texts: tuple[str | None, ...]
    numbers: Numbers


@dataclass(frozen=True)
class PartitionCounts:
    """What lies in each partition, in the order of partitions.

    ``deletes_to_apply`` sums, over the data files, the delete files that apply to each of them: what a full read
    opens. ``deleted_rows`` are those that metadata tells of; equality deletes and shared position deletes do not say.
    """

    files: Numbers
    bytes: Numbers
    rows: Numbers
    files_with_deletes: Numbers
    deletes_to_apply: Numbers
    deleted_rows: Numbers

    def columns(self) -> dict[str, Numbers]:
        return {name: getattr(self, name) for name in COUNTS}


COUNTS = ("files", "bytes", "rows", "files_with_deletes", "deletes_to_apply", "deleted_rows")


@dataclass(frozen=True)
class SpecPartitions:
    """The partitions of one spec that have data files, in the order of their values.

    ``runs`` cuts them into stretches that belong together, such as the days of a month: a label and a number of
    partitions each. It is empty where there is nothing to tell apart.
    """

    spec_id: int
    fields: tuple[FieldValues, ...]
    counts: PartitionCounts
    runs: tuple[tuple[str, int], ...]

    def __len__(self) -> int:
        return len(self.counts.files)

    def records(self) -> Iterator[dict[str, Any]]:
        """Each partition as plain values."""
        texts = [[field.texts[number] for number in field.numbers.tolist()] for field in self.fields]
        columns = self.counts.columns()
        names = [field.name for field in self.fields]
        for place, numbers in enumerate(zip(*(column.tolist() for column in columns.values()), strict=True)):
            partition = dict(zip(names, (column[place] for column in texts), strict=True))
            yield {"spec_id": self.spec_id, "partition": partition, **dict(zip(columns, numbers, strict=True))}


def spec_partitions(
    ledger: Ledger, spec_id: int, applied: AppliedDeletes | None, deletes: Mapping[int, pa.Table]
) -> SpecPartitions:
    """The partitions of one spec. ``applied`` are the deletes that apply to its files, None if there are none."""
    spec, files = ledger.metadata.specs()[spec_id], ledger.data[spec_id]
    partitions = Partitions.of(spec, files.column("partition"))
    rows = files.column("record_count").to_numpy()
    none = np.zeros(files.num_rows, np.int64)
    to_apply = none if applied is None else applied.counts.to_numpy()
    deleted = none if applied is None else np.minimum(applied.known_deleted_rows(deletes).to_numpy(), rows)

    def per_partition(values: Numbers) -> Numbers:
        sums = np.zeros(len(partitions), np.int64)
        np.add.at(sums, partitions.numbers, values)
        return sums

    counts = PartitionCounts(
        files=per_partition(none + 1),
        bytes=per_partition(files.column("file_size_in_bytes").to_numpy()),
        rows=per_partition(rows),
        files_with_deletes=per_partition((to_apply > 0).astype(np.int64)),
        deletes_to_apply=per_partition(to_apply),
        deleted_rows=per_partition(deleted),
    )
    if is_unpartitioned(spec):
        return SpecPartitions(spec_id, (), counts, ())
    # Void fields are always null: showing them would say nothing.
    said = [place for place, field in enumerate(spec.fields) if not isinstance(field.transform, VoidTransform)]
    values = list(zip(*partition_values(partitions.values, spec, ledger.metadata), strict=True))
    fields = tuple(_field_values(ledger.metadata, spec.fields[place], values[place]) for place in said)
    return SpecPartitions(spec_id, fields, counts, _runs(spec, fields))


def _field_values(metadata: TableMetadata, field: PartitionField, values: tuple[Any, ...]) -> FieldValues:
    write = PartitionNames(metadata).writer(field)
    texts: dict[str | None, int] = {}
    numbers_by_value: dict[Any, int] = {}
    numbers = np.empty(len(values), np.int64)
    for place, value in enumerate(values):
        key = repr(value) if isinstance(value, float) else value  # -0.0 and 0.0 are two partitions
        number = numbers_by_value.get(key)
        if number is None:
            text = None if value is None else write(value)
            number = numbers_by_value[key] = texts.setdefault(text, len(texts))
        numbers[place] = number
    return FieldValues(field.name, tuple(texts), numbers)


def _runs(spec: PartitionSpec, fields: tuple[FieldValues, ...]) -> tuple[tuple[str, int], ...]:
    """Cut partitions by their first field: by the longer time that it lies in, or by its values if more follow."""
    first = fields[0]
    transform = next(field.transform for field in spec.fields if field.name == first.name)
    length = _LONGER_TIMES.get(type(transform))
    if length is None and len(fields) == 1:
        return ()
    labels = ["null" if text is None else text if length is None else text[:length] for text in first.texts]
    runs: list[tuple[str, int]] = []
    for number, count in _repeats(first.numbers):
        label = labels[number]
        if runs and runs[-1][0] == label:
            runs[-1] = (label, runs[-1][1] + count)
        else:
            runs.append((label, count))
    total = len(first.numbers)
    return tuple(runs) if 1 < len(runs) <= _MOST_RUNS and total >= _LEAST_RUN * len(runs) else ()


def _repeats(numbers: Numbers) -> list[tuple[int, int]]:
    """Equal neighbours as (number, how many)."""
    starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    counts = np.diff(np.append(starts, len(numbers)))
    return list(zip(numbers[starts].tolist(), counts.tolist(), strict=True))
