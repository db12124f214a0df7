"""A manifest that is read to be written again: what its entries inherit, and how they are carried over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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


class Inherited(NamedTuple):
    """An entry's snapshot and sequence numbers; those are None for files that this commit adds."""

    snapshot_id: int
    sequence_number: int | None
    file_sequence_number: int | None


@dataclass(frozen=True)
class ManifestSource:
    """A manifest that is read to be written again, with what its entries inherit from it."""

    manifest: ManifestFile
    file: AvroFile
    reader: EntryReader
    _inherited: dict[tuple[int | None, ...], Inherited] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def open(cls, io: FileIO, manifest: ManifestFile) -> ManifestSource:
        with io.new_input(manifest.manifest_path).open() as stream:
            file = AvroFile.parse(stream.read(), manifest.manifest_path)
        return cls(manifest, file, EntryReader.of(file.schema, manifest.manifest_path))

    def inherited(self, entry: RawEntry) -> Inherited:
        """What an entry says of its snapshot and sequence numbers, or inherits from its manifest."""
        key = entry[:4]
        known = self._inherited.get(key)
        if known is None:  # most entries of a manifest are alike in this
            known = self._inherited[key] = self._inherit(entry)
        return known

    def _inherit(self, entry: RawEntry) -> Inherited:
        manifest = self.manifest
        snapshot_id = manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id
        if snapshot_id is None:
            raise LakeshiftError(f"{manifest.manifest_path} does not say which snapshot added {entry.file_path}.")
        # Of a v1 manifest every file inherits; else only added ones do. Our own manifests have no number before
        # they are committed, and then their files inherit it as well.
        is_our_own = manifest.sequence_number == UNASSIGNED_SEQUENCE_NUMBER
        inherits = not is_our_own and (manifest.sequence_number == 0 or entry.status == ADDED)
        numbers = [
            manifest.sequence_number if stored is None and inherits else stored
            for stored in (entry.sequence_number, entry.file_sequence_number)
        ]
        if numbers[0] is None and entry.status != ADDED:
            raise LakeshiftError(
                f"{manifest.manifest_path} gives no sequence number for {entry.file_path}; the manifest is damaged and "
                "cannot be rewritten."
            )
        return Inherited(snapshot_id, numbers[0], numbers[1])

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

    def copy(self, block: bytes, entry: RawEntry, status: int, snapshot_id: int, inherited: Inherited) -> bytes:
        described = (
            block[entry.start : entry.end] if self.verbatim else self.writer.file(self.source.reader.file(block, entry))
        )
        return self.writer.entry(
            status, snapshot_id, inherited.sequence_number, inherited.file_sequence_number, described
        )
