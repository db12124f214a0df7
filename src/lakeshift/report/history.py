"""How a table came to be what it is: its snapshots, schemas and specs in time. Metadata only; no file is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from lakeshift.report.redaction import shown_properties

# What a snapshot did, by the keys that engines write into its summary.
_DONE: Mapping[str, str] = MappingProxyType(
    {
        "added_files": "added-data-files",
        "removed_files": "deleted-data-files",
        "added_rows": "added-records",
        "removed_rows": "deleted-records",
        "added_bytes": "added-files-size",
        "removed_bytes": "removed-files-size",
        "added_delete_files": "added-delete-files",
        "removed_delete_files": "removed-delete-files",
        "total_files": "total-data-files",
        "total_rows": "total-records",
        "total_delete_files": "total-delete-files",
    }
)


@dataclass(frozen=True)
class SnapshotFacts:
    """One snapshot, and what its summary says that it did; a number that is not there is None."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    operation: str | None
    schema_id: int | None
    in_history: bool
    refs: tuple[str, ...]
    done: Mapping[str, int | None]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class SchemaFacts:
    """One schema, what it changed over the one before it, and when it was first written with."""

    schema_id: int
    is_current: bool
    columns: int
    changes: tuple[str, ...]
    first_used_ms: int | None


@dataclass(frozen=True)
class ColumnFacts:
    """A column of the current schema."""

    field_id: int
    name: str
    type: str
    required: bool
    doc: str | None


def snapshot_history(metadata: TableMetadata, head: Snapshot | None) -> tuple[SnapshotFacts, ...]:
    """Every snapshot from the oldest to the newest; ``in_history`` are the head and its ancestors."""
    refs: dict[int, list[str]] = {}
    for name, ref in sorted(metadata.refs.items()):
        refs.setdefault(ref.snapshot_id, []).append(name)
    ancestors: set[int] = set()
    while head is not None and head.snapshot_id not in ancestors:
        ancestors.add(head.snapshot_id)
        head = None if head.parent_snapshot_id is None else metadata.snapshot_by_id(head.parent_snapshot_id)
    return tuple(
        SnapshotFacts(
            snapshot_id=snapshot.snapshot_id,
            parent_id=snapshot.parent_snapshot_id,
            timestamp_ms=snapshot.timestamp_ms,
            operation=snapshot.summary.operation.value if snapshot.summary else None,
            schema_id=snapshot.schema_id,
            in_history=snapshot.snapshot_id in ancestors,
            refs=tuple(refs.get(snapshot.snapshot_id, ())),
            done={name: _number(summary.get(key)) for name, key in _DONE.items()},
            properties=shown_properties(
                {key: value for key, value in summary.items() if key not in _DONE.values() and key != "operation"}
            ),
        )
        for snapshot in sorted(metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)
        for summary in [snapshot.summary.additional_properties if snapshot.summary else {}]
    )


def schema_history(metadata: TableMetadata) -> tuple[SchemaFacts, ...]:
    """Every schema in the order of its number, with what it changed."""
    used: dict[int, int] = {}
    for snapshot in metadata.snapshots:
        if snapshot.schema_id is not None:
            used[snapshot.schema_id] = min(snapshot.timestamp_ms, used.get(snapshot.schema_id, snapshot.timestamp_ms))
    found = []
    before: Schema | None = None
    for schema in sorted(metadata.schemas, key=lambda schema: schema.schema_id):
        found.append(
            SchemaFacts(
                schema_id=schema.schema_id,
                is_current=schema.schema_id == metadata.current_schema_id,
                columns=len(schema.fields),
                changes=() if before is None else tuple(_changes(before, schema)),
                first_used_ms=used.get(schema.schema_id),
            )
        )
        before = schema
    return tuple(found)


def columns_of(schema: Schema) -> tuple[ColumnFacts, ...]:
    """The top-level columns of a schema."""
    return tuple(ColumnFacts(f.field_id, f.name, str(f.field_type), f.required, f.doc) for f in schema.fields)


def _changes(before: Schema, after: Schema) -> list[str]:
    """What became of each field, by its id, nested ones included; of a new or lost struct only the struct is told."""
    old, new = _names(before), _names(after)
    gained = {name for number, name in new.items() if number not in old}
    said = []
    for number, name in new.items():
        now = after.find_field(number)
        if number not in old:
            if not _lies_within(name, gained):
                said.append(f"added {name} {now.field_type}")
            continue
        was = before.find_field(number)
        if was.name != now.name:
            said.append(f"renamed {old[number]} to {name}")
        if was.field_type != now.field_type and now.field_type.is_primitive:
            said.append(f"{name} from {was.field_type} to {now.field_type}")
        if was.required != now.required:
            said.append(f"{name} is now {'required' if now.required else 'optional'}")
    lost = {name for number, name in old.items() if number not in new}
    said += [f"dropped {name}" for name in sorted(lost) if not _lies_within(name, lost)]
    if not said and [field.field_id for field in before.fields] != [field.field_id for field in after.fields]:
        said.append("columns in another order")
    return said


def _names(schema: Schema) -> dict[int, str]:
    named = ((number, schema.find_column_name(number)) for number in sorted(schema.field_ids))
    return {number: name for number, name in named if name is not None}


def _lies_within(name: str, others: set[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:depth]) in others for depth in range(1, len(parts)))


def _number(text: str | None) -> int | None:
    """A count of a summary; what is no number was written by somebody who meant something else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
