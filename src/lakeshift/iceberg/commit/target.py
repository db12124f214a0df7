"""Where a commit goes: a branch, or a snapshot that is staged for an audit. Checked before a byte is written."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.commit.change_set import check_writable_format
from lakeshift.iceberg.commit.properties import WAP_ENABLED, WAP_ID
from lakeshift.iceberg.commit.summary import check_snapshot_properties
from lakeshift.iceberg.table_properties import truth


def check_target(metadata: TableMetadata, branch: str | None, snapshot_properties: Mapping[str, str]) -> bool:
    """Check where a commit would go, before anything is written; True if its snapshot is only staged.

    A table with ``write.wap.enabled`` is audited before publication: a write to it must name a ``wap.id``
    (its snapshot is then staged, on no branch) or go to a branch other than main.
    """
    check_writable_format(metadata)
    check_snapshot_properties(snapshot_properties)
    target = branch or MAIN_BRANCH
    ref = metadata.refs.get(target)
    if ref is not None and ref.snapshot_ref_type != SnapshotRefType.BRANCH:
        raise ConfigError(f"{target!r} is a tag of the table at {metadata.location}; only branches can be written to.")
    if ref is None and target != MAIN_BRANCH:
        known = ", ".join(sorted(name for name, ref in metadata.refs.items() if ref.snapshot_ref_type == "branch"))
        raise ConfigError(
            f"The table at {metadata.location} has no branch {target!r}; it has {known or 'none yet'}. Create it "
            f"first, for instance with table.manage_snapshots().create_branch(snapshot_id, {target!r}).commit()."
        )
    audited = truth(metadata.properties, WAP_ENABLED, default=False)
    staged = WAP_ID in snapshot_properties
    if staged and not audited:
        raise ConfigError(
            f"The snapshot property {WAP_ID} was given, but the table at {metadata.location} does not have "
            f"{WAP_ENABLED}=true. Set that property, or leave {WAP_ID} out."
        )
    if staged and branch not in (None, MAIN_BRANCH):
        raise ConfigError(f"Both {WAP_ID} and the branch {branch!r} were given; a staged snapshot is on no branch.")
    if audited and not staged and target == MAIN_BRANCH:
        raise UnsupportedTableError(
            f"The table at {metadata.location} has {WAP_ENABLED}=true, so that nothing may be published unaudited. "
            f"Pass snapshot_properties={{'{WAP_ID}': ...}} to stage the snapshot, or write to a branch. Nothing was "
            "written."
        )
    return staged
