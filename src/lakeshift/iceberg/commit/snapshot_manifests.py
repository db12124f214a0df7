"""Which manifests a snapshot gets: new ones, the parent's as they are, and those that had to be rewritten.

Only what depends on the parent is made again for a retry: manifests of added files are written once, and a
parent's manifest is filtered or merged once, however many attempts it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from lakeshift.errors import CommitConflictError
from lakeshift.iceberg.commit.change_set import ChangeSet, RemovedFile
from lakeshift.iceberg.commit.manifests import Filtered, ManifestFactory
from lakeshift.iceberg.commit.properties import ManifestPolicy
from lakeshift.iceberg.commit.summary import CountedFile, ManifestCounts
from lakeshift.iceberg.ledger import read_entries

_FILTER_THREADS = 4


@dataclass(frozen=True)
class SnapshotContents:
    """The manifests of a snapshot, and what became of its parent's."""

    manifests: tuple[ManifestFile, ...]
    removed: tuple[CountedFile, ...]
    counts: ManifestCounts


@dataclass(frozen=True)
class _Kept:
    manifests: list[ManifestFile]
    removed: list[CountedFile]
    rewritten: int


@dataclass
class ManifestPlanner:
    """Works out the manifests of a commit, attempt after attempt."""

    change: ChangeSet
    factory: ManifestFactory
    policy: ManifestPolicy
    _added: dict[ManifestContent, list[ManifestFile]] = field(default_factory=dict)
    _filtered: dict[tuple[str, frozenset[str]], Filtered] = field(default_factory=dict)
    _merged: dict[tuple[str, ...], ManifestFile] = field(default_factory=dict)

    def plan(
        self, metadata: TableMetadata, parent: Snapshot | None, io: FileIO, dangling: Iterable[RemovedFile] = ()
    ) -> SnapshotContents:
        """The manifests of a snapshot on top of this parent; ``dangling`` deletes leave with it."""
        before = parent.manifests(io) if parent else []
        leaving = {
            ManifestContent.DATA: self.change.removed_data_files,
            ManifestContent.DELETES: (*self.change.removed_delete_files, *dangling),
        }
        manifests: list[ManifestFile] = []
        removed: list[CountedFile] = []
        replaced = 0
        for content in ManifestContent:
            old = [manifest for manifest in before if manifest.content == content]
            kept = self._without(metadata, old, leaving[content])
            live = [manifest for manifest in kept.manifests if self._has_a_place(manifest)]
            merged, merged_away = self._merge(metadata, [*self._new(metadata, content), *live])
            manifests += merged
            removed += kept.removed
            replaced += kept.rewritten + merged_away
        created = sum(manifest.added_snapshot_id == self.factory.snapshot_id for manifest in manifests)
        return SnapshotContents(
            tuple(manifests), tuple(removed), ManifestCounts(created, len(manifests) - created, replaced)
        )

    def _new(self, metadata: TableMetadata, content: ManifestContent) -> list[ManifestFile]:
        if content not in self._added:
            is_data = content == ManifestContent.DATA
            self._added[content] = self.factory.write_added(
                metadata,
                self.change.added_data_files if is_data else self.change.added_delete_files,
                content,
                self.change.data_sequence_number if is_data else None,
            )
        return self._added[content]

    def _has_a_place(self, manifest: ManifestFile) -> bool:
        """Whether a manifest still says something: it has live files, or tells what this snapshot removed."""
        return (
            manifest.has_added_files()
            or manifest.has_existing_files()
            or manifest.added_snapshot_id == self.factory.snapshot_id
        )

    def _without(self, metadata: TableMetadata, old: list[ManifestFile], leaving: Sequence[RemovedFile]) -> _Kept:
        """The manifests without the files that leave."""
        if not leaving:
            return _Kept(old, [], 0)
        paths = frozenset(removed.file_path for removed in leaving)
        holding = self._holding(metadata, old, leaving)
        results = dict(
            zip(
                (manifest.manifest_path for manifest in holding),
                self._filter_all(metadata, holding, paths),
                strict=True,
            )
        )
        found = frozenset[str]().union(*(filtered.removed_paths for filtered in results.values()))
        if found != paths:
            raise _missing(metadata, paths - found)
        return _Kept(
            [results[m.manifest_path].manifest if m.manifest_path in results else m for m in old],
            [file for filtered in results.values() for file in filtered.removed],
            sum(bool(filtered.removed) for filtered in results.values()),
        )

    def _holding(
        self, metadata: TableMetadata, old: Sequence[ManifestFile], leaving: Sequence[RemovedFile]
    ) -> list[ManifestFile]:
        """The manifests that hold the files which leave: where they were seen last, else all are looked through."""
        present = {manifest.manifest_path for manifest in old}
        holding = {removed.manifest_path for removed in leaving if removed.manifest_path in present}
        astray = [removed.file_path for removed in leaving if removed.manifest_path not in present]
        if astray:
            wanted = pa.array(astray, pa.string())
            for entries in read_entries(
                old, metadata, self.factory.io, ["status", "file_path", "manifest_path"]
            ).values():
                mask = pc.and_(
                    pc.not_equal(entries.column("status"), ManifestEntryStatus.DELETED.value),
                    pc.is_in(entries.column("file_path"), value_set=wanted),
                )
                holding.update(pc.unique(entries.column("manifest_path").filter(mask).cast(pa.string())).to_pylist())
        return [manifest for manifest in old if manifest.manifest_path in holding]

    def _filter_all(
        self, metadata: TableMetadata, manifests: Sequence[ManifestFile], paths: frozenset[str]
    ) -> list[Filtered]:
        def filtered(manifest: ManifestFile) -> Filtered:
            key = (manifest.manifest_path, paths)
            if key not in self._filtered:
                self._filtered[key] = self.factory.filter(metadata, manifest, paths)
            return self._filtered[key]

        if len(manifests) < 2:
            return [filtered(manifest) for manifest in manifests]
        with ThreadPoolExecutor(_FILTER_THREADS, thread_name_prefix="lakeshift-filter") as pool:
            return list(pool.map(filtered, manifests))

    def _merge(self, metadata: TableMetadata, manifests: list[ManifestFile]) -> tuple[list[ManifestFile], int]:
        """Merge small manifests of one spec, and say how many of earlier snapshots went into a merge."""
        if not self.policy.merge:
            return manifests, 0
        by_spec: dict[int, list[ManifestFile]] = {}
        for manifest in manifests:
            by_spec.setdefault(manifest.partition_spec_id, []).append(manifest)
        into: dict[str, ManifestFile] = {}
        merged_away = 0
        for group in by_spec.values():
            for packed in pack_from_end(group, self.policy.target_size):
                # The newest manifests wait until there are enough of them; what lies behind is packed for good.
                if len(packed) == 1 or (packed[0] is group[0] and len(packed) < self.policy.min_count_to_merge):
                    continue
                key = tuple(manifest.manifest_path for manifest in packed)
                if key not in self._merged:
                    self._merged[key] = self.factory.merge(metadata, packed)
                into |= dict.fromkeys(key, self._merged[key])
                merged_away += sum(manifest.added_snapshot_id != self.factory.snapshot_id for manifest in packed)
        result = {manifest.manifest_path: manifest for manifest in (into.get(m.manifest_path, m) for m in manifests)}
        return list(result.values()), merged_away


def pack_from_end(manifests: Sequence[ManifestFile], target_size: int) -> list[list[ManifestFile]]:
    """Neighbours packed up to the target size, beginning with the oldest, so that only the first pack is not full."""
    packs: list[list[ManifestFile]] = []
    size = 0
    for manifest in reversed(manifests):
        if packs and size + manifest.manifest_length <= target_size:
            packs[-1].append(manifest)
            size += manifest.manifest_length
        else:
            packs.append([manifest])
            size = manifest.manifest_length
    return [pack[::-1] for pack in reversed(packs)]


def _missing(metadata: TableMetadata, paths: frozenset[str] | set[str]) -> CommitConflictError:
    shown = ", ".join(sorted(paths)[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return CommitConflictError(
        f"Files that this commit removes are no longer in the table at {metadata.location}: {shown}. Another commit "
        "has removed them. Nothing was committed; run the operation again on the table as it is now.",
        retryable=True,
    )
