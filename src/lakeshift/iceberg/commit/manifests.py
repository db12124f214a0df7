"""Manifests of a commit: written per spec, reused as they are where nothing changes, filtered and merged.

A manifest holds files of one spec and one content, under a schema that still has the spec's source columns.
That is so for added, existing and deleted entries alike. Which manifests a snapshot gets is decided in
``snapshot_manifests``; here they are made.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import StructType

from lakeshift.iceberg.adapter import (
    UNASSIGNED_SEQUENCE_NUMBER,
    avro_schema_of,
    entry_schema,
    file_values,
    partition_values,
)
from lakeshift.iceberg.commit.avro import Codec, encode_file
from lakeshift.iceberg.commit.entry_codec import PARTITION, EntryWriter
from lakeshift.iceberg.commit.grouping import group_files_by_spec, spec_id_of
from lakeshift.iceberg.commit.manifest_source import ADDED, DELETED, EXISTING, EntryCopier, ManifestSource
from lakeshift.iceberg.commit.partition_values import (
    Partition,
    logical_partition,
    merge_summaries,
    summarise,
    to_physical,
)
from lakeshift.iceberg.commit.summary import CountedFile
from lakeshift.iceberg.specs import find_compatible_schema, partition_type, spec_of

# Larger blocks compress better, smaller ones are compressed side by side.
_BLOCK_BYTES = 128 * 1024


@dataclass(frozen=True)
class SpecWriter:
    """What it takes to write manifests of one spec and content."""

    spec: PartitionSpec
    schema: Schema
    content: ManifestContent
    format_version: int
    partition: StructType
    entries: EntryWriter

    @classmethod
    def of(cls, metadata: TableMetadata, spec_id: int, content: ManifestContent) -> SpecWriter:
        spec = spec_of(metadata, spec_id)
        struct = partition_type(metadata, spec)
        avro = avro_schema_of(entry_schema(metadata.format_version, struct))
        return cls(
            spec, find_compatible_schema(metadata, spec), content, metadata.format_version, struct, EntryWriter.of(avro)
        )

    def header(self, avro_schema: Mapping[str, Any]) -> dict[str, bytes]:
        fields = [item.model_dump(mode="json", by_alias=True) for item in self.spec.fields]
        header = {
            "schema": self.schema.model_dump_json().encode(),
            "partition-spec": json.dumps(fields).encode(),
            "partition-spec-id": str(self.spec.spec_id).encode(),
            "format-version": str(self.format_version).encode(),
            "avro.schema": json.dumps(avro_schema).encode(),
        }
        if self.format_version > 1:
            header["content"] = b"data" if self.content == ManifestContent.DATA else b"deletes"
        return header


@dataclass
class _Tally:
    """What a manifest list says of a manifest's entries."""

    files: dict[int, int] = field(default_factory=lambda: {ADDED: 0, EXISTING: 0, DELETED: 0})
    rows: dict[int, int] = field(default_factory=lambda: {ADDED: 0, EXISTING: 0, DELETED: 0})
    min_sequence_number: int | None = None

    def count(self, status: int, rows: int, sequence_number: int | None) -> None:
        self.files[status] += 1
        self.rows[status] += rows
        if (
            status != DELETED
            and sequence_number is not None
            and (self.min_sequence_number is None or sequence_number < self.min_sequence_number)
        ):
            self.min_sequence_number = sequence_number


@dataclass
class _Blocks:
    """Encoded entries, cut into blocks."""

    finished: list[tuple[int, bytes]] = field(default_factory=list)
    _open: list[bytes] = field(default_factory=list)
    _size: int = 0

    def append(self, entry: bytes) -> None:
        self._open.append(entry)
        self._size += len(entry)
        if self._size >= _BLOCK_BYTES:
            self.close()

    def close(self) -> list[tuple[int, bytes]]:
        if self._open:
            self.finished.append((len(self._open), b"".join(self._open)))
            self._open, self._size = [], 0
        return self.finished


