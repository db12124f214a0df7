"""A manifest that is read to be written again: what its entries inherit, and how they are carried over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus, ManifestFile
from pyiceberg.types import StructType

from lakeshift.errors import LakeshiftError
from lakeshift.iceberg.adapter import UNASSIGNED_SEQUENCE_NUMBER
from lakeshift.iceberg.commit.avro import AvroFile
from lakeshift.iceberg.commit.entry_codec import EntryReader, EntryWriter, RawEntry
from lakeshift.iceberg.commit.partition_values import to_logical
from lakeshift.iceberg.commit.summary import CountedFile

ADDED, EXISTING, DELETED = (
    ManifestEntryStatus.ADDED.value,
    ManifestEntryStatus.EXISTING.value,
    ManifestEntryStatus.DELETED.value,
)


@dataclass(frozen=True)
class ManifestSource:
    """A manifest that is read to be written again, with what its entries inherit from it."""

    manifest: ManifestFile
    file: AvroFile
    reader: EntryReader

    @classmethod
    def open(cls, io: FileIO, manifest: ManifestFile) -> ManifestSource:
        with io.new_input(manifest.manifest_path).open() as stream:
            file = AvroFile.parse(stream.read(), manifest.manifest_path)
        return cls(manifest, file, EntryReader.of(file.schema, manifest.manifest_path))

    def snapshot_id(self, entry: RawEntry) -> int:
        inherited = self.manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id
        if inherited is None:
            raise LakeshiftError(f"{self.manifest.manifest_path} does not say which snapshot added {entry.file_path}.")
        return inherited

    def sequence_number(self, entry: RawEntry) -> int | None:
        return self._inherited(entry.sequence_number, entry)

    def file_sequence_number(self, entry: RawEntry) -> int | None:
        return self._inherited(entry.file_sequence_number, entry)

    def _inherited(self, stored: int | None, entry: RawEntry) -> int | None:
        if stored is not None:
            return stored
        number = self.manifest.sequence_number
        if number == UNASSIGNED_SEQUENCE_NUMBER:  # our own, not committed yet: it inherits when it is
            return None
        return number if number == 0 or entry.status == ADDED else None

    def counted(self, block: bytes, entry: RawEntry, struct: StructType) -> CountedFile:
        partition = to_logical(struct, self.reader.partition(block, entry))
        content = DataFileContent(entry.content)
        return CountedFile(content, self.manifest.partition_spec_id, partition, entry.record_count, entry.file_size)


@dataclass(frozen=True)
class EntryCopier:
    """Carries entries from one manifest into another: as bytes where both describe files alike."""

    source: ManifestSource
    writer: EntryWriter
    verbatim: bool

    @classmethod
    def of(
        cls, source: ManifestSource, entries: EntryWriter, format_version: int, *, keep_schema: bool = True
    ) -> EntryCopier:
        if source.reader.file_shape == entries.file_shape:
            return cls(source, entries, verbatim=True)
        version = source.file.metadata.get("format-version", b"1").decode()
        if keep_schema and version == str(format_version):
            # Another writer of the same version: its own layout is kept, with all that it may say beyond ours.
            return cls(source, EntryWriter.of(source.file.schema), verbatim=True)
        return cls(source, entries, verbatim=False)

    @property
    def avro_schema(self) -> Mapping[str, Any]:
        return self.writer.avro_schema

    def copy(self, block: bytes, entry: RawEntry, status: int, snapshot_id: int) -> bytes:
        sequence_number = self.source.sequence_number(entry)
        if status != ADDED and sequence_number is None and self.source.manifest.sequence_number != 0:
            raise LakeshiftError(
                f"{self.source.manifest.manifest_path} gives no sequence number for {entry.file_path}; the manifest is "
                "damaged and cannot be rewritten."
            )
        described = (
            block[entry.start : entry.end] if self.verbatim else self.writer.file(self.source.reader.file(block, entry))
        )
        file_number = self.source.file_sequence_number(entry)
        return self.writer.entry(status, snapshot_id, sequence_number, file_number, described)
