"""A change set: what one commit adds and removes, fixed when it was planned.

Each file carries the spec it was planned with, and a retry never derives one anew: the table's default
spec may have changed in the meantime. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation

from lakeshift.errors import ConfigError, UnknownSpecError, UnsupportedTableError
from lakeshift.iceberg.adapter import partition_values
from lakeshift.iceberg.commit.grouping import pinned_spec_id, spec_id_of
from lakeshift.iceberg.commit.partition_values import logical_partition
from lakeshift.iceberg.specs import partition_type, spec_of
from lakeshift.locations import canonical_location

WRITABLE_FORMAT_VERSIONS = (1, 2)


class ChangeKind(Enum):
    """What a commit means; the snapshot records the operation that Iceberg Java would record for it."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ROW_DELTA = "row delta"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """A data or delete file that leaves the table.

    ``manifest_path`` says in which manifest it was seen, so that a commit need not search for it.
    """

    file_path: str
    spec_id: int
    manifest_path: str | None = None

    @classmethod
    def of(cls, file: DataFile) -> RemovedFile:
        return cls(file.file_path, spec_id_of(file))


def removed_files(rows: Mapping[int, pa.Table]) -> list[RemovedFile]:
    """Ledger rows, by spec id, as files that leave the table; they need the columns file_path and manifest_path."""
    return [
        RemovedFile(path, spec_id, manifest)
        for spec_id, table in rows.items()
        for path, manifest in zip(
            table.column("file_path").to_pylist(), table.column("manifest_path").to_pylist(), strict=True
        )
    ]


@dataclass(frozen=True)
class ChangeSet:
    """What one commit adds and removes. Make one with the function of its kind, which checks it."""

    kind: ChangeKind
    table_uuid: UUID
    format_version: int
    starting_snapshot_id: int | None
    added_data_files: tuple[DataFile, ...] = ()
    added_delete_files: tuple[DataFile, ...] = ()
    removed_data_files: tuple[RemovedFile, ...] = ()
    removed_delete_files: tuple[RemovedFile, ...] = ()
    data_sequence_number: int | None = None

    @property
    def is_empty(self) -> bool:
        return not (
            self.added_data_files or self.added_delete_files or self.removed_data_files or self.removed_delete_files
        )

    @property
    def operation(self) -> Operation:
        """The operation that the snapshot records."""
        adds, removes = bool(self.added_data_files), bool(self.removed_data_files)
        adds_deletes = bool(self.added_delete_files)
        if self.kind is ChangeKind.APPEND:
            return Operation.APPEND
        if self.kind is ChangeKind.REPLACE:
            return Operation.REPLACE
        if adds and not removes and not adds_deletes:
            return Operation.APPEND
        if not adds and (removes or adds_deletes):
            return Operation.DELETE
        return Operation.OVERWRITE


def append_change(metadata: TableMetadata, added: Iterable[DataFile]) -> ChangeSet:
    """Add data files."""
    return _planned(ChangeKind.APPEND, metadata, added_data_files=added)


def overwrite_change(
    metadata: TableMetadata,
    added: Iterable[DataFile],
    removed: Iterable[RemovedFile],
    *,
    removed_deletes: Iterable[RemovedFile] = (),
    starting_snapshot_id: int | None = None,
) -> ChangeSet:
    """Replace data files by others with other rows: an overwrite, or copy-on-write DML."""
    return _planned(
        ChangeKind.OVERWRITE,
        metadata,
        starting_snapshot_id,
        added_data_files=added,
        removed_data_files=removed,
        removed_delete_files=removed_deletes,
    )


def row_delta_change(
    metadata: TableMetadata,
    added: Iterable[DataFile],
    added_deletes: Iterable[DataFile],
    *,
    removed: Iterable[RemovedFile] = (),
    removed_deletes: Iterable[RemovedFile] = (),
    starting_snapshot_id: int | None = None,
) -> ChangeSet:
    """Add rows and deletes of rows: merge-on-read DML."""
    return _planned(
        ChangeKind.ROW_DELTA,
        metadata,
        starting_snapshot_id,
        added_data_files=added,
        added_delete_files=added_deletes,
        removed_data_files=removed,
        removed_delete_files=removed_deletes,
    )


def replace_change(
    metadata: TableMetadata,
    added: Iterable[DataFile],
    removed: Iterable[RemovedFile],
    *,
    added_deletes: Iterable[DataFile] = (),
    removed_deletes: Iterable[RemovedFile] = (),
    data_sequence_number: int | None = None,
    starting_snapshot_id: int | None = None,
) -> ChangeSet:
    """Replace files by others with the same rows: compaction.

    ``data_sequence_number`` is what the added data files count as: that of the planned snapshot, so that
    an equality delete which came in meanwhile still applies to them.
    """
    return _planned(
        ChangeKind.REPLACE,
        metadata,
        starting_snapshot_id,
        added_data_files=added,
        added_delete_files=added_deletes,
        removed_data_files=removed,
        removed_delete_files=removed_deletes,
        data_sequence_number=data_sequence_number,
    )


def check_writable_format(metadata: TableMetadata) -> None:
    """Refuse a table whose format version we read but do not write."""
    if metadata.format_version not in WRITABLE_FORMAT_VERSIONS:
        raise UnsupportedTableError(
            f"The table at {metadata.location} has format version {metadata.format_version}; lakeshift writes versions "
            f"{' and '.join(str(number) for number in WRITABLE_FORMAT_VERSIONS)}. Nothing was written."
        )


def _planned(
    kind: ChangeKind,
    metadata: TableMetadata,
    starting_snapshot_id: int | None = None,
    *,
    added_data_files: Iterable[DataFile] = (),
    added_delete_files: Iterable[DataFile] = (),
    removed_data_files: Iterable[RemovedFile] = (),
    removed_delete_files: Iterable[RemovedFile] = (),
    data_sequence_number: int | None = None,
) -> ChangeSet:
    check_writable_format(metadata)
    current = metadata.current_snapshot_id
    change = ChangeSet(
        kind=kind,
        table_uuid=metadata.table_uuid,
        format_version=metadata.format_version,
        starting_snapshot_id=current if starting_snapshot_id is None else starting_snapshot_id,
        added_data_files=tuple(added_data_files),
        added_delete_files=tuple(added_delete_files),
        removed_data_files=tuple(removed_data_files),
        removed_delete_files=tuple(removed_delete_files),
        data_sequence_number=data_sequence_number,
    )
    _check_format_allows(change)
    _check_added(metadata, change.added_data_files, deletes=False)
    _check_added(metadata, change.added_delete_files, deletes=True)
    _check_paths(change)
    for removed in (*change.removed_data_files, *change.removed_delete_files):
        if removed.spec_id not in metadata.specs():
            spec_of(metadata, removed.spec_id)
    return change


def _check_format_allows(change: ChangeSet) -> None:
    if change.format_version > 1:
        return
    if change.added_delete_files or change.removed_delete_files:
        raise UnsupportedTableError(
            "The table has format version 1, which has no delete files. Use copy-on-write, or upgrade the table "
            "with the property format-version=2."
        )
    if change.data_sequence_number is not None:
        raise ConfigError(
            f"Data sequence number {change.data_sequence_number} was given, but a table of format version 1 has none."
        )


def _check_added(metadata: TableMetadata, files: Sequence[DataFile], *, deletes: bool) -> None:
    types = {}
    for file in files:
        spec_id = validate_spec(metadata, file)
        if (file.content != DataFileContent.DATA) is not deletes:
            wanted = "a delete file" if deletes else "a data file"
            raise ConfigError(f"{file.file_path} is of content {file.content.name}, where {wanted} is expected.")
        if file.content == DataFileContent.EQUALITY_DELETES and not file.equality_ids:
            raise ConfigError(f"The equality delete file {file.file_path} names no equality columns.")
        if spec_id not in types:
            types[spec_id] = partition_type(metadata, spec_of(metadata, spec_id))
        logical_partition(types[spec_id], partition_values(file), file.file_path)


def validate_spec(metadata: TableMetadata, file: DataFile) -> int:
    """The spec id of a file that is to be added, which the table must have."""
    pinned = pinned_spec_id(file)
    if pinned is None and metadata.format_version > 1:
        raise UnknownSpecError(
            f"{file.file_path} does not say which partition spec it was written for. Set its spec_id; only files of "
            "format version 1 may leave it out, and then count as spec 0."
        )
    spec_id = 0 if pinned is None else pinned
    if spec_id not in metadata.specs():
        known = ", ".join(str(number) for number in sorted(metadata.specs()))
        raise UnknownSpecError(
            f"{file.file_path} was written for partition spec {spec_id}, which the table at {metadata.location} does "
            f"not have; it has {known}. Write the file again for one of these."
        )
    return spec_id


def _check_paths(change: ChangeSet) -> None:
    added: set[str] = set()
    for file in (*change.added_data_files, *change.added_delete_files):
        path = canonical_location(file.file_path)
        if path in added:
            raise ConfigError(f"{file.file_path} is added twice by one commit; its rows would be there twice.")
        added.add(path)
    for removed in (*change.removed_data_files, *change.removed_delete_files):
        if added and canonical_location(removed.file_path) in added:
            raise ConfigError(f"{removed.file_path} is both added and removed by one commit.")
