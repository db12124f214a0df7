"""Packing files into groups: arithmetic on whole columns of numbers, nothing of Iceberg.

Files come with the number of the pool they belong to; a pool's files are packed into bins in their order, and
each bin that is worth it becomes a group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lakeshift.iceberg.rewrite.options import FileSizes, RewriteOptions

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Candidates:
    """The files to be packed: the pool of each, its size, its rows, and whether it is a reason of its own.

    ``forced`` files make their bin worth rewriting whatever its size: they have too many deletes, or must move.
    """

    pools: Numbers
    sizes: Numbers
    rows: Numbers
    forced: Flags

    def take(self, order: Numbers) -> Candidates:
        return Candidates(self.pools[order], self.sizes[order], self.rows[order], self.forced[order])


@dataclass(frozen=True)
class Bins:
    """Stretches of the candidates, which ``order`` puts in the order of their pools."""

    order: Numbers
    pools: Numbers
    starts: Numbers
    stops: Numbers
    sizes: Numbers
    rows: Numbers

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def files(self) -> Numbers:
        return self.stops - self.starts

    def take(self, chosen: Numbers | Flags) -> Bins:
        return replace(
            self,
            pools=self.pools[chosen],
            starts=self.starts[chosen],
            stops=self.stops[chosen],
            sizes=self.sizes[chosen],
            rows=self.rows[chosen],
        )


def pack(files: Candidates, sizes: FileSizes, options: RewriteOptions) -> Bins:
    """The bins that are worth rewriting, in the order of their pools and within a pool in that of its files."""
    # Numbers of two bytes are sorted by counting, which takes a tenth of the time.
    small = files.pools.astype(np.uint16) if len(files.pools) and files.pools.max() < 1 << 16 else files.pools
    order = np.argsort(small, kind="stable").astype(np.int64)
    ordered = files.take(order)
    starts = _bin_starts(ordered, options)
    bins = _summed(order, ordered, starts, np.append(starts[1:], len(order)).astype(np.int64))
    return bins.take(_worth_it(bins, ordered, sizes, options))


def limit_files(bins: Bins, files: Candidates, sizes: FileSizes, options: RewriteOptions) -> Bins:
    """The first bins, up to so many files in all; a bin that is cut stays only if what is left is worth it."""
    most = options.max_files_to_rewrite
    if most is None or bins.files.sum() <= most:
        return bins
    before = np.cumsum(bins.files) - bins.files
    kept = bins.take(before < most)
    cut_at = kept.starts[-1] + (most - before[len(kept) - 1])
    ordered = files.take(bins.order)
    # Stops are given one by one: in job order bins do not follow upon each other.
    cut = _summed(bins.order, ordered, kept.starts[-1:], np.minimum(kept.stops[-1:], cut_at))
    if not _worth_it(cut, ordered, sizes, options)[0]:
        return kept.take(np.arange(len(kept) - 1))
    last = len(kept) - 1
    return replace(
        kept,
        stops=np.append(kept.stops[:last], cut.stops),
        sizes=np.append(kept.sizes[:last], cut.sizes),
        rows=np.append(kept.rows[:last], cut.rows),
    )


def job_order(bins: Bins, order: str) -> Numbers:
    """In which order bins are to be worked on; equal ones stay as they are."""
    what, _, direction = order.partition("-")
    if what == "none":
        return np.arange(len(bins))
    weights = bins.sizes if what == "bytes" else bins.files
    return np.argsort(-weights if direction == "desc" else weights, kind="stable")


def _bin_starts(ordered: Candidates, options: RewriteOptions) -> Numbers:
    count = len(ordered.pools)
    if not count:
        return np.empty(0, np.int64)
    starts = np.append(0, np.flatnonzero(np.diff(ordered.pools)) + 1).astype(np.int64)
    stops = np.append(starts[1:], count)
    most_files = options.max_file_group_input_files or count
    too_large = (np.add.reduceat(ordered.sizes, starts) > options.max_file_group_size_bytes) | (
        stops - starts > most_files
    )
    if not too_large.any():
        return starts
    reached = np.cumsum(ordered.sizes)
    more = []
    for start, stop in zip(starts[too_large].tolist(), stops[too_large].tolist(), strict=True):
        while start < stop:
            more.append(start)
            filled = reached[start] - ordered.sizes[start] + options.max_file_group_size_bytes
            fits = int(np.searchsorted(reached, filled, side="right"))
            # A file that is larger than a bin has one of its own.
            start = min(max(fits, start + 1), start + most_files, stop)
    return np.union1d(starts, np.array(more, np.int64))


def _summed(order: Numbers, ordered: Candidates, starts: Numbers, stops: Numbers) -> Bins:
    return Bins(
        order,
        ordered.pools[starts],
        starts,
        stops,
        _sums(ordered.sizes, starts, stops),
        _sums(ordered.rows, starts, stops),
    )


def _worth_it(bins: Bins, ordered: Candidates, sizes: FileSizes, options: RewriteOptions) -> Flags:
    several = bins.files > 1
    forced = _sums(ordered.forced.astype(np.int64), bins.starts, bins.stops) > 0
    found: Flags = (
        options.rewrite_all
        | forced
        | (several & (bins.files >= options.min_input_files))
        | (several & (bins.sizes > sizes.target))
        | (bins.sizes > sizes.largest)
    )
    return found


def _sums(values: Numbers, starts: Numbers, stops: Numbers) -> Numbers:
    reached = np.append(0, np.cumsum(values))
    sums: Numbers = reached[stops] - reached[starts]
    return sums
