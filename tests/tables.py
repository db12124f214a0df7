"""Small real Iceberg tables for tests: Parquet files with field ids, made without Spark.

Rows are dicts. A file's partition is computed from its first row by the spec's own transforms, or given.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroFile
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType, TimestampType
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros

from lakeshift.locations import canonical_location

EVENTS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "ts", TimestampType(), required=False),
    NestedField(3, "region", StringType(), required=False),
    NestedField(4, "amount", LongType(), required=False),
)

PATH_ID, POS_ID = 2147483546, 2147483545


def local_catalog(
    warehouse: Path, name: str = "lake", cls: type[SqlCatalog] = SqlCatalog, **properties: str
) -> SqlCatalog:
    """A SQLite catalog in the warehouse folder, as Iceberg Java can share it."""
    warehouse.mkdir(parents=True, exist_ok=True)
    catalog = cls(name, uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")
    catalog.create_namespace_if_not_exists("db")
    # An engine that nobody closes leaves its connections to the garbage collector, which complains.
    weakref.finalize(catalog, catalog.engine.dispose)
    return catalog


def data_file(
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    spec_id: int | None = None,
    partition: Sequence[Any] | None = None,
    schema: Schema | None = None,
) -> DataFile:
    """Write rows of one partition as a data file of a spec; it is not committed."""
    metadata = table.metadata
    spec = metadata.specs()[metadata.default_spec_id if spec_id is None else spec_id]
    schema = schema or metadata.schema()
    arrow = pa.Table.from_pylist([dict(row) for row in rows], schema=schema_to_pyarrow(schema))
    values = partition_of(spec, schema, rows[0]) if partition is None else tuple(partition)
    return _write(table, arrow, schema, metadata, spec, values, DataFileContent.DATA)


def position_deletes(
    table: Table, data: DataFile | Sequence[tuple[DataFile, int]], positions: Sequence[int] = ()
) -> DataFile:
    """Write position deletes; they take the spec and partition of the (first) file they refer to."""
    pairs = [(data, position) for position in positions] if isinstance(data, DataFile) else list(data)
    first = pairs[0][0]
    pairs = sorted(pairs, key=lambda pair: (pair[0].file_path, pair[1]))
    schema = Schema(NestedField(PATH_ID, "file_path", StringType()), NestedField(POS_ID, "pos", LongType()))
    arrow = pa.table(
        {"file_path": [file.file_path for file, _ in pairs], "pos": [position for _, position in pairs]},
        schema=schema_to_pyarrow(schema),
    )
    spec = table.metadata.specs()[first.spec_id]
    written = _write(
        table, arrow, schema, table.metadata, spec, tuple(first.partition._data), DataFileContent.POSITION_DELETES
    )
    # Metrics cut long text; bounds must be whole paths, or they would not name a file.
    written.lower_bounds[PATH_ID] = pairs[0][0].file_path.encode()
    written.upper_bounds[PATH_ID] = pairs[-1][0].file_path.encode()
    return written


def equality_deletes(
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    spec_id: int | None = None,
    partition: Sequence[Any] | None = None,
) -> DataFile:
    """Write equality deletes on some columns; with an unpartitioned spec they apply to files of all specs."""
    metadata = table.metadata
    schema = metadata.schema().select(*columns)
    spec = metadata.specs()[metadata.default_spec_id if spec_id is None else spec_id]
    arrow = pa.Table.from_pylist(
        [{name: row[name] for name in columns} for row in rows], schema=schema_to_pyarrow(schema)
    )
    values = partition_of(spec, metadata.schema(), rows[0]) if partition is None else tuple(partition)
    ids = [metadata.schema().find_field(name).field_id for name in columns]
    return _write(table, arrow, schema, metadata, spec, values, DataFileContent.EQUALITY_DELETES, ids)


def partition_of(spec: PartitionSpec, schema: Schema, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The partition of a row, as PyIceberg represents it."""
    values = []
    for field in spec.fields:
        if isinstance(field.transform, VoidTransform):  # its column may be long gone
            values.append(None)
            continue
        source = schema.find_field(field.source_id)
        stored = _internal(row.get(source.name))
        values.append(field.transform.transform(source.field_type)(stored))
    return tuple(values)


def _internal(value: Any) -> Any:
    if isinstance(value, datetime):
        return datetime_to_micros(value)
    return date_to_days(value) if isinstance(value, date) else value


def _write(
    table: Table,
    arrow: pa.Table,
    schema: Schema,
    metadata: TableMetadata,
    spec: PartitionSpec,
    partition: tuple[Any, ...],
    content: DataFileContent,
    equality_ids: list[int] | None = None,
) -> DataFile:
    location = f"{metadata.location}/data/{uuid.uuid4()}.parquet"
    output = table.io.new_output(location)
    with output.create() as stream, pq.ParquetWriter(stream, arrow.schema) as writer:
        writer.write_table(arrow)
    with table.io.new_input(location).open() as written:
        footer = pq.read_metadata(written)
    statistics = data_file_statistics_from_parquet_metadata(
        footer, compute_statistics_plan(schema, metadata.properties), parquet_path_to_id_mapping(schema)
    )
    file = DataFile.from_args(
        content=content,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        file_size_in_bytes=len(output),
        sort_order_id=None,
        equality_ids=equality_ids,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )
    file.spec_id = spec.spec_id
    return file


def events(
    day: int, count: int = 3, *, region: str | None = "eu", hour: int = 0, first: int = 0
) -> list[dict[str, Any]]:
    """Rows of EVENTS on one day and hour of January 2026."""
    moment = datetime(2026, 1, day, hour)
    return [{"id": first + n, "ts": moment, "region": region, "amount": n} for n in range(count)]


def files_under(location: str) -> set[str]:
    """Every file below a table's location, as plain paths."""
    root = Path(canonical_location(location))
    return {str(path) for path in root.rglob("*") if path.is_file()}


def referenced_files(table: Table) -> set[str]:
    """Every file that any snapshot of the table refers to, with its metadata files, as plain paths."""
    names = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        names.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            names.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            names |= {entry.data_file.file_path for entry in entries}
    return {canonical_location(name) for name in names}


def manifest_headers(table: Table, snapshot: Snapshot | None = None) -> list[tuple[ManifestFile, dict[str, Any]]]:
    """The manifests of a snapshot, the current one by default, each with what its Avro header says."""
    found = []
    for manifest in (snapshot or table.metadata.current_snapshot()).manifests(table.io):
        with AvroFile[Any](table.io.new_input(manifest.manifest_path)) as reader:
            found.append((manifest, dict(reader.header.meta)))
    return found


def live_entries(table: Table, branch: str | None = None) -> dict[str, ManifestEntry]:
    """The live entries of a branch by file path, sequence numbers and specs filled in."""
    snapshot = table.metadata.snapshot_by_name(branch)
    manifests = snapshot.manifests(table.io) if snapshot else []
    return {entry.data_file.file_path: entry for m in manifests for entry in m.fetch_manifest_entry(table.io)}


def ids(table: Table, **scan: Any) -> list[int]:
    """The ids that PyIceberg reads, in order."""
    return sorted(table.refresh().scan(**scan).to_arrow()["id"].to_pylist())
