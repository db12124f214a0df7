"""Dangling deletes: delete files that would apply to nothing once a change is committed.

They are worked out against the snapshot that the change will follow, on every attempt of a commit anew.
In doubt a delete file stays: one too many costs time, one too few brings deleted rows back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH

from lakeshift.iceberg.commit.change_set import ChangeSet, RemovedFile
from lakeshift.iceberg.delete_files import deleted_paths
from lakeshift.iceberg.deletes import DATA_COLUMNS, DELETE_COLUMNS, target_paths
from lakeshift.iceberg.ledger import Ledger, read_ledger
from lakeshift.iceberg.partition_key import PartitionNumbers
from lakeshift.iceberg.partition_types import is_unpartitioned, partition_array, spec_of
from lakeshift.locations import canonical_location, canonical_locations


def dangling_deletes(
    parent: Ledger,
    io: FileIO,
    *,
    removed_data: Iterable[str] = (),
    removed_deletes: Iterable[str] = (),
    added_data: Mapping[int, pa.Table] | None = None,
) -> dict[int, pa.Table]:
    """The parent's delete files, by spec id, that apply to nothing once data files are removed and added.

    A position delete file dangles when every path in it is dead, an equality delete file when no older data
    file lives in its PartitionKey, or in any spec if its own is unpartitioned. ``added_data`` holds ledger rows
    with the sequence numbers that the new data files will have. Position delete files that refer to several
    data files are read, and only if one of those removed may be among them.

    The ledger must have been read with the columns that matching deletes needs.
    """
    gone, gone_deletes = _canonical_set(removed_data), _canonical_set(removed_deletes)
    removed = {spec_id: _those_in(rows, gone) for spec_id, rows in parent.data.items()}
    live = _Live(parent, gone, added_data or {})
    found = {}
    for spec_id, table in parent.deletes.items():
        deletes = _those_not_in(table, gone_deletes)
        equality = pc.equal(deletes.column("content"), DataFileContent.EQUALITY_DELETES.value)
        unneeded = pc.if_else(
            equality, live.are_equalities_unneeded(spec_id, deletes), live.are_positions_unneeded(spec_id, deletes)
        )
        if spec_id in removed:
            unneeded = pc.or_(unneeded, _read_positions(deletes, removed[spec_id], live, io))
        dangling = deletes.filter(unneeded)
        if dangling.num_rows:
            found[spec_id] = dangling
    return found


@dataclass(frozen=True)
class DanglingAfter:
    """Works out, on every attempt of a commit, which delete files a change leaves dangling."""

    change: ChangeSet
    branch: str = MAIN_BRANCH

    def __call__(self, metadata: TableMetadata, io: FileIO) -> list[RemovedFile]:
        head = metadata.snapshot_by_name(self.branch)
        if head is None or all(manifest.content == ManifestContent.DATA for manifest in head.manifests(io)):
            return []
        columns = list(dict.fromkeys([*DATA_COLUMNS, *DELETE_COLUMNS, "manifest_path"]))
        found = dangling_deletes(
            read_ledger(metadata, io, head.snapshot_id, columns=columns),
            io,
            removed_data=[file.file_path for file in self.change.removed_data_files],
            removed_deletes=[file.file_path for file in self.change.removed_delete_files],
            added_data=rows_to_be(self.change.added_data_files, metadata, self.change.data_sequence_number),
        )
        return [
            RemovedFile(row["file_path"], spec_id, row["manifest_path"])
            for spec_id, rows in found.items()
            for row in rows.select(["file_path", "manifest_path"]).to_pylist()
        ]


def rows_to_be(
    files: Iterable[DataFile], metadata: TableMetadata, sequence_number: int | None = None
) -> dict[int, pa.Table]:
    """Ledger rows of data files that a change adds, by spec id.

    ``sequence_number`` is the data sequence number that they will have; None stands for a new one, which is
    higher than that of every delete file there is.
    """
    number = metadata.next_sequence_number() if sequence_number is None else sequence_number
    by_spec: dict[int, list[DataFile]] = {}
    for file in files:
        by_spec.setdefault(file.spec_id, []).append(file)
    return {
        spec_id: pa.table(
            {
                "file_path": pa.array([file.file_path for file in chosen], pa.string()),
                "sequence_number": pa.repeat(pa.scalar(number, pa.int64()), len(chosen)),
                "partition": partition_array([file.partition for file in chosen], spec_of(metadata, spec_id), metadata),
            }
        )
        for spec_id, chosen in by_spec.items()
    }


class _Live:
    """The data files that will live after the change."""

    def __init__(self, parent: Ledger, gone: pa.Array, added: Mapping[int, pa.Table]) -> None:
        self._metadata = parent.metadata
        self._rows: dict[int, list[pa.Table]] = {}
        for spec_id, rows in parent.data.items():
            self._rows.setdefault(spec_id, []).append(_those_not_in(rows, gone).select(DATA_COLUMNS))
        for spec_id, rows in added.items():
            self._rows.setdefault(spec_id, []).append(rows.select(DATA_COLUMNS))
        columns = [canonical_locations(rows.column("file_path")) for tables in self._rows.values() for rows in tables]
        self.paths = pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string())

    def are_positions_unneeded(self, spec_id: int, deletes: pa.Table) -> pa.ChunkedArray:
        """Whether each position delete file refers to one data file, and that is dead; others have to be read."""
        targets = canonical_locations(target_paths(deletes))
        return pc.and_(targets.is_valid(), pc.invert(pc.is_in(targets, value_set=self.paths)))

    def are_equalities_unneeded(self, spec_id: int, deletes: pa.Table) -> pa.ChunkedArray:
        """Whether no live data file is older than each equality delete file, where that applies."""
        if is_unpartitioned(spec_of(self._metadata, spec_id)):
            oldest = [
                pc.min(rows.column("sequence_number")).as_py() for tables in self._rows.values() for rows in tables
            ]
            lowest = min((number for number in oldest if number is not None), default=None)
            older = pa.repeat(pa.scalar(lowest, pa.int64()), deletes.num_rows)
        else:
            older = self._oldest_in_partition(spec_id, deletes.column("partition"))
        applies = pc.less(older, deletes.column("sequence_number"))
        return pc.invert(applies.fill_null(False))

    def _oldest_in_partition(self, spec_id: int, partitions: pa.ChunkedArray) -> pa.Array:
        """The lowest sequence number of a live data file in each partition; null where there is none."""
        numbering, numbers = PartitionNumbers.of(partitions)
        found = [pa.table({"partition": pa.array([], pa.int64()), "number": pa.array([], pa.int64())})]
        for rows in self._rows.get(spec_id, []):
            mine = numbering.look_up(rows.column("partition"))
            found.append(pa.table({"partition": mine, "number": rows.column("sequence_number")}))
        lowest = pa.concat_tables(found).group_by("partition").aggregate([("number", "min")])
        position = pc.index_in(numbers, value_set=lowest.column("partition"))
        return lowest.column("number_min").combine_chunks().take(position)


def _read_positions(deletes: pa.Table, removed: pa.Table, live: _Live, io: FileIO) -> pa.Array:
    """Whether each position delete file that refers to several files refers to dead ones only.

    Only those are read that may refer to a removed file: of the same partition, and not older.
    """
    positions = pc.equal(deletes.column("content"), DataFileContent.POSITION_DELETES.value)
    several = pc.and_(positions, target_paths(deletes).is_null())
    numbering, numbers = PartitionNumbers.of(deletes.column("partition"))
    touched = pc.is_in(numbers, value_set=pc.unique(numbering.look_up(removed.column("partition"))).drop_null())
    candidates = pc.and_(several, touched).combine_chunks()
    verdict = []
    for row in deletes.filter(candidates).select(["file_path", "file_format"]).to_pylist():
        paths = deleted_paths(row["file_path"], row["file_format"], io)
        verdict.append(
            paths is not None
            and not pc.any(pc.is_in(canonical_locations(paths), value_set=live.paths), min_count=0).as_py()
        )
    nothing = pa.repeat(pa.scalar(False), deletes.num_rows)
    return pc.replace_with_mask(nothing, candidates, pa.array(verdict, pa.bool_()))


def _canonical_set(paths: Iterable[str]) -> pa.Array:
    return pa.array({canonical_location(path) for path in paths}, pa.string())


def _those_in(rows: pa.Table, paths: pa.Array) -> pa.Table:
    return rows.filter(pc.is_in(canonical_locations(rows.column("file_path")), value_set=paths))


def _those_not_in(rows: pa.Table, paths: pa.Array) -> pa.Table:
    if not len(paths):
        return rows
    return rows.filter(pc.invert(pc.is_in(canonical_locations(rows.column("file_path")), value_set=paths)))
