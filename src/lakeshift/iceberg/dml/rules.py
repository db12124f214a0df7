"""How a table wants an operation done: its ``write.<operation>.*`` properties, under Java's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import IsolationLevel

from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.commit.target import check_target
from lakeshift.iceberg.kernels.position_deletes import GRANULARITIES
from lakeshift.iceberg.table_properties import one_of

GRANULARITY = "write.delete.granularity"


class Operation(StrEnum):
    """The operations that change rows, as table properties name them."""

    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"


class Mode(StrEnum):
    """Whether deleted rows are marked in delete files, or left out of files that are written anew."""

    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"


@dataclass(frozen=True)
class Rules:
    """What holds for one operation on one table."""

    operation: Operation
    mode: Mode
    isolation: IsolationLevel
    granularity: str
    branch: str

    @classmethod
    def of(
        cls,
        metadata: TableMetadata,
        operation: Operation,
        mode: str | None,
        branch: str | None,
        snapshot_properties: Mapping[str, str],
    ) -> Rules:
        """The rules, once nothing stands against writing at all. ``mode`` overrides the table's property."""
        check_target(metadata, branch, snapshot_properties)
        properties = metadata.properties
        isolation = one_of(
            properties, f"write.{operation}.isolation-level", "serializable", ("serializable", "snapshot")
        )
        return cls(
            operation,
            _mode(metadata, operation, mode),
            IsolationLevel(isolation),
            one_of(properties, GRANULARITY, "file", GRANULARITIES),
            branch or MAIN_BRANCH,
        )


def _mode(metadata: TableMetadata, operation: Operation, asked: str | None) -> Mode:
    choices = tuple(mode.value for mode in Mode)
    if asked is not None and asked not in choices:
        raise ConfigError(f"mode is {asked!r}; it must be one of {', '.join(choices)}, or None for the table's own.")
    if metadata.format_version == 1:
        if asked == Mode.MERGE_ON_READ:
            raise UnsupportedTableError(
                f"mode={asked!r} was asked for, but the table at {metadata.location} has format version 1, which has "
                "no delete files. Leave the mode out, or upgrade the table with the property format-version=2."
            )
        return Mode.COPY_ON_WRITE
    return Mode(asked or one_of(metadata.properties, f"write.{operation}.mode", Mode.COPY_ON_WRITE, choices))
