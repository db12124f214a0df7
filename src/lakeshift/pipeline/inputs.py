"""The inputs of a run as Spark frames, each with a pin: what a run that is resumed must read to see the same rows.

An Iceberg input is pinned by its snapshot, a Delta one by its version, a Hudi one by its last commit, files by their
names; streams have their own room. Without this, a run that was killed after its first write would go on with other
rows than it began with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeshift.errors import ConfigError, InvalidStateError, LakeshiftError
from lakeshift.pipeline.delta_tables import delta_table
from lakeshift.pipeline.files import open_files, read_files
from lakeshift.pipeline.paths import resolve
from lakeshift.pipeline.reads import DeltaRead, FileRead, HudiRead, IcebergRead, Read
from lakeshift.pipeline.streams import STREAM, StreamPosition, open_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeshift.lake import Lake


@dataclass(frozen=True)
class Input:
    """An input that was opened: its rows, and its pin."""

    frame: DataFrame
    pin: Mapping[str, Any]


def open_input(
    lake: Lake,
    base: Path,
    name: str,
    read: Read,
    pinned: Mapping[str, Any] | None,
    position: StreamPosition | None = None,
) -> Input:
    """Open an input as it is now, or as ``pinned`` says it was when the run began; of a stream what is new."""
    key = _key(read)
    is_stream = not isinstance(read, HudiRead) and read.streaming
    if pinned is not None and (STREAM in pinned) != is_stream:
        raise InvalidStateError(
            f"read.{name} was {'no' if is_stream else 'a'} stream when the run began, and steps that are done have "
            "read it so. Restore the input's definition, or begin a new run."
        )
    as_it_was = pinned is not None and pinned["of"] == key
    if not as_it_was and not is_stream:
        pinned = None  # The file says something else now; what was pinned is not what is meant.
    # A stream is read as the file says now, but takes what the run has taken: its position counts by that.
    try:
        match read:
            case IcebergRead() | DeltaRead() | FileRead() if read.streaming:
                frame, facts = open_stream(lake, base, read, position, pinned)
            case IcebergRead():
                frame, facts = _iceberg(lake, read, pinned)
            case DeltaRead():
                frame, facts = _delta(lake, base, read, pinned)
            case HudiRead():
                frame, facts = _hudi(lake, base, read, pinned)
            case FileRead():
                frame, facts = _files(lake, base, read, pinned)
    except LakeshiftError as error:
        error.args = (f"read.{name}: {error}", *error.args[1:])
        raise
    except Exception as error:  # of PySpark, under another name in each version
        what = str(error).strip().splitlines()[0]
        hint = _what_is_there(base, read.paths) if isinstance(read, FileRead) else ""
        raise ConfigError(f"read.{name} cannot be read as {read.format}: {what}{hint}") from error
    columns = frame.schema.simpleString()
    if pinned is not None and as_it_was and pinned["columns"] != columns:
        raise InvalidStateError(
            f"read.{name} no longer has the columns that it had when the run began: it has {columns}, and had "
            f"{pinned['columns']}. Restore the input, or begin a new run."
        )
    return Input(frame, {"of": key, **facts, "columns": columns})


def _key(read: Read) -> str:
    """What the file says about an input, as a short text that tells changes and no secrets."""
    return hashlib.sha256(read.model_dump_json().encode()).hexdigest()[:16]


def _what_is_there(base: Path, paths: list[str], most: int = 8) -> str:
    """For a local path that leads nowhere: how far it leads, and to what; else nothing."""
    for place in paths:
        path = Path(resolve(base, place))
        if ":/" in place or path.exists() or any(sign in place for sign in "*?[{"):
            continue
        there = next(parent for parent in path.parents if parent.is_dir())
        try:
            names = sorted(entry.name for entry in there.iterdir() if not entry.name.startswith("."))
        except OSError:
            return ""
        more = f" and {len(names) - most} more" if len(names) > most else ""
        what = f"has {', '.join(names[:most])}{more}" if names else "is empty"
        return f" Paths are relative to the pipeline file; the folder {there} {what}."
    return ""


def _iceberg(lake: Lake, read: IcebergRead, pinned: Mapping[str, Any] | None) -> tuple[DataFrame, dict[str, Any]]:
    from lakeshift.iceberg.read import read_table

    table = lake.iceberg(read.table).table
    head = table.metadata.current_snapshot_id
    wanted = read.snapshot_id if read.snapshot_id is not None else head
    if pinned is not None:
        wanted = pinned["snapshot_id"]
    # The head is read as the head, with the table's newest columns; anything else with the columns it had.
    frame = read_table(lake.spark, table, read.columns, read.where, None if wanted == head else wanted)
    if wanted is None and head is not None:
        frame = frame.limit(0)  # The table was empty when the run began.
    return frame, {"snapshot_id": wanted}


def _delta(
    lake: Lake, base: Path, read: DeltaRead, pinned: Mapping[str, Any] | None
) -> tuple[DataFrame, dict[str, Any]]:
    location, _, state = delta_table(lake, base, read)
    version = read.version if read.version is not None else state.version
    if pinned is not None:
        version = pinned["version"]
    return lake.spark.read.format("delta").option("versionAsOf", version).load(location), {"version": version}


def _hudi(lake: Lake, base: Path, read: HudiRead, pinned: Mapping[str, Any] | None) -> tuple[DataFrame, dict[str, Any]]:
    from lakeshift.hudi.timeline import HudiTimeline

    table = lake.hudi(resolve(base, read.path) if read.path is not None else read.place)
    last = HudiTimeline(lake.spark, table.path).last()
    facts: dict[str, Any] = {"instant": last and last.requested, "completion": last and last.completed}
    options: dict[str, Any] = {"dsv2": read.dsv2, "options": read.options, "read_optimized": read.read_optimized}
    if read.as_of is not None:
        options["as_of"] = read.as_of
    elif read.incremental is not None:
        end = read.incremental.to or (facts if pinned is None else pinned)["completion"]
        options |= {"incremental_from": read.incremental.from_, "incremental_to": end}
    elif pinned is not None and pinned["instant"] != facts["instant"]:
        if read.read_optimized:
            raise InvalidStateError(
                "the Hudi table has new commits since the run began, and a read-optimized query cannot go back before "
                "them. Begin a new run."
            )
        options["as_of"] = pinned["instant"]
    return table.read(**options), dict(pinned) if pinned is not None else facts


def _files(
    lake: Lake, base: Path, read: FileRead, pinned: Mapping[str, Any] | None
) -> tuple[DataFrame, dict[str, Any]]:
    if pinned is None:
        frame, files = open_files(lake.spark, base, read)
        return frame, {"files": files}
    return read_files(lake.spark, base, read, pinned["files"]), {"files": list(pinned["files"])}
