"""Which deletes apply to which data files, over all specs of a table.

The rules are Iceberg's. A position delete file applies to the one file that it names, if it names one,
else to all files of its PartitionKey, where its sequence number is not below the file's. An equality
delete file applies to the files of its PartitionKey with a lower sequence number, or to those of every
spec if its own spec is unpartitioned. Where a file has a deletion vector, position delete files no
longer count.

Everything is done on whole Arrow columns. Delete files that apply to a data file are always the newest
ones of a group, so that a match is kept as a range of a sorted list: thousands of deletes on thousands
of files stay small until somebody asks for the pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata

from lakeshift.iceberg.ledger import Ledger
from lakeshift.iceberg.partition_key import PartitionNumbers
from lakeshift.iceberg.partition_types import is_unpartitioned, spec_of
from lakeshift.locations import canonical_locations

# The ledger columns that matching needs.
DATA_COLUMNS = ("file_path", "sequence_number", "partition")
DELETE_COLUMNS = (
    "file_path",
    "file_format",
    "content",
    "sequence_number",
    "partition",
    "referenced_data_file",
    "lower_bounds",
    "upper_bounds",
)

# The reserved field id of the path column in position delete files.
PATH_FIELD_ID = 2147483546

_PAIRS = pa.schema([("data_row", pa.int64()), ("delete_spec_id", pa.int32()), ("delete_row", pa.int64())])


def target_paths(deletes: pa.Table) -> pa.ChunkedArray:
    """For each delete file the one data file it refers to, as it is spelled there; null if it is not file-scoped.

    A position delete file says so outright, or by bounds of its path column that are equal.
    """
    path = pa.scalar(PATH_FIELD_ID, pa.int32())
    lower = pc.map_lookup(deletes.column("lower_bounds"), path, "first")
    upper = pc.map_lookup(deletes.column("upper_bounds"), path, "first")
    by_bounds = pc.if_else(pc.equal(lower, upper), lower, pa.scalar(None, pa.binary())).cast(pa.string())
    named = pc.coalesce(deletes.column("referenced_data_file"), by_bounds)
    return pc.if_else(_has_content(deletes, DataFileContent.POSITION_DELETES), named, pa.scalar(None, pa.string()))


@dataclass(frozen=True)
class AppliedDeletes:
    """The delete files that apply to each row of one spec's table of data files.

    ``file_scoped`` are those that refer to one data file, ``shared`` those that may apply to many.
    """

    file_scoped: tuple[_Ranges, ...]
    shared: tuple[_Ranges, ...]

    @property
    def counts(self) -> pa.Array:
        """How many delete files apply to each data file."""
        return reduce(pc.add, (ranges.counts for ranges in self._ranges))

    @property
    def distinct(self) -> int:
        """How many delete files apply to any of the data files."""
        return sum(ranges.distinct for ranges in self._ranges)

    def known_deleted_rows(self, deletes: Mapping[int, pa.Table]) -> pa.Array:
        """How many rows of each data file are deleted for sure: what file-scoped deletes count.

        ``deletes`` are the tables that were matched, with the column record_count.
        """
        counts = {spec_id: table.column("record_count") for spec_id, table in deletes.items()}
        return reduce(pc.add, (ranges.weigh(counts) for ranges in self.file_scoped))

    def take(self, rows: pa.Array) -> AppliedDeletes:
        """The same for some of the data files, by their rows."""
        return AppliedDeletes(
            tuple(ranges.take(rows) for ranges in self.file_scoped), tuple(ranges.take(rows) for ranges in self.shared)
        )

    def slice(self, offset: int, length: int) -> AppliedDeletes:
        """The same for a stretch of the data files, without copying."""
        return AppliedDeletes(
            tuple(ranges.slice(offset, length) for ranges in self.file_scoped),
            tuple(ranges.slice(offset, length) for ranges in self.shared),
        )

    @property
    def _ranges(self) -> tuple[_Ranges, ...]:
        return self.file_scoped + self.shared

    def pairs(self) -> pa.Table:
        """A row for each data file and each delete file that applies to it.

        ``data_row`` is the data file's row in the table that was matched, ``delete_row`` the delete file's row
        in the table of the delete files of spec ``delete_spec_id``.
        """
        return pa.concat_tables([_PAIRS.empty_table(), *(ranges.expand() for ranges in self._ranges)])


class DeleteIndex:
    """A set of delete files, arranged so that those which apply to a data file are found at once."""

    def __init__(self, metadata: TableMetadata, deletes: Mapping[int, pa.Table]) -> None:
        vectors, named, everywhere = [], [], []
        self._positions: dict[int, _ByPartition] = {}
        self._equalities: dict[int, _ByPartition] = {}
        for spec_id, table in deletes.items():
            position = _has_content(table, DataFileContent.POSITION_DELETES)
            equality = _has_content(table, DataFileContent.EQUALITY_DELETES)
            vector = pc.and_(position, pc.equal(table.column("file_format"), FileFormat.PUFFIN.value))
            facts = _delete_facts(spec_id, table)
            scoped = facts.column("target").is_valid()
            vectors.append(facts.filter(vector))
            named.append(facts.filter(pc.and_(scoped, pc.invert(vector))))
            self._positions[spec_id] = _ByPartition(facts, table, pc.and_(position, pc.invert(scoped)))
            if is_unpartitioned(spec_of(metadata, spec_id)):
                everywhere.append(facts.filter(equality))
            else:
                self._equalities[spec_id] = _ByPartition(facts, table, equality)
        self._vectors = _ByPath(pa.concat_tables([_FACTS.empty_table(), *vectors]))
        self._named = _ByPath(pa.concat_tables([_FACTS.empty_table(), *named]))
        self._everywhere = _Everywhere(pa.concat_tables([_FACTS.empty_table(), *everywhere]))

    def match(self, spec_id: int, data: pa.Table) -> AppliedDeletes:
        """Find the delete files that apply to each of these data files of one spec."""
        own = data.column("sequence_number").combine_chunks()
        later = pc.add(own, 1)
        vectors = self._vectors.ranges(data, own)
        has_vector = pc.greater(vectors.counts, 0)
        shared = [self._everywhere.ranges(data, later)]
        if spec_id in self._positions:
            shared.append(self._positions[spec_id].ranges(data, own).unless(has_vector))
        if spec_id in self._equalities:
            shared.append(self._equalities[spec_id].ranges(data, later))
        return AppliedDeletes((vectors, self._named.ranges(data, own).unless(has_vector)), tuple(shared))


def match_deletes(ledger: Ledger) -> dict[int, AppliedDeletes]:
    """The delete files that apply to each live data file of a snapshot, by the data files' spec id.

    The ledger must have been read with `DATA_COLUMNS` and `DELETE_COLUMNS`.
    """
    index = DeleteIndex(ledger.metadata, ledger.deletes)
    return {spec_id: index.match(spec_id, table) for spec_id, table in ledger.data.items()}


_FACTS = pa.schema(
    [("number", pa.int64()), ("target", pa.string()), ("delete_spec_id", pa.int32()), ("delete_row", pa.int64())]
)


def _delete_facts(spec_id: int, deletes: pa.Table) -> pa.Table:
    rows = deletes.num_rows
    return pa.table(
        [
            deletes.column("sequence_number"),
            canonical_locations(target_paths(deletes)),
            pa.repeat(pa.scalar(spec_id, pa.int32()), rows),
            _count_up(rows),
        ],
        schema=_FACTS,
    )


def _has_content(deletes: pa.Table, content: DataFileContent) -> pa.ChunkedArray:
    return pc.equal(deletes.column("content"), content.value)


class _ByPath:
    """Delete files that each refer to one data file."""

    def __init__(self, facts: pa.Table) -> None:
        self._targets = pc.unique(facts.column("target"))
        self._sorted = _SortedDeletes.of(facts, pc.index_in(facts.column("target"), value_set=self._targets))

    def ranges(self, data: pa.Table, thresholds: pa.Array) -> _Ranges:
        if not len(self._targets):
            return self._sorted.nowhere(data.num_rows)
        paths = canonical_locations(data.column("file_path"))
        return self._sorted.ranges(pc.index_in(paths, value_set=self._targets), thresholds)


class _ByPartition:
    """Delete files of one spec that apply to their whole partition."""

    def __init__(self, facts: pa.Table, deletes: pa.Table, chosen: pa.ChunkedArray) -> None:
        self._numbering, numbers = PartitionNumbers.of(deletes.column("partition").filter(chosen))
        self._sorted = _SortedDeletes.of(facts.filter(chosen), numbers)

    def ranges(self, data: pa.Table, thresholds: pa.Array) -> _Ranges:
        return self._sorted.ranges(self._numbering.look_up(data.column("partition")), thresholds)


class _Everywhere:
    """Delete files that apply whatever the partition, and whatever the spec."""

    def __init__(self, facts: pa.Table) -> None:
        self._sorted = _SortedDeletes.of(facts, _zeros(facts.num_rows))

    def ranges(self, data: pa.Table, thresholds: pa.Array) -> _Ranges:
        return self._sorted.ranges(_zeros(data.num_rows), thresholds)


@dataclass(frozen=True)
class _SortedDeletes:
    """Delete files sorted by group, and within a group by sequence number; groups are numbered from 0 without gaps."""

    groups: pa.Array
    numbers: pa.Array
    references: pa.Table
    group_ends: pa.Array

    @classmethod
    def of(cls, facts: pa.Table, groups: pa.Array | pa.ChunkedArray) -> _SortedDeletes:
        ordered = facts.append_column("group", groups.cast(pa.int64())).sort_by(
            [("group", "ascending"), ("number", "ascending")]
        )
        sizes = ordered.group_by("group", use_threads=False).aggregate([([], "count_all")]).column("count_all")
        return cls(
            ordered.column("group").combine_chunks(),
            ordered.column("number").combine_chunks(),
            ordered.select(["delete_spec_id", "delete_row"]),
            pc.cumulative_sum(sizes.cast(pa.int64())).combine_chunks(),
        )

    def ranges(self, groups: pa.Array | pa.ChunkedArray, thresholds: pa.Array) -> _Ranges:
        """For each data file the deletes of its group with at least this sequence number; none if its group is null."""
        groups = groups.combine_chunks() if isinstance(groups, pa.ChunkedArray) else groups
        known = groups.is_valid()
        if not len(self.groups) or not pc.any(known, min_count=0).as_py():
            return self.nowhere(len(groups))
        groups, thresholds = groups.filter(known).cast(pa.int64()), thresholds.filter(known)
        nothing = _zeros(len(known))
        return _Ranges(
            pc.replace_with_mask(nothing, known, self._count_before(groups, thresholds)),
            pc.replace_with_mask(nothing, known, self.group_ends.take(groups)),
            self.references,
        )

    def nowhere(self, rows: int) -> _Ranges:
        return _Ranges(_zeros(rows), _zeros(rows), self.references)

    def _count_before(self, groups: pa.Array, thresholds: pa.Array) -> pa.Array:
        """How many deletes of all come before each (group, threshold): both are merged into one sorted list."""
        deletes = len(self.groups)
        merged = pa.table(
            {
                "group": pa.chunked_array([self.groups, groups]),
                "number": pa.chunked_array([self.numbers, thresholds]),
                "is_delete": pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), deletes), _zeros(len(groups))]),
            }
        ).combine_chunks()
        order = pc.sort_indices(merged, [("group", "ascending"), ("number", "ascending"), ("is_delete", "ascending")])
        before = pc.cumulative_sum(merged.column("is_delete").take(order)).combine_chunks()
        asked = pc.greater_equal(order, pa.scalar(deletes, order.type))
        return before.filter(asked).take(pc.sort_indices(order.filter(asked)))


@dataclass(frozen=True)
class _Ranges:
    """For each data file a stretch of a sorted list of delete files."""

    starts: pa.Array
    ends: pa.Array
    references: pa.Table

    @property
    def counts(self) -> pa.Array:
        return pc.subtract(self.ends, self.starts)

    @property
    def distinct(self) -> int:
        """How many delete files lie in any of the stretches."""
        used = pc.greater(self.counts, 0)
        if not pc.any(used, min_count=0).as_py():
            return 0
        stretches = pa.table({"start": self.starts.filter(used), "end": self.ends.filter(used)}).sort_by("start")
        starts = stretches.column("start").combine_chunks()
        reached = pc.cumulative_max(stretches.column("end").combine_chunks())
        before = pa.concat_arrays([pa.array([0], pa.int64()), reached.slice(0, len(reached) - 1)])
        new = pc.subtract(reached, pc.max_element_wise(starts, before))
        return int(pc.sum(pc.max_element_wise(new, 0)).as_py())

    def weigh(self, weights: Mapping[int, pa.ChunkedArray]) -> pa.Array:
        """For each data file the sum of its delete files' weights, which stand in the order of their tables."""
        if not self.references.num_rows:
            return _zeros(len(self.starts))
        own = self.references.column("delete_spec_id").combine_chunks()
        rows = self.references.column("delete_row").combine_chunks()
        ordered = _zeros(len(rows))
        for spec_id, table in weights.items():
            mine = pc.equal(own, spec_id)
            values = table.take(rows.filter(mine)).combine_chunks().cast(pa.int64())
            ordered = pc.replace_with_mask(ordered, mine, values)
        sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(ordered)])
        return pc.subtract(sums.take(self.ends), sums.take(self.starts))

    def take(self, rows: pa.Array) -> _Ranges:
        return _Ranges(self.starts.take(rows), self.ends.take(rows), self.references)

    def slice(self, offset: int, length: int) -> _Ranges:
        return _Ranges(self.starts.slice(offset, length), self.ends.slice(offset, length), self.references)

    def unless(self, excluded: pa.Array) -> _Ranges:
        return _Ranges(self.starts, pc.if_else(excluded, self.starts, self.ends), self.references)

    def expand(self) -> pa.Table:
        counts = self.counts
        total = pc.sum(counts, min_count=0).as_py()
        if not total:
            return _PAIRS.empty_table()
        ends = pc.cumulative_sum(counts)
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
        position = _count_up(total)
        data_row = pc.list_parent_indices(pa.LargeListArray.from_arrays(offsets, position)).cast(pa.int64())
        within = pc.subtract(position, pc.subtract(ends, counts).take(data_row))
        deletes = self.references.take(pc.add(self.starts.take(data_row), within))
        return pa.table([data_row, *deletes.columns], schema=_PAIRS)


def _zeros(length: int) -> pa.Array:
    return pa.repeat(pa.scalar(0, pa.int64()), length)


def _count_up(length: int) -> pa.Array:
    """0, 1, 2 and so on, without a Python object for each."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), length)), 1)
