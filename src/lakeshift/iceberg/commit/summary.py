"""The summary of a snapshot, with the keys and totals that Iceberg Java writes.

One thing is counted better: a changed partition is a partition *of a spec*, so that the same values under
two specs are two partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

import lakeshift
from lakeshift.errors import ConfigError
from lakeshift.iceberg.commit.partition_values import Partition
from lakeshift.iceberg.specs import find_compatible_schema, spec_of
from lakeshift.iceberg.table_properties import whole_number

PARTITION_LIMIT = "write.summary.partition-limit"
CHANGED_PARTITIONS = "changed-partition-count"

# Each total, with the keys that add to it and take from it.
_TOTALS = (
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)
_COUNTED = (
    "added-data-files",
    "deleted-data-files",
    "added-equality-delete-files",
    "removed-equality-delete-files",
    "added-position-delete-files",
    "removed-position-delete-files",
    "added-delete-files",
    "removed-delete-files",
    "added-records",
    "deleted-records",
    "added-files-size",
    "removed-files-size",
    "added-position-deletes",
    "removed-position-deletes",
    "added-equality-deletes",
    "removed-equality-deletes",
)
_RESERVED = frozenset(
    {"operation", CHANGED_PARTITIONS, "partition-summaries-included", "manifests-created", "manifests-kept"}
    | {"manifests-replaced", "engine-name", "engine-version"}
    | {total for total, _, _ in _TOTALS}
    | set(_COUNTED)
)

_ADDED = {
    DataFileContent.DATA: (("added-data-files",), "added-records"),
    DataFileContent.POSITION_DELETES: (("added-delete-files", "added-position-delete-files"), "added-position-deletes"),
    DataFileContent.EQUALITY_DELETES: (("added-delete-files", "added-equality-delete-files"), "added-equality-deletes"),
}
_REMOVED = {
    DataFileContent.DATA: (("deleted-data-files",), "deleted-records"),
    DataFileContent.POSITION_DELETES: (
        ("removed-delete-files", "removed-position-delete-files"),
        "removed-position-deletes",
    ),
    DataFileContent.EQUALITY_DELETES: (
        ("removed-delete-files", "removed-equality-delete-files"),
        "removed-equality-deletes",
    ),
}


class CountedFile(NamedTuple):
    """What a summary needs to know of a file."""

    content: DataFileContent
    spec_id: int
    partition: Partition
    record_count: int
    file_size: int


class ManifestCounts(NamedTuple):
    """How many manifests of the snapshot are new, kept as they were, and how many old ones went."""

    created: int
    kept: int
    replaced: int


@dataclass
class _Counter:
    values: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))

    def count(self, file: CountedFile, added: bool) -> None:
        files, rows = (_ADDED if added else _REMOVED)[file.content]
        for key in files:
            self.values[key] += 1
        self.values[rows] += file.record_count
        self.values["added-files-size" if added else "removed-files-size"] += file.file_size

    def positive(self) -> dict[str, str]:
        return {key: str(value) for key, value in self.values.items() if value > 0}


def check_snapshot_properties(properties: Mapping[str, str]) -> None:
    """Refuse properties of the caller that would say something else than what the commit did."""
    for key, value in properties.items():
        if key in _RESERVED or key.startswith("partitions."):
            raise ConfigError(f"The snapshot property {key!r} is written by lakeshift itself; choose another name.")
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigError(f"The snapshot property {key!r} has the value {value!r}; both must be text.")


def summarise_snapshot(
    metadata: TableMetadata,
    parent: Snapshot | None,
    added: Iterable[CountedFile],
    removed: Iterable[CountedFile],
    manifests: ManifestCounts,
    properties: Mapping[str, str],
) -> dict[str, str]:
    """All of a snapshot's summary but the operation."""
    total = _Counter()
    by_partition: dict[tuple[int, Partition], _Counter] = {}
    for files, is_added in ((added, True), (removed, False)):
        for file in files:
            total.count(file, is_added)
            by_partition.setdefault((file.spec_id, file.partition), _Counter()).count(file, is_added)
    summary = {**properties, **total.positive(), CHANGED_PARTITIONS: str(len(by_partition))}
    summary |= _partition_summaries(metadata, by_partition)
    summary |= {
        "manifests-created": str(manifests.created),
        "manifests-kept": str(manifests.kept),
        "manifests-replaced": str(manifests.replaced),
    }
    summary |= _totals(parent, total)
    return summary | {"engine-name": "lakeshift", "engine-version": lakeshift.__version__}


def _totals(parent: Snapshot | None, counted: _Counter) -> dict[str, str]:
    """The parent's totals carried on; one that the parent does not know, or that would be negative, is left out."""
    totals = {}
    before: Mapping[str, Any] = (parent.summary.additional_properties if parent.summary else {}) if parent else {}
    for key, adds, takes in _TOTALS:
        text = before.get(key) if parent else "0"
        if text is None or not str(text).isdigit():
            continue
        value = int(text) + counted.values[adds] - counted.values[takes]
        if value >= 0:
            totals[key] = str(value)
    return totals


def _partition_summaries(
    metadata: TableMetadata, by_partition: Mapping[tuple[int, Partition], _Counter]
) -> dict[str, str]:
    limit = whole_number(metadata.properties, PARTITION_LIMIT, 0)
    if not by_partition or len(by_partition) > limit:
        return {}
    merged: dict[str, _Counter] = {}
    for (spec_id, partition), counter in by_partition.items():
        path = _path(metadata, spec_of(metadata, spec_id), partition)
        if path in merged:
            for key, value in counter.values.items():
                merged[path].values[key] += value
        else:
            merged[path] = _Counter(dict(counter.values))
    lines = {
        f"partitions.{path}": ",".join(f"{key}={value}" for key, value in counter.positive().items())
        for path, counter in merged.items()
        if path
    }
    return {"partition-summaries-included": "true", **lines}


def _path(metadata: TableMetadata, spec: PartitionSpec, partition: Partition) -> str:
    return spec.partition_to_path(partition, find_compatible_schema(metadata, spec))  # type: ignore[arg-type]
