"""The ledger: a snapshot's live data and delete files as Arrow tables, one per partition spec.

Manifests are decoded column by column and in parallel, only the columns that are asked for; there is
no Python object per file. No Spark and no JVM here, and nothing is written to a table.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from lakeshift.errors import ConfigError
from lakeshift.iceberg.avro_files import decoding_context, is_local, local_avro
from lakeshift.iceberg.manifest_columns import ManifestColumns, check_columns, read_first_row_ids
from lakeshift.iceberg.partition_types import schemas_newest_first, spec_of

# Object stores answer slowly but to many at once; decoding itself uses no more than the cores there are.
_REMOTE_READERS = 16
_STAGING_PREFIX = "lakeshift-manifests-"


@dataclass(frozen=True)
class Ledger:
    """The live files of one snapshot.

    ``snapshot`` is None, and both mappings are empty, for a table or branch without a snapshot. A spec
    without live files of a kind is absent from that mapping.
    """

    metadata: TableMetadata
    snapshot: Snapshot | None
    data: Mapping[int, pa.Table]
    deletes: Mapping[int, pa.Table]


def read_ledger(
    metadata: TableMetadata,
    io: FileIO,
    snapshot_id: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    manifest_filter: Callable[[ManifestFile], bool] | None = None,
) -> Ledger:
    """Read the live files of a snapshot, by default the current one of the main branch.

    ``columns`` names what to decode (default: everything); ``manifest_filter`` says which manifests to
    read at all.
    """
    wanted = check_columns(columns)
    snapshot = _snapshot(metadata, snapshot_id)
    if snapshot is None:
        return Ledger(metadata, None, {}, {})
    manifests = [
        manifest
        for manifest in snapshot.manifests(io)
        if (manifest.has_added_files() or manifest.has_existing_files())
        and (manifest_filter is None or manifest_filter(manifest))
    ]
    row_ids = _first_row_ids(snapshot, metadata, io) if "first_row_id" in wanted else {}
    decoded = _decode(manifests, metadata, io, wanted, live_only=True, first_row_ids=row_ids)
    tables = {
        content: _by_spec(*zip(*chosen, strict=True)) if chosen else {}
        for content in ManifestContent
        for chosen in [[pair for pair in zip(manifests, decoded, strict=True) if pair[0].content == content]]
    }
    return Ledger(metadata, snapshot, data=tables[ManifestContent.DATA], deletes=tables[ManifestContent.DELETES])


def read_entries(
    manifests: Sequence[ManifestFile], metadata: TableMetadata, io: FileIO, columns: Sequence[str] | None = None
) -> dict[int, pa.Table]:
    """Every entry of these manifests by spec id, those of deleted files included.

    Sequence numbers and snapshot ids are filled in as inherited. ``first_row_id`` is as it is stored: what
    it inherits stands in the manifest list, which this function does not see.
    """
    wanted = check_columns(columns)
    return _by_spec(manifests, _decode(manifests, metadata, io, wanted, live_only=False, first_row_ids={}))


def _snapshot(metadata: TableMetadata, snapshot_id: int | None) -> Snapshot | None:
    if snapshot_id is None:
        return metadata.current_snapshot()
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise ConfigError(
            f"The table at {metadata.location} has no snapshot {snapshot_id}; it may have been expired. "
            "Refresh the table and name one of its snapshots."
        )
    return snapshot


def _decode(
    manifests: Sequence[ManifestFile],
    metadata: TableMetadata,
    io: FileIO,
    columns: tuple[str, ...],
    *,
    live_only: bool,
    first_row_ids: Mapping[str, int],
) -> list[list[pa.RecordBatch]]:
    if not manifests:
        return []
    schemas = schemas_newest_first(metadata)
    paths = pa.DictionaryArray.from_arrays(
        pa.array(range(len(manifests)), pa.int32()), pa.array([m.manifest_path for m in manifests], pa.string())
    )
    readers = [
        ManifestColumns(
            manifest=manifest,
            spec=spec_of(metadata, manifest.partition_spec_id),
            schemas=schemas,
            columns=columns,
            live_only=live_only,
            manifest_path=paths[index],
            first_row_id=first_row_ids.get(manifest.manifest_path),
        )
        for index, manifest in enumerate(manifests)
    ]
    context = decoding_context()
    cores = os.cpu_count() or 1
    all_local = all(is_local(manifest.manifest_path) for manifest in manifests)
    workers = min(len(manifests), cores if all_local else max(cores, _REMOTE_READERS))
    with (
        tempfile.TemporaryDirectory(prefix=_STAGING_PREFIX) as staging,
        ThreadPoolExecutor(workers, thread_name_prefix="lakeshift-manifest") as pool,
    ):
        return list(pool.map(lambda reader: _read_one(reader, context, io, Path(staging)), readers))


def _read_one(reader: ManifestColumns, context: SessionContext, io: FileIO, staging: Path) -> list[pa.RecordBatch]:
    copy = staging / f"{reader.manifest_path.index.as_py()}.avro"
    with local_avro(reader.manifest.manifest_path, io, copy, reader.manifest.manifest_length) as avro:
        return reader.read(context, avro)


def _first_row_ids(snapshot: Snapshot, metadata: TableMetadata, io: FileIO) -> dict[str, int]:
    """Where each manifest's row ids begin, by manifest path; PyIceberg's ManifestFile does not carry it."""
    if metadata.format_version < 3:
        return {}
    with (
        tempfile.TemporaryDirectory(prefix=_STAGING_PREFIX) as staging,
        local_avro(snapshot.manifest_list, io, Path(staging, "list.avro")) as avro,
    ):
        return read_first_row_ids(decoding_context(), avro)


def _by_spec(manifests: Iterable[ManifestFile], decoded: Iterable[list[pa.RecordBatch]]) -> dict[int, pa.Table]:
    batches: dict[int, list[pa.RecordBatch]] = {}
    for manifest, rows in zip(manifests, decoded, strict=True):
        batches.setdefault(manifest.partition_spec_id, []).extend(rows)
    return {spec_id: pa.Table.from_batches(batches[spec_id]) for spec_id in sorted(batches) if batches[spec_id]}
