"""Which files a read has to open: a snapshot's live files that can match, each with the deletes that apply to it.

Everything comes from the ledger; no data file is opened and no Spark is known. Readers and rewriters share this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from lakeshift.errors import ConfigError
from lakeshift.iceberg.deletes import DATA_COLUMNS, DELETE_COLUMNS, AppliedDeletes, match_deletes
from lakeshift.iceberg.file_filter import FILTER_COLUMNS, files_that_can_match
from lakeshift.iceberg.kernels.applied_deletes import DeleteFile
from lakeshift.iceberg.kernels.read import FileToRead
from lakeshift.iceberg.ledger import Ledger, read_entries, read_ledger
from lakeshift.iceberg.table_properties import whole_number

# The ledger columns of which files to read are made.
FILE_COLUMNS = (*DATA_COLUMNS, "file_format", "file_size_in_bytes", "record_count", "split_offsets")
DELETE_FILE_COLUMNS = (
    *DELETE_COLUMNS,
    "file_size_in_bytes",
    "equality_ids",
    "content_offset",
    "content_size_in_bytes",
)

# Names and defaults as Iceberg has them.
SPLIT_SIZE = ("read.split.target-size", 128 * 1024 * 1024)
OPEN_FILE_COST = ("read.split.open-file-cost", 4 * 1024 * 1024)


@dataclass(frozen=True)
class Scan:
    """The files of one read, and how many there were before the filter.

    ``split_offsets`` says where the row groups of a file begin, by its path, as far as manifests do.
    """

    files: tuple[FileToRead, ...]
    live_files: int
    split_offsets: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, ledger: Ledger, live_files: int) -> Scan:
        offsets = {
            path: places
            for table in ledger.data.values()
            for path, places in zip(
                table.column("file_path").to_pylist(), table.column("split_offsets").to_pylist(), strict=True
            )
            if places
        }
        return cls(tuple(files_to_read(ledger, match_deletes(ledger))), live_files, offsets)


def snapshot_of(metadata: TableMetadata, snapshot_id: int | None) -> Snapshot | None:
    """The snapshot of an id, or the current one; a ConfigError lists the ones there are."""
    if snapshot_id is None:
        return metadata.current_snapshot()
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        there = ", ".join(str(known.snapshot_id) for known in metadata.snapshots) or "none"
        raise ConfigError(f"The table at {metadata.location} has no snapshot {snapshot_id}; it has: {there}.")
    return snapshot


def schema_of(metadata: TableMetadata, snapshot_id: int | None) -> Schema:
    """The schema to read with: the current one, or for a snapshot that was asked for, the one it was written with."""
    snapshot = snapshot_of(metadata, snapshot_id)
    if snapshot_id is None or snapshot is None or snapshot.schema_id is None:
        return metadata.schema()
    return next(
        (schema for schema in metadata.schemas if schema.schema_id == snapshot.schema_id),
        metadata.schema(),
    )


def plan_snapshot(
    metadata: TableMetadata, io: FileIO, snapshot_id: int | None, where: BooleanExpression, schema: Schema
) -> Scan:
    """The files of a snapshot that can hold rows for which ``where``, on columns of ``schema``, is true."""
    snapshot_of(metadata, snapshot_id)
    filtering = () if where == AlwaysTrue() else FILTER_COLUMNS
    data = read_ledger(
        metadata,
        io,
        snapshot_id,
        columns=(*FILE_COLUMNS, *filtering),
        manifest_filter=lambda manifest: manifest.content == ManifestContent.DATA,
    )
    deletes = read_ledger(
        metadata,
        io,
        snapshot_id,
        columns=DELETE_FILE_COLUMNS,
        manifest_filter=lambda manifest: manifest.content == ManifestContent.DELETES,
    )
    kept = _matching(data.data, where, metadata, schema)
    ledger = Ledger(metadata, data.snapshot, kept, deletes.deletes)
    return Scan.of(ledger, sum(map(len, data.data.values())))


def plan_appends(
    metadata: TableMetadata,
    io: FileIO,
    from_snapshot_id: int,
    snapshot_id: int | None,
    where: BooleanExpression,
    schema: Schema,
) -> Scan:
    """The files that were appended after one snapshot and up to another, the current one by default.

    Only appends can be told apart from changes to rows that were there: a snapshot between that overwrites or
    deletes is a ConfigError. Rewrites change no rows and are passed over.
    """
    appended: dict[int, list[pa.Table]] = {}
    columns = (*FILE_COLUMNS, *FILTER_COLUMNS, "status", "snapshot_id")
    for snapshot in _appends_between(metadata, from_snapshot_id, snapshot_id):
        manifests = [
            manifest
            for manifest in snapshot.manifests(io)
            if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id
        ]
        for spec_id, entries in read_entries(manifests, metadata, io, columns).items():
            new = pc.and_(
                pc.equal(entries.column("status"), ManifestEntryStatus.ADDED.value),
                pc.equal(entries.column("snapshot_id"), snapshot.snapshot_id),
            )
            appended.setdefault(spec_id, []).append(entries.filter(new))
    data = {spec_id: pa.concat_tables(tables) for spec_id, tables in sorted(appended.items())}
    ledger = Ledger(metadata, None, _matching(data, where, metadata, schema), {})
    return Scan.of(ledger, sum(map(len, data.values())))


def _appends_between(metadata: TableMetadata, after: int, until: int | None) -> list[Snapshot]:
    snapshot_of(metadata, after)
    snapshot = snapshot_of(metadata, until)
    between: list[Snapshot] = []
    ancestors: list[int] = []
    while snapshot is not None and snapshot.snapshot_id != after:
        between.append(snapshot)
        ancestors.append(snapshot.snapshot_id)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)
    if snapshot is None:
        raise ConfigError(
            f"Snapshot {after} is not an ancestor of snapshot {until or metadata.current_snapshot_id} of the table at "
            f"{metadata.location}; its ancestors are: {', '.join(map(str, ancestors[1:])) or 'none'}."
        )
    appends = []
    for snapshot in reversed(between):
        operation = snapshot.summary.operation if snapshot.summary else None
        if operation == Operation.APPEND:
            appends.append(snapshot)
        elif operation != Operation.REPLACE:
            said = operation.value if operation else "of an unknown kind"
            raise ConfigError(
                f"Snapshot {snapshot.snapshot_id}, after {after}, is {said}: only appended rows can be read "
                "incrementally. Read the snapshots before and after it whole, or begin after it."
            )
    return appends


def _matching(
    data: Mapping[int, pa.Table], where: BooleanExpression, metadata: TableMetadata, schema: Schema
) -> dict[int, pa.Table]:
    if where == AlwaysTrue():
        return dict(data)
    found = {
        spec_id: files.filter(files_that_can_match(where, spec_id, files, metadata, schema=schema))
        for spec_id, files in data.items()
    }
    return {spec_id: files for spec_id, files in found.items() if files.num_rows}


def files_to_read(
    ledger: Ledger, applied: Mapping[int, AppliedDeletes], rows: Mapping[int, pa.Array] | None = None
) -> Iterator[FileToRead]:
    """Data files of a ledger with the deletes that apply to them, in the ledger's order.

    The ledger has `FILE_COLUMNS` of data and `DELETE_FILE_COLUMNS` of delete files. ``rows`` says which of them, as
    positions in each spec's table; by default all.
    """
    deletes = {spec_id: list(delete_files(table)) for spec_id, table in ledger.deletes.items()}
    for spec_id, table in ledger.data.items():
        by_row: dict[int, list[DeleteFile]] = {}
        pairs = applied[spec_id].pairs()
        for data_row, delete_spec, delete_row in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
            by_row.setdefault(data_row, []).append(deletes[delete_spec][delete_row])
        chosen = range(table.num_rows) if rows is None else rows[spec_id].to_pylist() if spec_id in rows else []
        columns = [
            table.column(name).to_pylist()
            for name in ("file_path", "file_format", "file_size_in_bytes", "partition", "record_count")
        ]
        for row in chosen:
            path, file_format, length, partition, count = (column[row] for column in columns)
            yield FileToRead(
                path=path,
                file_format=file_format,
                length=length,
                spec_id=spec_id,
                partition=tuple(partition.values()),
                record_count=count,
                deletes=tuple(by_row.get(row, ())),
            )


def delete_files(table: pa.Table) -> Iterator[DeleteFile]:
    """Delete files of a ledger, in its order; it has `DELETE_FILE_COLUMNS`."""
    names = ["file_path", "file_format", "content", "file_size_in_bytes"]
    names += ["equality_ids", "content_offset", "content_size_in_bytes"]
    columns = (table.column(name).to_pylist() for name in names)
    for path, file_format, content, length, ids, offset, size in zip(*columns, strict=True):
        yield DeleteFile(path, file_format, content, length, tuple(ids or ()), offset, size)


def into_tasks(
    files: Iterable[FileToRead], properties: Mapping[str, str], split_offsets: Mapping[str, Sequence[int]]
) -> list[tuple[FileToRead, ...]]:
    """Files in groups of about ``read.split.target-size``; large ones are cut where their row groups begin.

    ``split_offsets`` has those places by path. A file counts at least ``read.split.open-file-cost``, and so does
    each delete file that goes with it.
    """
    target, cost = whole_number(properties, *SPLIT_SIZE), whole_number(properties, *OPEN_FILE_COST)
    tasks: list[tuple[FileToRead, ...]] = []
    group: list[FileToRead] = []
    filled = 0
    for file in files:
        for part, size in _stretches(file, split_offsets.get(file.path, ()), target):
            weight = max(size, cost) + sum(max(delete.content_size or delete.length, cost) for delete in file.deletes)
            if group and filled + weight > target:
                tasks.append(tuple(group))
                group, filled = [], 0
            group.append(part)
            filled += weight
    return [*tasks, tuple(group)] if group else tasks


def _stretches(file: FileToRead, offsets: Sequence[int], target: int) -> Iterator[tuple[FileToRead, int]]:
    """A file in stretches of at most the target, as far as its row groups allow."""
    if file.length <= target or len(offsets) < 2 or list(offsets) != sorted(set(offsets)):
        yield file, file.length
        return
    # The first stretch begins before everything and the last ends after it, whatever the offsets say.
    begin, first = 0, offsets[0]
    for here, following in zip(offsets[1:], [*offsets[2:], file.length], strict=True):
        if following - first > target:
            yield replace(file, stretch=(begin, here)), here - first
            begin = first = here
    yield replace(file, stretch=(begin, max(file.length, begin + 1))), file.length - first