@dataclass(frozen=True)
class Filtered:
    """A manifest without the files that leave, and those files. ``manifest`` is the old one if none did."""

    manifest: ManifestFile
    removed: tuple[CountedFile, ...]
    removed_paths: frozenset[str]


@dataclass
class ManifestFactory:
    """Writes the manifests of one commit, over all its attempts; ``written`` names every file it made."""

    io: FileIO
    snapshot_id: int
    commit_uuid: UUID
    codec: Codec
    target_size: int
    executor: Executor
    written: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def write_added(
        self,
        metadata: TableMetadata,
        files: Sequence[DataFile],
        content: ManifestContent,
        data_sequence_number: int | None = None,
    ) -> list[ManifestFile]:
        """Manifests of new files, in the order of spec ids."""
        if not files:
            return []
        first = spec_id_of(files[0])
        # Most commits have one spec: no need to sort files into groups.
        if all(spec_id_of(file) == first for file in files):
            return self._write_added(SpecWriter.of(metadata, first, content), metadata, files, data_sequence_number)
        return [
            manifest
            for spec_id, group in group_files_by_spec(files).items()
            for manifest in self._write_added(
                SpecWriter.of(metadata, spec_id, content), metadata, group, data_sequence_number
            )
        ]

    def _write_added(
        self,
        writer: SpecWriter,
        metadata: TableMetadata,
        files: Sequence[DataFile],
        data_sequence_number: int | None,
    ) -> list[ManifestFile]:
        blocks = _Blocks()
        partitions = []
        for file in files:
            partition = logical_partition(writer.partition, partition_values(file), file.file_path)
            partitions.append(partition)
            described = writer.entries.file(_described(file, writer.partition, partition))
            blocks.append(writer.entries.entry(ADDED, self.snapshot_id, data_sequence_number, None, described))
        manifests = []
        start = 0
        for group in self._rolled(blocks.close()):
            end = start + sum(number for number, _ in group)
            tally = _Tally()
            for file in files[start:end]:
                tally.count(ADDED, file.record_count, data_sequence_number)
            summary = summarise(writer.partition, partitions[start:end])
            manifests.append(self._store(metadata, writer, writer.entries.avro_schema, group, tally, summary))
            start = end
        return manifests

    def _rolled(self, blocks: Sequence[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
        """Blocks of one manifest after another, so that none grows far over the target size."""
        group: list[tuple[int, bytes]] = []
        size = 0
        raw = sum(len(block) for _, block in blocks)
        # How well blocks compress is not known before; the first one tells.
        ratio = len(self.codec.compress(blocks[0][1])) / len(blocks[0][1]) if raw > self.target_size else 1.0
        for block in blocks:
            if group and size >= self.target_size:
                yield group
                group, size = [], 0
            group.append(block)
            size += int(len(block[1]) * ratio)
        yield group

    def filter(self, metadata: TableMetadata, manifest: ManifestFile, leaving: Collection[str]) -> Filtered:
        """Mark the files that leave as deleted, and carry the others over as existing."""
        source = ManifestSource.open(self.io, manifest)
        writer = SpecWriter.of(metadata, manifest.partition_spec_id, manifest.content)
        copier = EntryCopier.of(source, writer.entries, writer.format_version)
        blocks, tally = _Blocks(), _Tally()
        removed: list[CountedFile] = []
        paths: set[str] = set()
        for number, block in source.file.blocks():
            for entry in source.reader.entries(number, block):
                if entry.status == DELETED:
                    continue
                inherited = source.inherited(entry)
                if entry.file_path in leaving:
                    paths.add(entry.file_path)
                    removed.append(source.counted(block, entry, writer.partition))
                    status, snapshot_id = DELETED, self.snapshot_id
                else:
                    status, snapshot_id = EXISTING, inherited.snapshot_id
                blocks.append(copier.copy(block, entry, status, snapshot_id, inherited))
                tally.count(status, entry.record_count, inherited.sequence_number)
        if not paths:
            return Filtered(manifest, (), frozenset())
        # The entries are those of the old manifest, so that its bounds still hold.
        kept = self._store(metadata, writer, copier.avro_schema, blocks.close(), tally, manifest.partitions)
        return Filtered(kept, tuple(removed), frozenset(paths))

    def merge(self, metadata: TableMetadata, manifests: Sequence[ManifestFile]) -> ManifestFile:
        """One manifest with the entries of several of the same spec and content.

        Files that earlier snapshots deleted are left out; what this snapshot adds or deletes stays so.
        """
        first = manifests[0]
        writer = SpecWriter.of(metadata, first.partition_spec_id, first.content)
        blocks, tally = _Blocks(), _Tally()
        for manifest in manifests:
            source = ManifestSource.open(self.io, manifest)
            copier = EntryCopier.of(source, writer.entries, writer.format_version, keep_schema=False)
            for number, block in source.file.blocks():
                for entry in source.reader.entries(number, block):
                    inherited = source.inherited(entry)
                    ours = inherited.snapshot_id == self.snapshot_id
                    if entry.status == DELETED and not ours:
                        continue
                    status = entry.status if ours else EXISTING
                    blocks.append(copier.copy(block, entry, status, inherited.snapshot_id, inherited))
                    tally.count(status, entry.record_count, inherited.sequence_number)
        summary = merge_summaries(writer.partition, [manifest.partitions for manifest in manifests])
        return self._store(metadata, writer, writer.entries.avro_schema, blocks.close(), tally, summary)

    def _store(
        self,
        metadata: TableMetadata,
        writer: SpecWriter,
        avro_schema: Mapping[str, Any],
        blocks: Sequence[tuple[int, bytes]],
        tally: _Tally,
        partitions: list[PartitionFieldSummary] | None,
    ) -> ManifestFile:
        content = encode_file(writer.header(avro_schema), blocks, self.codec, self.executor)
        location = metadata_location(metadata, f"{self.commit_uuid}-m{next(self._numbers)}.avro")
        self.written.append(location)
        write_file(self.io, location, content)
        minimum = tally.min_sequence_number
        return ManifestFile.from_args(
            manifest_path=location,
            manifest_length=len(content),
            partition_spec_id=writer.spec.spec_id,
            content=writer.content,
            sequence_number=UNASSIGNED_SEQUENCE_NUMBER if writer.format_version > 1 else 0,
            min_sequence_number=(UNASSIGNED_SEQUENCE_NUMBER if minimum is None else minimum)
            if writer.format_version > 1
            else 0,
            added_snapshot_id=self.snapshot_id,
            added_files_count=tally.files[ADDED],
            existing_files_count=tally.files[EXISTING],
            deleted_files_count=tally.files[DELETED],
            added_rows_count=tally.rows[ADDED],
            existing_rows_count=tally.rows[EXISTING],
            deleted_rows_count=tally.rows[DELETED],
            partitions=partitions,
            key_metadata=None,
        )


def _described(file: DataFile, struct: StructType, partition: Partition) -> dict[int, Any]:
    values = file_values(file)
    values[PARTITION] = to_physical(struct, partition)
    values[101] = file.file_format.value if hasattr(file.file_format, "value") else str(file.file_format)
    values[134] = file.content.value
    return values


def counted_files(metadata: TableMetadata, files: Iterable[DataFile]) -> list[CountedFile]:
    """What a summary counts of files that are added."""
    types: dict[int, StructType] = {}
    counted = []
    for file in files:
        spec_id = spec_id_of(file)
        if spec_id not in types:
            types[spec_id] = partition_type(metadata, spec_of(metadata, spec_id))
        partition = logical_partition(types[spec_id], partition_values(file), file.file_path)
        counted.append(CountedFile(file.content, spec_id, partition, file.record_count, file.file_size_in_bytes))
    return counted


def metadata_location(metadata: TableMetadata, name: str) -> str:
    """Where the table keeps metadata files."""
    return load_location_provider(metadata.location, metadata.properties).new_metadata_location(name)


def write_file(io: FileIO, location: str, content: bytes) -> None:
    with io.new_output(location).create(overwrite=True) as stream:
        stream.write(content)
