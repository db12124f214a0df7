"""What a rewrite did, group by group and in all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lakeshift.iceberg.rewrite.diagnostics import FilterStats


@dataclass(frozen=True)
class GroupResult:
    """What became of one group.

    ``delete_files_applied`` counts the delete files of which rows were left out; ``seconds`` is the time that tasks
    spent on it. ``error`` says why it failed; then nothing of it was committed, and ``snapshot_id`` is None.
    """

    group_id: int
    partition: str
    spec_ids: tuple[int, ...]
    output_spec_id: int
    input_files: int
    input_bytes: int
    input_rows: int
    delete_files_applied: int
    output_files: int = 0
    output_bytes: int = 0
    output_rows: int = 0
    seconds: float = 0.0
    snapshot_id: int | None = None
    error: str | None = None

    @property
    def committed(self) -> bool:
        return self.snapshot_id is not None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "spec_ids": list(self.spec_ids)}


@dataclass(frozen=True)
class RewriteResult:
    """What a rewrite did. Files, bytes and rows count only what was committed; deleted rows are not written again."""

    snapshot_ids: tuple[int, ...]
    groups: tuple[GroupResult, ...]
    removed_delete_files: int
    filter_stats: FilterStats
    seconds: float

    @property
    def rewritten_data_files(self) -> int:
        return sum(group.input_files for group in self.groups if group.committed)

    @property
    def added_data_files(self) -> int:
        return sum(group.output_files for group in self.groups if group.committed)

    @property
    def rewritten_bytes(self) -> int:
        return sum(group.input_bytes for group in self.groups if group.committed)

    @property
    def added_bytes(self) -> int:
        return sum(group.output_bytes for group in self.groups if group.committed)

    @property
    def rows_before(self) -> int:
        return sum(group.input_rows for group in self.groups if group.committed)

    @property
    def rows_after(self) -> int:
        return sum(group.output_rows for group in self.groups if group.committed)

    @property
    def failed_groups(self) -> tuple[GroupResult, ...]:
        return tuple(group for group in self.groups if group.error is not None)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values that JSON can hold."""
        names = (
            "rewritten_data_files",
            "added_data_files",
            "rewritten_bytes",
            "added_bytes",
            "rows_before",
            "rows_after",
        )
        return {
            "snapshot_ids": list(self.snapshot_ids),
            **{name: getattr(self, name) for name in names},
            "removed_delete_files": self.removed_delete_files,
            "failed_groups": len(self.failed_groups),
            "filter_stats": asdict(self.filter_stats),
            "seconds": self.seconds,
            "groups": [group.to_dict() for group in self.groups],
        }
