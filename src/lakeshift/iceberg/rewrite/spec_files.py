"""The files of one spec on their way through planning: partitions numbered, filter and thresholds applied.

Columns in, columns out. Nothing is read here, and files of other specs are not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec

from lakeshift.iceberg.deletes import AppliedDeletes
from lakeshift.iceberg.file_filter import metrics_that_match
from lakeshift.iceberg.partition_key import PartitionNumbers
from lakeshift.iceberg.partition_types import is_unpartitioned
from lakeshift.iceberg.rewrite.options import FileSizes, RewriteOptions
from lakeshift.iceberg.rewrite.packing import Flags, Numbers
from lakeshift.iceberg.rewrite.partition_filter import MultiSpecPartitionFilter


@dataclass(frozen=True)
class Partitions:
    """The distinct partitions of some files, in the order of their values, and which of them each file has."""

    values: pa.StructArray
    numbers: Numbers

    @classmethod
    def of(cls, spec: PartitionSpec, partitions: pa.ChunkedArray) -> Partitions:
        if is_unpartitioned(spec):
            return cls(partitions.slice(0, 1).combine_chunks(), np.zeros(len(partitions), np.int64))
        numbering, found = PartitionNumbers.of(partitions)
        numbers = found.to_numpy()
        first = np.empty(numbering.count, np.int64)
        # Of several writes to one place the last one stays: backwards, that is the first row of each partition.
        first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
        distinct = partitions.take(pa.array(first)).combine_chunks()
        order = _by_value(distinct)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return cls(distinct.take(pa.array(order)), rank[numbers])

    def __len__(self) -> int:
        return len(self.values)


def _by_value(partitions: pa.StructArray) -> Numbers:
    """The order that `PartitionKey.sort_key` gives: values, then NaN, then null, field by field."""
    columns = partitions.flatten()
    table = pa.table(columns, names=[str(index) for index in range(len(columns))])
    order: Numbers = pc.sort_indices(table, [(name, "ascending") for name in table.column_names]).to_numpy()
    return order.astype(np.int64)


@dataclass(frozen=True)
class FilteredFiles:
    """The files of a spec that a filter admits, with counts of what it left out."""

    spec: PartitionSpec
    files: pa.Table
    partitions: Partitions
    fail_open: Flags
    partitions_excluded: int = 0
    excluded_by_partition: int = 0
    excluded_by_metrics: int = 0

    def select(self, columns: Sequence[str]) -> FilteredFiles:
        """The same with these columns only: metrics have done their work, and are large."""
        return replace(self, files=self.files.select(columns))

    @cached_property
    def sizes(self) -> Numbers:
        return _numbers(self.files, "file_size_in_bytes")

    @cached_property
    def rows(self) -> Numbers:
        return _numbers(self.files, "record_count")


def filter_files(
    spec: PartitionSpec, files: pa.Table, where: MultiSpecPartitionFilter | None, *, by_metrics: bool
) -> FilteredFiles:
    """Apply a filter to the files of one spec: once per partition, then to each file by its metrics.

    Partitions that fail open are taken in whole, so that what is counted as such is what is in the plan.
    """
    partitions = Partitions.of(spec, files.column("partition"))
    if where is None:
        return FilteredFiles(spec, files, partitions, np.zeros(len(partitions), np.bool_))
    decision = where.decide(spec.spec_id, partitions.values)
    included, fail_open = _flags(decision.included), _flags(decision.fail_open)
    in_partition = included[partitions.numbers]
    kept = in_partition
    if by_metrics and (included & ~fail_open).any():
        kept = in_partition & (_flags(metrics_that_match(where.bound, files)) | fail_open[partitions.numbers])
    by_partition = int(len(kept) - in_partition.sum())
    by_metric = int(in_partition.sum() - kept.sum())
    if not kept.all():
        files = files.filter(pa.array(kept))
        partitions = Partitions(partitions.values, partitions.numbers[kept])
    return FilteredFiles(spec, files, partitions, fail_open, int((~included).sum()), by_partition, by_metric)


@dataclass(frozen=True)
class SelectedFiles:
    """Which of a spec's files are candidates for rewriting, and which of those for their deletes alone."""

    candidates: Flags
    too_many_deletes: Flags


def select_candidates(
    found: FilteredFiles,
    applied: AppliedDeletes | None,
    deletes: Mapping[int, pa.Table],
    sizes: FileSizes,
    options: RewriteOptions,
) -> SelectedFiles:
    """Choose files by their size and by the deletes that really apply to them."""
    too_many = np.zeros(len(found.sizes), np.bool_)
    if applied is not None:
        if options.delete_file_threshold is not None:
            too_many |= applied.counts.to_numpy() >= options.delete_file_threshold
        deleted = np.minimum(applied.known_deleted_rows(deletes).to_numpy(), found.rows)
        # Counts of 0 or -1 tell nothing of a share.
        too_many |= (deleted > 0) & (deleted >= options.delete_ratio_threshold * np.maximum(found.rows, 1))
    if options.rewrite_all:
        return SelectedFiles(np.ones(len(found.sizes), np.bool_), too_many)
    return SelectedFiles((found.sizes < sizes.smallest) | (found.sizes > sizes.largest) | too_many, too_many)


def _numbers(table: pa.Table, column: str) -> Numbers:
    found: Numbers = table.column(column).to_numpy()
    return found


def _flags(array: pa.BooleanArray) -> Flags:
    flags: Flags = array.to_numpy(zero_copy_only=False)
    return flags
