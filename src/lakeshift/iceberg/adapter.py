"""The one place that touches what PyIceberg keeps to itself.

Everything else of lakeshift uses PyIceberg's public names. What is private may change with any release,
so the range of versions is checked when this module is imported; a new release means reading this file
again, and nothing else. No Spark here.
"""

from __future__ import annotations

import copy
import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib.metadata import version
from typing import Any

import pyarrow as pa
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
    WaitingForLockException,
)
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    ManifestFile,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.types import IntegerType, ListType, NestedField, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from lakeshift.errors import StackError

SUPPORTED = ((0, 12), (0, 13))
UNASSIGNED_SEQUENCE_NUMBER = -1

__all__ = ["BinaryDecoder", "new_decoder"]


def check_version(installed: str) -> None:
    """Raise a StackError unless this PyIceberg is one whose inner parts we know."""
    found = re.match(r"(\d+)\.(\d+)", installed)
    if found is None or not SUPPORTED[0] <= (int(found[1]), int(found[2])) < SUPPORTED[1]:
        low, high = (".".join(str(part) for part in bound) for bound in SUPPORTED)
        raise StackError(
            f"PyIceberg {installed} is installed, but lakeshift works with pyiceberg>={low},<{high}. "
            f"Run: pip install 'pyiceberg>={low},<{high}'"
        )


check_version(version("pyiceberg"))


def schema_of_arrow(schema: pa.Schema) -> Schema:
    """An Arrow schema as an Iceberg schema without field ids; a TypeError names a column that has no type there."""
    from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

    try:
        return Catalog._convert_schema_if_needed(schema)
    except UnsupportedPyArrowTypeException as error:
        raise TypeError(str(error)) from error


# What a manifest stores of a file.

_CONTENT, _PARTITION, _EQUALITY_IDS, _SORT_ORDER, _REFERENCED = 134, 102, 135, 140, 143
_FILE_FIELD_IDS = tuple(item.field_id for item in DATA_FILE_TYPE[2].fields)
_V3_FIELD_IDS = tuple(item.field_id for item in DATA_FILE_TYPE[3].fields)


def entry_schema(format_version: int, partition: StructType) -> Schema:
    """The schema of a manifest entry, for data and delete manifests alike.

    Two fields differ from PyIceberg's: ``equality_ids`` are ints, as the Iceberg spec says, and v2 also has
    ``referenced_data_file``, which Java writes and which would otherwise be lost when a manifest is rewritten.
    """
    fields = []
    for item in DATA_FILE_TYPE[format_version].fields:
        if item.field_id == _PARTITION:
            fields.append(NestedField(_PARTITION, item.name, partition, required=True, doc=item.doc))
        elif item.field_id == _EQUALITY_IDS:
            ids = ListType(136, IntegerType(), element_required=True)
            fields.append(NestedField(_EQUALITY_IDS, item.name, ids, required=False, doc=item.doc))
        else:
            fields.append(item)
    if format_version == 2:
        fields.append(next(item for item in DATA_FILE_TYPE[3].fields if item.field_id == _REFERENCED))
    return Schema(
        *(
            NestedField(2, "data_file", StructType(*fields), required=True) if item.field_id == 2 else item
            for item in MANIFEST_ENTRY_SCHEMAS[format_version].fields
        )
    )


def avro_schema_of(schema: Schema) -> dict[str, Any]:
    """The Avro schema under which manifest entries of this schema are written."""
    converted: Any = AvroSchemaConversion().iceberg_to_avro(schema, schema_name="manifest_entry")
    # Enums and defaults come out as Python objects; the header holds plain JSON.
    plain: dict[str, Any] = json.loads(json.dumps(converted, default=lambda value: value.value))
    _name_apart(plain, set())
    return plain


def _name_apart(avro_type: Any, taken: set[str]) -> None:
    """Give every named type a name of its own: two decimals of one size would otherwise both define it,
    which Java's parser rejects."""
    if isinstance(avro_type, list):
        for branch in avro_type:
            _name_apart(branch, taken)
    elif isinstance(avro_type, dict):
        if avro_type.get("type") in ("fixed", "record", "enum"):
            name, number = avro_type["name"], 1
            while avro_type["name"] in taken:
                number += 1
                avro_type["name"] = f"{name}_{number}"
            taken.add(avro_type["name"])
        for item in avro_type.get("fields", ()):
            _name_apart(item["type"], taken)
        _name_apart(avro_type.get("items"), taken)


