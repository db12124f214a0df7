"""The snapshot that a commit asks for, the updates that carry it and what the catalog must check first."""

from __future__ import annotations

import time
from collections.abc import Mapping
from uuid import UUID

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)


def new_snapshot(
    metadata: TableMetadata,
    *,
    snapshot_id: int,
    parent: Snapshot | None,
    manifest_list: str,
    operation: Operation,
    summary: Mapping[str, str],
) -> Snapshot:
    return Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent.snapshot_id if parent else None,
            "sequence-number": metadata.next_sequence_number(),
            # Clocks differ between machines; a snapshot is never older than what it is based on.
            "timestamp-ms": max(int(time.time() * 1000), metadata.last_updated_ms),
            "manifest-list": manifest_list,
            "summary": Summary(operation=operation, **summary),
            "schema-id": metadata.current_schema_id,
        }
    )


def requirements(table_uuid: UUID, branch: str, parent_snapshot_id: int | None) -> list[TableRequirement]:
    """The table must be the same one, and the branch must still end with the parent."""
    return [
        AssertTableUUID(uuid=table_uuid),
        AssertRefSnapshotId.model_validate({"ref": branch, "snapshot-id": parent_snapshot_id}),
    ]


def updates(metadata: TableMetadata, snapshot: Snapshot, branch: str | None) -> list[TableUpdate]:
    """Add the snapshot and move the branch to it; no branch moves for a staged snapshot."""
    add = AddSnapshotUpdate(snapshot=snapshot)
    if branch is None:
        return [add]
    ref = metadata.refs.get(branch)
    move = SetSnapshotRefUpdate.model_validate(
        {
            "ref-name": branch,
            "type": SnapshotRefType.BRANCH,
            "snapshot-id": snapshot.snapshot_id,
            # The update replaces the whole reference; its retention must not get lost.
            "max-ref-age-ms": ref.max_ref_age_ms if ref else None,
            "max-snapshot-age-ms": ref.max_snapshot_age_ms if ref else None,
            "min-snapshots-to-keep": ref.min_snapshots_to_keep if ref else None,
        }
    )
    return [add, move]
