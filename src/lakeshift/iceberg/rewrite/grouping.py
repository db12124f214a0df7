"""From selected files to groups: pooled, packed, ordered, each with its files and the deletes that apply to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata

from lakeshift.iceberg.deletes import AppliedDeletes
from lakeshift.iceberg.rewrite.options import FileSizes, RewriteOptions
from lakeshift.iceberg.rewrite.packing import Bins, Candidates, Flags, Numbers, job_order, limit_files, pack
from lakeshift.iceberg.rewrite.plan import GroupInputs, RewriteGroup, SpecInputs
from lakeshift.iceberg.rewrite.pools import Pools, PoolsByKey, PoolsByTarget
from lakeshift.iceberg.rewrite.spec_files import FilteredFiles


@dataclass(frozen=True)
class Selection:
    """The files of one spec that are candidates: ``chosen`` are their rows, ``forced`` says which are a reason alone.

    ``moves`` says that they change their spec, which is reason enough for all of them.
    """

    found: FilteredFiles
    applied: AppliedDeletes | None
    chosen: Numbers
    forced: Flags
    moves: bool

    @property
    def spec(self) -> PartitionSpec:
        return self.found.spec

    @property
    def distinct_partitions(self) -> pa.StructArray:
        return self.found.partitions.values

    @cached_property
    def used_partitions(self) -> Numbers:
        return np.unique(self.found.partitions.numbers[self.chosen])

    def counts(self) -> dict[str, int]:
        """What the filter and the thresholds did, as a report counts it."""
        found = self.found
        return {
            "partitions": len(found.partitions),
            "partitions_excluded": found.partitions_excluded,
            "fail_open_partitions": int(found.fail_open.sum()),
            "files": len(found.sizes) + found.excluded_by_partition + found.excluded_by_metrics,
            "files_excluded_by_partition": found.excluded_by_partition,
            "files_excluded_by_metrics": found.excluded_by_metrics,
            "candidates": len(self.chosen),
        }


def build_groups(
    metadata: TableMetadata,
    selections: Sequence[Selection],
    target: PartitionSpec | None,
    sizes: FileSizes,
    options: RewriteOptions,
) -> tuple[RewriteGroup, ...]:
    """Group, pack, filter and order the candidates of all specs."""
    if not any(len(selection.chosen) for selection in selections):
        return ()
    pools: Pools = (
        PoolsByTarget(metadata, target, selections)
        if target is not None and any(selection.moves and len(selection.chosen) for selection in selections)
        else PoolsByKey(metadata, selections)
    )
    candidates = Candidates(
        np.concatenate(
            [pools.numbers(index)[s.found.partitions.numbers[s.chosen]] for index, s in enumerate(selections)]
        ),
        np.concatenate([selection.found.sizes[selection.chosen] for selection in selections]),
        np.concatenate([selection.found.rows[selection.chosen] for selection in selections]),
        np.concatenate([selection.forced | selection.moves for selection in selections]),
    )
    bins = pack(candidates, sizes, options)
    order = job_order(bins, options.rewrite_job_order)
    ids = order + 1
    bins = limit_files(bins.take(order), candidates, sizes, options)
    return _groups(selections, pools, bins, ids[: len(bins)], target, sizes)


def _groups(
    selections: Sequence[Selection],
    pools: Pools,
    bins: Bins,
    ids: Numbers,
    target: PartitionSpec | None,
    sizes: FileSizes,
) -> tuple[RewriteGroup, ...]:
    positions = bins.order[_stretches(bins.starts, bins.files)]
    first = np.append(0, np.cumsum([len(selection.chosen) for selection in selections]))
    owners = np.searchsorted(first, positions, side="right") - 1
    stops = np.cumsum(bins.files)
    starts = stops - bins.files
    parts: list[tuple[SpecInputs, Numbers, Numbers, bool]] = []
    for index, selection in enumerate(selections):
        mine = owners == index
        rows = selection.chosen[positions[mine] - first[index]]
        # A bin's files of one spec lie together, since candidates were put together spec by spec.
        before = np.append(0, np.cumsum(mine))
        offsets, lengths = before[starts], before[stops] - before[starts]
        parts.append((_inputs(selection, rows), offsets, lengths, selection.moves))
    described = pools.describe(bins.pools)
    columns = (ids, bins.files, bins.sizes, bins.rows)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    groups = []
    for place, ((key, text), (group_id, files, size, rows_in)) in enumerate(zip(described, numbers, strict=True)):
        inputs_of_group = tuple(
            GroupInputs(inputs, int(offsets[place]), int(lengths[place]))
            for inputs, offsets, lengths, _ in parts
            if lengths[place]
        )
        groups.append(
            RewriteGroup(
                group_id=group_id,
                output_spec_id=inputs_of_group[0].spec_id if target is None else target.spec_id,
                key=key,
                partition=text,
                inputs=inputs_of_group,
                input_files=files,
                input_bytes=size,
                input_rows=rows_in,
                expected_output_files=sizes.output_files(size),
                moved_files=sum(int(lengths[place]) for _, _, lengths, moves in parts if moves),
            )
        )
    return tuple(groups)


def _stretches(starts: Numbers, lengths: Numbers) -> Numbers:
    """The numbers of all stretches one after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - lengths - starts, lengths)


def _inputs(selection: Selection, rows: Numbers) -> SpecInputs:
    """The files that a plan refers to: in one piece, from which a group's own are taken when somebody asks for them."""
    # Where few are chosen, the others are let go.
    files, places = selection.found.files, pa.array(rows)
    if len(rows) * 2 < files.num_rows:
        files, places = files.take(places), pa.array(np.arange(len(rows)))
    applied = selection.applied and selection.applied.take(pa.array(rows))
    return SpecInputs(selection.spec.spec_id, files.combine_chunks(), places, applied)
