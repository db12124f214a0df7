"""Iceberg tables made by hand: metadata and manifests without a catalog, data files or a JVM.

A small committer of the tests' own, on PyIceberg's manifest writers and on nothing of lakeshift, so
that it can be the other committer in a race, and a fixture that owes lakeshift nothing.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV1,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import Record

PATH_ID = 2147483546
POSITION_ID = 2147483545

_snapshot_ids = itertools.count(1001)
_file_numbers = itertools.count()


class _DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class HandmadeTable:
    """A table whose every snapshot is put together file by file."""

    def __init__(
        self, folder: Path, schema: Schema, *specs: PartitionSpec, format_version: int = 2, codec: str = "deflate"
    ) -> None:
        self.folder = folder
        self.location = f"file://{folder}"
        self.io = PyArrowFileIO()
        self.codec = codec
        # Field and spec ids are kept as the tests wrote them: fresh ids would renumber both.
        fresh = new_table_metadata(
            schema, PartitionSpec(), UNSORTED_SORT_ORDER, self.location, {"format-version": str(format_version)}
        )
        chosen = list(specs) or [PartitionSpec()]
        self.metadata: TableMetadata = fresh.model_copy(
            update={
                "schemas": [schema],
                "current_schema_id": schema.schema_id,
                "last_column_id": schema.highest_field_id,
                "partition_specs": chosen,
                "default_spec_id": chosen[-1].spec_id,
                "last_partition_id": max(spec.last_assigned_field_id for spec in chosen),
            }
        )

    def update(self, *updates: TableUpdate) -> None:
        self.metadata = update_table_metadata(self.metadata, updates)

    def add_schema(self, schema: Schema) -> None:
        self.update(AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate(schema_id=-1))

    def add_spec(self, spec: PartitionSpec) -> None:
        self.update(AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate(spec_id=spec.spec_id))

    def head(self, branch: str = "main") -> Snapshot | None:
        return self.metadata.snapshot_by_name(branch)

    def data_file(self, spec_id: int = 0, *partition: Any, path: str | None = None, **fields: Any) -> DataFile:
        return self._file(DataFileContent.DATA, spec_id, partition, path, fields)

    def position_deletes(
        self, targets: Sequence[str], spec_id: int = 0, *partition: Any, path: str | None = None, **fields: Any
    ) -> DataFile:
        """A position delete file for these data files; with one target it is file-scoped by its bounds."""
        bounds = {"lower_bounds": {PATH_ID: min(targets).encode()}, "upper_bounds": {PATH_ID: max(targets).encode()}}
        return self._file(DataFileContent.POSITION_DELETES, spec_id, partition, path, bounds | fields)

    def equality_deletes(
        self, spec_id: int = 0, *partition: Any, path: str | None = None, ids: Iterable[int] = (1,), **fields: Any
    ) -> DataFile:
        return self._file(
            DataFileContent.EQUALITY_DELETES, spec_id, partition, path, {"equality_ids": list(ids)} | fields
        )

    def _file(
        self,
        content: DataFileContent,
        spec_id: int,
        partition: Sequence[Any],
        path: str | None,
        fields: Mapping[str, Any],
    ) -> DataFile:
        defaults: dict[str, Any] = {
            "file_format": FileFormat.PARQUET,
            "record_count": 10,
            "file_size_in_bytes": 1000,
            "column_sizes": {},
            "value_counts": {},
            "null_value_counts": {},
            "nan_value_counts": {},
            "lower_bounds": {},
            "upper_bounds": {},
            "key_metadata": None,
            "split_offsets": [4],
            "equality_ids": None,
            "sort_order_id": None,
        }
        made = DataFile.from_args(
            content=content,
            file_path=path or f"{self.location}/data/{next(_file_numbers):06}.parquet",
            partition=Record(*partition),
            **(defaults | dict(fields)),
        )
        made.spec_id = spec_id
        return made

    def commit(
        self,
        *added: DataFile,
        removed: Iterable[str] = (),
        sequence_number: int | None = None,
        operation: Operation = Operation.APPEND,
        branch: str = "main",
    ) -> Snapshot:
        """Add and remove files in one snapshot of a branch.

        ``sequence_number`` is written into the entries of added data files instead of being inherited.
        """
        parent = self.head(branch) or (self.head() if branch != "main" else None)
        snapshot_id = next(_snapshot_ids)
        gone = set(removed)
        manifests = [
            kept
            for manifest in (parent.manifests(self.io) if parent else [])
            for kept in self._carry_over(manifest, gone, snapshot_id)
        ]
        if gone:
            raise AssertionError(f"not in the table: {sorted(gone)}")
        groups: dict[tuple[int, ManifestContent], list[DataFile]] = defaultdict(list)
        for file in added:
            content = ManifestContent.DATA if file.content == DataFileContent.DATA else ManifestContent.DELETES
            groups[file.spec_id, content].append(file)
        for (spec_id, content), files in sorted(groups.items()):
            with self._manifest_writer(spec_id, content, snapshot_id) as writer:
                for file in files:
                    number = sequence_number if content == ManifestContent.DATA else None
                    writer.add(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=snapshot_id,
                            sequence_number=number,
                            data_file=file,
                        )
                    )
            manifests.append(writer.to_manifest_file())
        return self._add_snapshot(manifests, snapshot_id, parent, operation, branch)

    def _carry_over(self, manifest: ManifestFile, gone: set[str], snapshot_id: int) -> list[ManifestFile]:
        if not gone and (manifest.has_added_files() or manifest.has_existing_files()):
            return [manifest]
        entries = manifest.fetch_manifest_entry(self.io, discard_deleted=True)
        if not entries:
            return []
        if not any(entry.data_file.file_path in gone for entry in entries):
            return [manifest]
        with self._manifest_writer(manifest.partition_spec_id, manifest.content, snapshot_id) as writer:
            for entry in entries:
                if entry.data_file.file_path in gone:
                    gone.discard(entry.data_file.file_path)
                    writer.delete(entry)
                else:
                    writer.existing(entry)
        return [writer.to_manifest_file()]

    def _manifest_writer(self, spec_id: int, content: ManifestContent, snapshot_id: int) -> ManifestWriter:
        spec = self.metadata.specs()[spec_id]
        newest_first = sorted(self.metadata.schemas, key=lambda schema: -schema.schema_id)
        sources = {field.source_id for field in spec.fields}
        schema = next(schema for schema in newest_first if sources <= set(schema.field_ids))
        output = self.io.new_output(f"{self.location}/metadata/{next(_file_numbers):06}-m.avro")
        if self.metadata.format_version == 1:
            return ManifestWriterV1(spec, schema, output, snapshot_id, self.codec)
        kind = ManifestWriterV2 if content == ManifestContent.DATA else _DeleteManifestWriter
        return kind(spec, schema, output, snapshot_id, self.codec)

    def _add_snapshot(
        self,
        manifests: list[ManifestFile],
        snapshot_id: int,
        parent: Snapshot | None,
        operation: Operation,
        branch: str,
    ) -> Snapshot:
        number = self.metadata.last_sequence_number + 1 if self.metadata.format_version > 1 else 0
        location = f"{self.location}/metadata/snap-{snapshot_id}.avro"
        parent_id = parent.snapshot_id if parent else None
        with write_manifest_list(
            self.metadata.format_version, self.io.new_output(location), snapshot_id, parent_id, number, self.codec
        ) as writer:
            writer.add_manifests(manifests)
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=number or None,
            manifest_list=location,
            summary=Summary(operation=operation),
            schema_id=self.metadata.current_schema_id,
        )
        self.update(
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate(ref_name=branch, type="branch", snapshot_id=snapshot_id),
        )
        return snapshot
