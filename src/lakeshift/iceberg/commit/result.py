"""What a commit did, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pyiceberg.manifest import DataFileContent

from lakeshift.errors import LakeshiftError
from lakeshift.iceberg.commit.change_set import ChangeKind
from lakeshift.iceberg.commit.summary import CountedFile


@dataclass(frozen=True)
class SpecCounts:
    """What a commit added and removed in one partition spec."""

    added_data_files: int = 0
    added_delete_files: int = 0
    removed_data_files: int = 0
    removed_delete_files: int = 0


@dataclass(frozen=True)
class CommitResult:
    """What a commit did.

    ``snapshot_id`` is None if there was nothing to commit. ``rows_written`` counts the rows of added data
    files; ``rows_deleted`` those of removed data files and of position deletes, unless the operation knows
    better.
    """

    snapshot_id: int | None
    added_data_files: int = 0
    added_delete_files: int = 0
    removed_data_files: int = 0
    removed_delete_files: int = 0
    rows_written: int = 0
    rows_deleted: int = 0
    rows_quarantined: int = 0
    by_spec: Mapping[int, SpecCounts] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values that JSON can hold."""
        return {**asdict(self), "by_spec": {str(spec_id): asdict(counts) for spec_id, counts in self.by_spec.items()}}


def result_of(
    snapshot_id: int, kind: ChangeKind, added: Sequence[CountedFile], removed: Sequence[CountedFile]
) -> CommitResult:
    """A commit's result, counted from its files."""
    by_spec = {
        spec_id: SpecCounts(*_counts(added, removed, spec_id))
        for spec_id in sorted({file.spec_id for file in (*added, *removed)})
    }
    gone = [file for file in removed if file.content == DataFileContent.DATA]
    marked = [file for file in added if file.content == DataFileContent.POSITION_DELETES]
    return CommitResult(
        snapshot_id,
        *_counts(added, removed, None),
        rows_written=sum(file.record_count for file in added if file.content == DataFileContent.DATA),
        rows_deleted=0 if kind is ChangeKind.REPLACE else sum(file.record_count for file in (*gone, *marked)),
        by_spec=by_spec,
    )


def check_rows_kept(kind: ChangeKind, added: Sequence[CountedFile], removed: Sequence[CountedFile]) -> None:
    """Refuse a compaction that would make rows of nothing; it may write fewer, as deleted ones are left out."""
    if kind is not ChangeKind.REPLACE:
        return
    new, old = (
        sum(file.record_count for file in files if file.content == DataFileContent.DATA) for files in (added, removed)
    )
    if new > old:
        raise LakeshiftError(
            f"A replace operation adds {new} rows where it removes {old}: rows would be there twice. Nothing was "
            "committed. This is a fault of the operation, not of the table."
        )


def _counts(
    added: Sequence[CountedFile], removed: Sequence[CountedFile], spec_id: int | None
) -> tuple[int, int, int, int]:
    counts = [0, 0, 0, 0]
    for at, files in ((0, added), (2, removed)):
        for file in files:
            if spec_id is None or file.spec_id == spec_id:
                counts[at + (file.content != DataFileContent.DATA)] += 1
    return counts[0], counts[1], counts[2], counts[3]