def file_values(file: DataFile) -> dict[int, Any]:
    """What a file says of itself, by field id; the partition is the record as it is."""
    values: list[Any] = file._data
    ids = _FILE_FIELD_IDS if len(values) == len(_FILE_FIELD_IDS) else _V3_FIELD_IDS
    return dict(zip(ids, values, strict=True))


def partition_values(file: DataFile) -> tuple[Any, ...]:
    """The partition of a file as a plain tuple."""
    return tuple(file.partition._data)


def copy_manifest(manifest: ManifestFile) -> ManifestFile:
    """A manifest list entry that shares nothing with its original.

    PyIceberg's list writer assigns the sequence number to a shallow copy, which shares its values with the
    original: a manifest that is used again by a retry would keep the number of the attempt that failed.
    """
    return ManifestFile(*manifest._data)


def write_list(metadata: TableMetadata, io: FileIO, snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> None:
    """Write the manifest list of a snapshot, compressed with gzip as Java does whatever the table says of manifests."""
    with write_manifest_list(
        format_version=metadata.format_version,
        output_file=io.new_output(snapshot.manifest_list),
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        avro_compression="deflate",
    ) as writer:
        writer.add_manifests([copy_manifest(manifest) for manifest in manifests])


# Talking to the catalog.


class Failure(Enum):
    """What an exception of a catalog tells about the commit."""

    LOST_RACE = "the catalog refused, and a later attempt may succeed"
    REFUSED = "the catalog refused for a reason that does not pass"
    UNKNOWN = "the catalog did not say"


@dataclass
class CatalogCall:
    """One call of a catalog's commit, and the metadata files that the catalog's client wrote for it."""

    metadata_files: list[str] = field(default_factory=list)
    writes_metadata_itself: bool = False

    def run(
        self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
    ) -> CommitTableResponse:
        catalog = table.catalog
        if isinstance(catalog, MetastoreCatalog):
            # These clients write the new metadata file before they ask for the swap, and leave it behind
            # when they lose. A shallow copy records the name; the user's own catalog is not touched.
            self.writes_metadata_itself = True
            catalog = _recording_copy(catalog, self.metadata_files.append)
        return catalog.commit_table(table, tuple(requirements), tuple(updates))

    def judge(self, error: Exception) -> Failure:
        """What this call's failure means."""
        if isinstance(error, (CommitFailedException, WaitingForLockException, TooManyRequestsError)) or is_busy(error):
            return Failure.LOST_RACE
        if isinstance(error, _REFUSALS):
            return Failure.REFUSED
        if self.writes_metadata_itself and not self.metadata_files and not isinstance(error, _NO_ANSWER):
            # The swap comes after the metadata file; it was never asked for.
            return Failure.LOST_RACE if may_pass(error) else Failure.REFUSED
        return Failure.UNKNOWN


_REFUSALS = (
    AuthorizationExpiredError,
    BadRequestError,
    ForbiddenError,
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchTableError,
    PermissionError,
    UnauthorizedError,
)
_NO_ANSWER = (CommitStateUnknownException, RESTError, ConnectionError, TimeoutError)


def may_pass(error: BaseException) -> bool:
    """Whether a catalog that cannot be read now may be read a moment later."""
    return (
        is_busy(error)
        or isinstance(error, (ServiceUnavailableError, TooManyRequestsError, ConnectionError, TimeoutError))
        # Lost connections, restarts and the like; SQLAlchemy is only there if a SQL catalog is used.
        or (type(error).__name__ == "OperationalError" and type(error).__module__.startswith("sqlalchemy"))
    )


def is_busy(error: BaseException) -> bool:
    """Whether SQLite could not take its lock in time. It then rolls back, so nothing was changed."""
    cause: BaseException | None = getattr(error, "orig", error)
    if not isinstance(cause, sqlite3.OperationalError):
        return False
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _recording_copy(catalog: MetastoreCatalog, record: Callable[[str], None]) -> Catalog:
    recording = copy.copy(catalog)
    write: Callable[[TableMetadata, FileIO, str], None] = catalog._write_metadata

    def recorded(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        record(metadata_path)
        write(metadata, io, metadata_path)

    recording._write_metadata = recorded  # type: ignore[method-assign]
    return recording


def adopt(table: Table, base: TableMetadata, metadata: TableMetadata, location: str) -> None:
    """Let the user's table object show what was committed, and expire old metadata files if the table says so."""
    table.catalog._delete_old_metadata(table.io, base, metadata)
    table.metadata = metadata
    table.metadata_location = location
