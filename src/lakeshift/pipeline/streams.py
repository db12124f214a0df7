"""Inputs of which a run takes only what arrived since the last one that finished.

Spark's available-now trigger keeps such positions in a checkpoint of two logs: what a batch will read, written before
it, and that it is done, written after it. A pipeline has both already, in its records: ``run-started`` holds the pins
of a run's inputs, and ``run-finished`` ends it. So a run is one batch, its number is the batch's, and a run that was
killed is resumed with the same rows under the same number, by which every table knows what it has. A plan asks the
same code, and moves nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation

from lakeshift.errors import ConfigError, InvalidStateError
from lakeshift.locations import canonical_location
from lakeshift.pipeline.delta_tables import delta_table
from lakeshift.pipeline.files import list_files, read_files
from lakeshift.pipeline.reads import DeltaRead, FileRead, IcebergRead, StreamableRead
from lakeshift.pipeline.state import RunRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeshift.lake import Lake

# In a pin: that it is of a stream, and how many files or commits were new.
STREAM = "stream"
ARRIVED = "arrived"
# What tells of which kind a stream was. Not its format as text: that may be a variable's value, which is not kept.
_KINDS = {"seen": "files", "after_snapshot_id": "an Iceberg table", "after_version": "a Delta table"}

_BEGIN_ELSEWHERE = (
    "Give the input another name, by which it begins anew: with all rows, or with start: latest after what is there "
    "now. Or read it without streaming."
)


@dataclass(frozen=True)
class StreamPosition:
    """How far finished runs have read a stream: the files they took, or up to which commit of a table."""

    run: int
    last: Mapping[str, Any]
    seen: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def kind(self) -> str:
        return _kind(self.last)


def positions(runs: Iterable[RunRecord]) -> dict[str, StreamPosition]:
    """How far a pipeline has read its streams, by input.

    Only runs that finished count. What a run took that was given up is taken again by the next one: some of its
    tables may not have it.
    """
    found: dict[str, StreamPosition] = {}
    seen: dict[str, set[str]] = {}
    for run in runs:
        if run.status != "finished":
            continue
        for name, pin in run.pins.items():
            if STREAM in pin:
                seen.setdefault(name, set()).update(pin.get("seen", ()))
                found[name] = StreamPosition(run.number, pin)
    return {name: StreamPosition(at.run, at.last, frozenset(seen[name])) for name, at in found.items()}


def open_stream(
    lake: Lake, base: Path, read: StreamableRead, position: StreamPosition | None, pinned: Mapping[str, Any] | None
) -> tuple[DataFrame, dict[str, Any]]:
    """What arrived after a position, or what ``pinned`` says that the run took; and the pin."""
    kinds = {"iceberg": _KINDS["after_snapshot_id"], "delta": _KINDS["after_version"]}
    kind = kinds.get(read.format, _KINDS["seen"])
    if pinned is not None and _kind(pinned) != kind:
        raise InvalidStateError(
            f"this was a stream of {_kind(pinned)} when the run began, and is one of {kind} now. Restore the input's "
            "definition, or begin a new run."
        )
    if position is not None and position.kind != kind:
        raise InvalidStateError(
            f"this was a stream of {position.kind} up to run {position.run}, and is one of {kind} now. Give the input "
            "another name, by which it begins anew."
        )
    match read:
        case FileRead():
            frame, facts = _files(lake, base, read, position, pinned)
        case IcebergRead():
            frame, facts = _iceberg(lake, read, position, pinned)
        case DeltaRead():
            frame, facts = _delta(lake, base, read, position, pinned)
    return frame, {STREAM: True, **facts}


def fingerprint(file: str) -> str:
    """A file's path as the records of streams have it.

    Not the path itself: in that, values of variables are replaced by their names, so that a variable that is set to
    another folder would make the files there look like those of the first one.
    """
    return hashlib.sha256(canonical_location(file).encode()).hexdigest()[:16]


def new_files(there: Iterable[str], position: StreamPosition | None, *, latest: bool) -> tuple[list[str], list[str]]:
    """The files to read, and the fingerprints of those that are read or passed over from now on."""
    known = position.seen if position is not None else frozenset()
    unseen = {file: mark for file in sorted(there) if (mark := fingerprint(file)) not in known}
    return ([] if latest and position is None else list(unseen)), list(unseen.values())


def _files(
    lake: Lake, base: Path, read: FileRead, position: StreamPosition | None, pinned: Mapping[str, Any] | None
) -> tuple[DataFrame, dict[str, Any]]:
    if pinned is not None:
        files, seen = list(pinned["files"]), list(pinned["seen"])
    else:
        files, seen = new_files(list_files(lake.spark, base, read), position, latest=read.start == "latest")
    return read_files(lake.spark, base, read, files), {"files": files, "seen": seen, ARRIVED: len(files)}


def _iceberg(
    lake: Lake, read: IcebergRead, position: StreamPosition | None, pinned: Mapping[str, Any] | None
) -> tuple[DataFrame, dict[str, Any]]:
    from lakeshift.iceberg.read import read_table

    table = lake.iceberg(read.table).table
    metadata = table.metadata
    _check_same_table(str(metadata.table_uuid), position)
    head = metadata.current_snapshot_id
    if pinned is not None:
        after, until, arrived = pinned["after_snapshot_id"], pinned["snapshot_id"], pinned[ARRIVED]
    else:
        after, until = position.last["snapshot_id"] if position is not None else None, head
        arrived = commits_to_read(metadata, after) if position is not None or read.start == "all" else 0
    # The head is read as the head, with the table's newest columns; anything else with the columns it had.
    as_of = None if until == head else until
    facts = {
        "table": str(metadata.table_uuid),
        "after_snapshot_id": after,
        "snapshot_id": until,
        ARRIVED: arrived,
    }
    if not arrived:
        return read_table(lake.spark, table, read.columns, read.where, as_of).limit(0), facts
    try:
        return read_table(lake.spark, table, read.columns, read.where, as_of, after), facts
    except ConfigError as error:
        if after is None:
            raise
        raise ConfigError(f"{error} {_BEGIN_ELSEWHERE}") from error


def commits_to_read(metadata: TableMetadata, after: int | None) -> int:
    """How many commits since a snapshot brought or changed rows; a rewrite does neither. 1 for a whole table."""
    if after is None:
        return 0 if metadata.current_snapshot_id is None else 1
    count, snapshot = 0, metadata.current_snapshot()
    while snapshot is not None and snapshot.snapshot_id != after:
        count += snapshot.summary is None or snapshot.summary.operation != Operation.REPLACE
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)
    # Where the position is no ancestor any more, reading says so.
    return count if snapshot is not None else max(count, 1)


def _delta(
    lake: Lake, base: Path, read: DeltaRead, position: StreamPosition | None, pinned: Mapping[str, Any] | None
) -> tuple[DataFrame, dict[str, Any]]:
    spark = lake.spark
    location, log, state = delta_table(lake, base, read)
    _check_same_table(state.table_id, position)
    if pinned is not None:
        after, until = pinned["after_version"], pinned["version"]
    else:
        after, until = position.last["version"] if position is not None else None, state.version
    whole = spark.read.format("delta").option("versionAsOf", until).load(location)
    facts = {"table": state.table_id, "after_version": after, "version": until}
    if after is None:
        arrived = 0 if pinned is None and read.start == "latest" else 1
        arrived = arrived if pinned is None else pinned[ARRIVED]
        return (whole if arrived else whole.limit(0)), facts | {ARRIVED: arrived}
    if until < after:
        raise InvalidStateError(
            f"the Delta table is at version {until}, before {after}, which run {position and position.run} has read. "
            f"{_BEGIN_ELSEWHERE}"
        )
    added: list[str] = []
    arrived = 0
    for version in range(after + 1, until + 1):
        commit = log.file_changes(version)
        if commit is None:
            raise InvalidStateError(
                f"the commit of version {version} is no longer in the log of the Delta table at {location}. "
                f"{_BEGIN_ELSEWHERE}"
            )
        if commit.changes_rows:
            raise ConfigError(
                f"version {version} of the Delta table at {location} ({commit.operation}) took rows away or changed "
                f"them, and only appends can be read as a stream. {_BEGIN_ELSEWHERE}"
            )
        added += commit.added
        arrived += bool(commit.added)
    frame = log.rows_of(added).select(whole.columns) if added else whole.limit(0)
    return frame, facts | {ARRIVED: arrived}


def _kind(pin: Mapping[str, Any]) -> str:
    return next(kind for name, kind in _KINDS.items() if name in pin)


def _check_same_table(table_id: str, position: StreamPosition | None) -> None:
    if position is not None and position.last["table"] != table_id:
        raise InvalidStateError(
            f"this is another table than the one that run {position.run} has read (its id is {table_id}, and was "
            f"{position.last['table']}). {_BEGIN_ELSEWHERE}"
        )
