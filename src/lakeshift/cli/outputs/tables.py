"""What ``lakeshift table`` prints as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import RootModel

from lakeshift.cli.outputs.shape import Shape


class TableNames(RootModel[list[str]]):
    """The names of all tables, with their namespaces, sorted."""


class Column(Shape):
    """A column of the current schema; ``type`` as Iceberg writes it."""

    id: int
    name: str
    type: str
    required: bool


class SpecLayout(Shape):
    """One partition spec, and how much of the current snapshot lies under it."""

    spec_id: int
    fields: list[str]
    is_default: bool
    data_files: int
    delete_files: int
    rows: int


class SnapshotSummary(Shape):
    """A snapshot, and what the engine that wrote it says of it; ``operation`` is null where it does not say."""

    snapshot_id: int
    timestamp_ms: int
    operation: str | None
    summary: dict[str, str]


class TableDescription(Shape):
    """A table: its columns, its partition specs, and its last ten snapshots, the newest last."""

    name: str
    location: str
    format_version: int
    current_snapshot_id: int | None
    default_spec_id: int
    columns: list[Column]
    specs: list[SpecLayout]
    snapshots: list[SnapshotSummary]
    properties: dict[str, str]


class SpecCounts(Shape):
    """What a commit added and removed under one partition spec."""

    added_data_files: int
    added_delete_files: int
    removed_data_files: int
    removed_delete_files: int


class Commit(SpecCounts):
    """What a commit did; ``snapshot_id`` is null if there was nothing to commit. ``by_spec`` has spec ids as keys."""

    snapshot_id: int | None
    rows_written: int
    rows_deleted: int
    rows_quarantined: int
    by_spec: dict[str, SpecCounts]


class ChangePreview(Shape):
    """What a change would do: files dropped unread, files with changed rows, and rows. Nothing was written."""

    operation: Literal["delete", "update", "merge"]
    mode: Literal["merge-on-read", "copy-on-write"]
    live_files: int
    opened_files: int
    dropped_files: int
    changed_files: int
    rows_deleted: int
    rows_inserted: int
    changed_files_by_spec: dict[str, int]
