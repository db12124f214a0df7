"""Finding the Delta table that an input names. Reads its log, and no rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakeshift.errors import ConfigError
from lakeshift.pipeline.paths import resolve
from lakeshift.pipeline.reads import DeltaRead

if TYPE_CHECKING:
    from lakeshift.delta.log import DeltaLog
    from lakeshift.delta.policy import TableState
    from lakeshift.lake import Lake


def delta_table(lake: Lake, base: Path, read: DeltaRead) -> tuple[str, DeltaLog, TableState]:
    """Where a Delta table lies, and its log and state; a ConfigError if there is none."""
    from lakeshift.delta.log import DeltaLog
    from lakeshift.delta.target import Target

    location = resolve(base, read.path) if read.path is not None else Target(lake.spark, read.place).location()
    log = DeltaLog(lake.spark, location) if location is not None else None
    state = log.refresh() if log is not None else None
    if location is None or log is None or state is None:
        raise ConfigError(f"there is no Delta table at {location or read.place}. Check the path.")
    return location, log, state
