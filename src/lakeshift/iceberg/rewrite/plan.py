"""A compaction plan: groups of files to rewrite together, and what planning has to say about how it came to them.

A plan is fixed: it belongs to one snapshot, and whoever shows it and whoever runs it see the same. Files are rows
of Arrow tables, and a group is a stretch of them; there is no Python object per file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from lakeshift.iceberg.deletes import AppliedDeletes
from lakeshift.iceberg.partition_key import PartitionKey
from lakeshift.iceberg.rewrite.diagnostics import FilterStats, PlanWarning, SpecReport
from lakeshift.iceberg.rewrite.options import FileSizes, RewriteOptions


@dataclass(frozen=True)
class SpecInputs:
    """Files of one spec, of which a plan rewrites ``rows``, group after group; and the deletes that apply to those.

    ``applied`` is None if the table has no delete files.
    """

    spec_id: int
    files: pa.Table
    rows: pa.Array
    applied: AppliedDeletes | None


@dataclass(frozen=True)
class GroupInputs:
    """The files of one spec in a group."""

    source: SpecInputs
    offset: int
    length: int

    @property
    def spec_id(self) -> int:
        return self.source.spec_id

    @property
    def files(self) -> pa.Table:
        """The files as ledger rows."""
        return self.source.files.take(self.source.rows.slice(self.offset, self.length))

    @property
    def applied(self) -> AppliedDeletes | None:
        """Which of the plan's delete files apply to each of these files."""
        return self.source.applied and self.source.applied.slice(self.offset, self.length)


@dataclass(frozen=True)
class RewriteGroup:
    """Files that are rewritten together.

    ``key`` is the one partition that the new files will belong to; it is None if rows move to partitions of another
    spec that only their values can tell. ``moved_files`` are those of the input files that change their spec.
    """

    group_id: int
    output_spec_id: int
    key: PartitionKey | None
    partition: str
    inputs: tuple[GroupInputs, ...]
    input_files: int
    input_bytes: int
    input_rows: int
    expected_output_files: int
    moved_files: int = 0

    @property
    def delete_files(self) -> int:
        """How many delete files apply to any file of the group."""
        return sum(part.applied.distinct for part in self.inputs if part.applied is not None)

    @property
    def spec_ids(self) -> tuple[int, ...]:
        """The specs that the group's files were written with."""
        return tuple(part.spec_id for part in self.inputs)

    def to_dict(self, *, with_files: bool = False) -> dict[str, Any]:
        """The group as plain values; with the path of every file if asked for."""
        paths = (
            [path for part in self.inputs for path in part.files.column("file_path").to_pylist()] if with_files else []
        )
        return {
            "group_id": self.group_id,
            "spec_ids": list(self.spec_ids),
            "output_spec_id": self.output_spec_id,
            "partition": self.partition,
            "input_files": self.input_files,
            "input_bytes": self.input_bytes,
            "input_rows": self.input_rows,
            "delete_files": self.delete_files,
            "expected_output_files": self.expected_output_files,
            "moved_files": self.moved_files,
            **({"files": paths} if with_files else {}),
        }


@dataclass(frozen=True)
class SpecMove:
    """How much of a spec's data would move to the target spec."""

    spec_id: int
    files: int
    bytes: int
    rows: int


@dataclass(frozen=True)
class RewriteDataFilesPlan:
    """What to rewrite, planned on one snapshot.

    ``deletes`` are the live delete files of that snapshot by spec id, as ledger rows. ``moves`` says how much
    would change its spec, by the spec it leaves.
    """

    groups: tuple[RewriteGroup, ...]
    snapshot_id: int | None
    sequence_number: int | None
    target_spec_id: int | None
    sizes: FileSizes
    options: RewriteOptions
    deletes: Mapping[int, pa.Table]
    moves: tuple[SpecMove, ...] = ()

    @property
    def input_files(self) -> int:
        return sum(group.input_files for group in self.groups)

    @property
    def input_bytes(self) -> int:
        return sum(group.input_bytes for group in self.groups)

    @property
    def input_rows(self) -> int:
        return sum(group.input_rows for group in self.groups)

    @property
    def expected_output_files(self) -> int:
        return sum(group.expected_output_files for group in self.groups)

    def to_dict(self, *, with_files: bool = False) -> dict[str, Any]:
        """The plan as plain values that JSON can hold."""
        return {
            "snapshot_id": self.snapshot_id,
            "target_spec_id": self.target_spec_id,
            "file_sizes": asdict(self.sizes),
            "options": asdict(self.options),
            "input_files": self.input_files,
            "input_bytes": self.input_bytes,
            "input_rows": self.input_rows,
            "expected_output_files": self.expected_output_files,
            "moves": [asdict(move) for move in self.moves],
            "groups": [group.to_dict(with_files=with_files) for group in self.groups],
        }


@dataclass(frozen=True)
class RewriteDataFilesPlanningResult:
    """A plan with all that planning has to say about its filter."""

    plan: RewriteDataFilesPlan
    filter_stats: FilterStats
    specs: tuple[SpecReport, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
    warnings_omitted: int = 0

    @property
    def groups(self) -> tuple[RewriteGroup, ...]:
        """The plan's groups, in the order in which they are to be rewritten."""
        return self.plan.groups

    @property
    def manifests_read(self) -> int:
        return sum(spec.manifests_read for spec in self.specs)

    @property
    def manifests_skipped(self) -> int:
        """How many manifests were not opened, because the manifest list rules out that they match."""
        return sum(spec.manifests_skipped for spec in self.specs)

    def to_dict(self, *, with_files: bool = False) -> dict[str, Any]:
        """The result as plain values that JSON can hold; with the path of every file if asked for."""
        return {
            **self.plan.to_dict(with_files=with_files),
            "filter_stats": asdict(self.filter_stats),
            "manifests_read": self.manifests_read,
            "manifests_skipped": self.manifests_skipped,
            "specs": [spec.to_dict() for spec in self.specs],
            "warnings": [warning.to_dict() for warning in self.warnings],
            "warnings_omitted": self.warnings_omitted,
        }
