"""What ``lakeshift report`` prints as JSON: the facts that its page is drawn from."""

from __future__ import annotations

from typing import Literal

from lakeshift.cli.outputs.rewrites import FileSizes
from lakeshift.cli.outputs.shape import Shape


class Totals(Shape):
    """What the snapshot has in all."""

    partitions: int
    data_files: int
    bytes: int
    rows: int
    delete_files: int
    delete_bytes: int
    files_with_deletes: int
    deleted_rows: int


class SpecFacts(Shape):
    """One partition spec and what lies under it. Times are null where no snapshot tells them."""

    spec_id: int
    fields: list[str]
    is_default: bool
    partitions: int
    data_files: int
    bytes: int
    rows: int
    delete_files: int
    files_with_deletes: int
    deleted_rows: int
    small_files: int
    large_files: int
    oldest_file_ms: int | None
    newest_file_ms: int | None


class SizeBucket(Shape):
    """How many data files have at least ``low`` and less than ``high`` bytes. ``by_spec`` has spec ids as keys."""

    low: int
    high: int
    files: int
    bytes: int
    by_spec: dict[str, int]


class DeleteCost(Shape):
    """The delete files of one kind, and how much has to be read with them."""

    kind: Literal["position deletes", "deletion vectors", "equality deletes", "equality deletes of the whole table"]
    files: int
    bytes: int
    entries: int
    unused_files: int
    data_files: int
    data_rows: int
    opened: int


class SnapshotCounts(Shape):
    """What a snapshot's summary says that it did; null where it does not say."""

    added_files: int | None
    removed_files: int | None
    added_rows: int | None
    removed_rows: int | None
    added_bytes: int | None
    removed_bytes: int | None
    added_delete_files: int | None
    removed_delete_files: int | None
    total_files: int | None
    total_rows: int | None
    total_delete_files: int | None


class SnapshotFacts(Shape):
    """One snapshot; ``in_history`` says that it is the head or an ancestor of it."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    operation: str | None
    schema_id: int | None
    in_history: bool
    refs: list[str]
    done: SnapshotCounts
    properties: dict[str, str]


class SchemaFacts(Shape):
    """One schema of the table, and what it changed over the one before it."""

    schema_id: int
    is_current: bool
    columns: int
    changes: list[str]
    first_used_ms: int | None


class ColumnFacts(Shape):
    """A column of the current schema."""

    field_id: int
    name: str
    type: str
    required: bool
    doc: str | None


class Partition(Shape):
    """A partition of one spec: its values as text, by field, and what lies in it."""

    spec_id: int
    partition: dict[str, str | None]
    files: int
    bytes: int
    rows: int
    files_with_deletes: int
    deletes_to_apply: int
    deleted_rows: int


class NextStep(Shape):
    """One thing to do; ``command`` is null where no command does it."""

    kind: str
    text: str
    command: str | None


class ReportFacts(Shape):
    """All that a report tells of a table, every partition included."""

    name: str
    location: str
    table_uuid: str
    format_version: int
    branch: str | None
    snapshot_id: int | None
    default_spec_id: int
    sizes: FileSizes
    totals: Totals
    specs: list[SpecFacts]
    file_sizes: list[SizeBucket]
    deletes: list[DeleteCost]
    snapshots: list[SnapshotFacts]
    schemas: list[SchemaFacts]
    columns: list[ColumnFacts]
    partitions: list[Partition]
    properties: dict[str, str]
    next_steps: list[NextStep]
