"""What other committers did to a branch since an operation started.

Everything is read from the manifests that those commits wrote themselves. Which of it stands in the
way of an operation is decided in `validation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot

from lakeshift.errors import CommitConflictError
from lakeshift.iceberg.ledger import read_entries

_ALL_OPERATIONS = frozenset(Operation)


class StartingPoint(Protocol):
    """The table as it was when an operation was planned; a change set is one."""

    @property
    def table_uuid(self) -> UUID: ...
    @property
    def format_version(self) -> int: ...
    @property
    def starting_snapshot_id(self) -> int | None: ...


@dataclass(frozen=True)
class Start:
    """A `StartingPoint` taken from table metadata."""

    table_uuid: UUID
    format_version: int
    starting_snapshot_id: int | None

    @classmethod
    def of(cls, metadata: TableMetadata, branch: str = MAIN_BRANCH) -> Start:
        head = metadata.snapshot_by_name(branch)
        return cls(metadata.table_uuid, metadata.format_version, head.snapshot_id if head else None)


@dataclass(frozen=True)
class History:
    """The commits on a branch since an operation started, newest first.

    ``from_nothing`` says that the branch had no snapshot then; ``snapshots`` is its head alone, and every live
    file counts as added.
    """

    metadata: TableMetadata
    io: FileIO
    branch: str
    snapshots: tuple[Snapshot, ...]
    from_nothing: bool = False

    def added_data(self, columns: Sequence[str]) -> dict[int, pa.Table]:
        """Data files with rows that were not there before; what compactions wrote is not among them."""
        operations = _ALL_OPERATIONS - {Operation.REPLACE}
        return self._changes(ManifestContent.DATA, ManifestEntryStatus.ADDED, operations, columns)

    def removed_data(self, columns: Sequence[str]) -> dict[int, pa.Table]:
        return self._changes(ManifestContent.DATA, ManifestEntryStatus.DELETED, _ALL_OPERATIONS, columns)

    def added_deletes(self, columns: Sequence[str]) -> dict[int, pa.Table]:
        """Delete files with deletes that were not there before; what compactions wrote is not among them."""
        operations = _ALL_OPERATIONS - {Operation.REPLACE}
        return self._changes(ManifestContent.DELETES, ManifestEntryStatus.ADDED, operations, columns)

    def removed_deletes(self, columns: Sequence[str]) -> dict[int, pa.Table]:
        return self._changes(ManifestContent.DELETES, ManifestEntryStatus.DELETED, _ALL_OPERATIONS, columns)

    def describe(self, snapshot_id: int | None) -> str:
        """A snapshot by its number and its operation."""
        for snapshot in self.snapshots:
            if snapshot.snapshot_id == snapshot_id:
                return f"snapshot {snapshot_id} ({_operation_name(snapshot)})"
        return f"snapshot {snapshot_id}"

    @cached_property
    def _manifests(self) -> list[tuple[Snapshot, ManifestFile]]:
        """The manifests that each of the snapshots wrote itself."""
        return [
            (snapshot, manifest)
            for snapshot in self.snapshots
            for manifest in snapshot.manifests(self.io)
            if self.from_nothing or manifest.added_snapshot_id in (snapshot.snapshot_id, None)
        ]

    def _changes(
        self,
        content: ManifestContent,
        status: ManifestEntryStatus,
        operations: frozenset[Operation],
        columns: Sequence[str],
    ) -> dict[int, pa.Table]:
        # A snapshot that does not say what it did may have done anything.
        chosen = [
            (snapshot, manifest)
            for snapshot, manifest in self._manifests
            if manifest.content == content
            and (self.from_nothing or snapshot.summary is None or snapshot.summary.operation in operations)
            and (self.from_nothing or _may_hold(manifest, status))
        ]
        if not chosen:
            return {}
        ids = pa.array({snapshot.snapshot_id for snapshot, _ in chosen}, pa.int64())
        manifests = list(dict.fromkeys(manifest for _, manifest in chosen))
        wanted = [*dict.fromkeys(["status", "snapshot_id", *columns])]
        found = {}
        for spec_id, entries in read_entries(manifests, self.metadata, self.io, wanted).items():
            if self.from_nothing:
                is_gone = pc.equal(entries.column("status"), ManifestEntryStatus.DELETED.value)
                changed = entries.filter(is_gone if status == ManifestEntryStatus.DELETED else pc.invert(is_gone))
            else:
                by_these = pc.is_in(entries.column("snapshot_id"), value_set=ids)
                changed = entries.filter(pc.and_(pc.equal(entries.column("status"), status.value), by_these))
            if changed.num_rows:
                found[spec_id] = changed
        return found


def history_since(start: StartingPoint, metadata: TableMetadata, io: FileIO, branch: str = MAIN_BRANCH) -> History:
    """The commits on a branch since ``start``; a CommitConflictError if that no longer leads to where the branch is."""
    check_same_table(start, metadata)
    head = metadata.snapshot_by_name(branch)
    if start.starting_snapshot_id is None:
        # All that lives is new. Walking back would not do: expiry may have cut history short without a trace.
        return History(metadata, io, branch, () if head is None else (head,), from_nothing=True)
    since: list[Snapshot] = []
    for snapshot in _ancestors(metadata, head):
        if snapshot.snapshot_id == start.starting_snapshot_id:
            return History(metadata, io, branch, tuple(since))
        since.append(snapshot)
    now = f"snapshot {head.snapshot_id}" if head else "without a snapshot"
    raise CommitConflictError(
        f"Snapshot {start.starting_snapshot_id}, which the operation started from, is no longer an ancestor of branch "
        f"{branch!r} of the table at {metadata.location}, which is now at {now}: the branch was rolled back or "
        "replaced, or snapshots in between were expired. Nothing was committed; run the operation again on the table "
        "as it is now.",
        retryable=True,
    )


def check_same_table(start: StartingPoint, metadata: TableMetadata) -> None:
    """Fail if the table was dropped and created again, or changed its format version, since an operation started."""
    if metadata.table_uuid != start.table_uuid:
        raise CommitConflictError(
            f"The table at {metadata.location} is not the one that the operation started on: its UUID is "
            f"{metadata.table_uuid}, not {start.table_uuid}. It was dropped and created again. Nothing was committed; "
            "load the table again and decide anew.",
            retryable=False,
        )
    if metadata.format_version != start.format_version:
        raise CommitConflictError(
            f"The table at {metadata.location} went from format version {start.format_version} to "
            f"{metadata.format_version} since the operation started. Nothing was committed; run the operation again.",
            retryable=True,
        )


def _ancestors(metadata: TableMetadata, head: Snapshot | None) -> list[Snapshot]:
    """A snapshot and its ancestors as far as the metadata knows them, newest first."""
    found: list[Snapshot] = []
    by_id: Mapping[int, Snapshot] = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    while head is not None:
        found.append(head)
        parent = head.parent_snapshot_id
        head = None if parent is None else by_id.get(parent)
    return found


def _may_hold(manifest: ManifestFile, status: ManifestEntryStatus) -> bool:
    count = manifest.added_files_count if status == ManifestEntryStatus.ADDED else manifest.deleted_files_count
    return count is None or count > 0


def _operation_name(snapshot: Snapshot) -> str:
    return snapshot.summary.operation.value if snapshot.summary else "operation not recorded"
