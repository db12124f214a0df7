"""Data files as executors write them and as they report them to the driver. No Spark and no catalog here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType, StructType

from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.metrics import MetricsPlan
from lakeshift.iceberg.parquet_options import ParquetOptions
from lakeshift.iceberg.partition_types import spec_of
from lakeshift.iceberg.specs import partition_type

# Parquet readers take a row group as their unit of work; more rows than this in one help nobody.
MAX_ROW_GROUP_ROWS = 1024 * 1024


@dataclass(frozen=True)
class WrittenFile:
    """A data file that an attempt has finished, as it is reported to the driver.

    Partition values and bounds are in Iceberg's single-value form, so that the report holds plain bytes.
    """

    location: str
    spec_id: int
    partition: list[bytes | None]
    rows: int
    size: int
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: list[int]
    sort_order_id: int | None


def to_data_file(metadata: TableMetadata, written: WrittenFile) -> DataFile:
    """A reported file as the commit layer takes it, with its spec pinned."""
    struct = partition_type(metadata, spec_of(metadata, written.spec_id))
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=written.location,
        file_format=FileFormat.PARQUET,
        partition=Record(*decode_partition(struct, written.partition)),
        record_count=written.rows,
        file_size_in_bytes=written.size,
        column_sizes=written.column_sizes,
        value_counts=written.value_counts,
        null_value_counts=written.null_value_counts,
        nan_value_counts=written.nan_value_counts,
        lower_bounds=written.lower_bounds,
        upper_bounds=written.upper_bounds,
        split_offsets=written.split_offsets,
        sort_order_id=written.sort_order_id,
    )
    file.spec_id = written.spec_id
    return file


def encode_partition(struct: StructType, values: Sequence[Any]) -> list[bytes | None]:
    """Partition values, as the commit layer holds them, in a form that travels in a record."""
    return [
        None if value is None else to_bytes(_primitive(field.field_type), value)
        for field, value in zip(struct.fields, values, strict=True)
    ]


def decode_partition(struct: StructType, values: Sequence[bytes | None]) -> tuple[Any, ...]:
    return tuple(
        None if value is None else from_bytes(_primitive(field.field_type), value)
        for field, value in zip(struct.fields, values, strict=True)
    )


def _primitive(kind: Any) -> PrimitiveType:
    assert isinstance(kind, PrimitiveType)
    return kind


@dataclass(frozen=True)
class FileLayout:
    """What all data files of one write have in common: columns, Parquet settings, what is told of them. It pickles."""

    schema: Schema
    options: ParquetOptions
    metrics: MetricsPlan
    sort_order_id: int
    arrow: pa.Schema = field(init=False)
    in_file: pa.Schema = field(init=False)

    @classmethod
    def of(cls, metadata: TableMetadata, *, sort_order: SortOrder = UNSORTED_SORT_ORDER) -> FileLayout:
        """The layout that the table's properties ask for; an order is given only if rows come sorted by it."""
        sorted_by = frozenset(item.source_id for item in sort_order.fields)
        return cls(
            metadata.schema(),
            ParquetOptions.of(metadata.schema(), metadata.properties),
            MetricsPlan.of(metadata.schema(), metadata.properties, sorted_by),
            sort_order.order_id,
        )

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrow", arrow_schema(self.schema))
        object.__setattr__(self, "in_file", arrow_schema(self.schema, in_file=True))


@dataclass
class OpenFile:
    """A Parquet file that is being written, one row group at a time."""

    layout: FileLayout
    io: FileIO
    location: str
    size: int = 0
    rows: int = 0
    _nans: dict[int, int] = field(default_factory=dict)
    _footers: list[pq.FileMetaData] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stream = self.io.new_output(self.location).create()
        self._sink = pa.PythonFile(self._stream, "w") if not isinstance(self._stream, pa.NativeFile) else self._stream
        self._writer = pq.ParquetWriter(
            self._sink,
            self.layout.in_file,
            metadata_collector=self._footers,
            **self.layout.options.writer_arguments,
        )
        self._writer.add_key_value_metadata({"iceberg.schema": self.layout.schema.model_dump_json()})

    def write_row_group(self, rows: pa.Table) -> None:
        """Write these rows, in the layout's columns, as one row group (more if there are very many)."""
        stored = rows if rows.schema.equals(self.layout.in_file) else rows.cast(self.layout.in_file)
        self._writer.write_table(stored, row_group_size=MAX_ROW_GROUP_ROWS)
        for field_id, count in self.layout.metrics.count_nans(rows).items():
            self._nans[field_id] = self._nans.get(field_id, 0) + count
        self.rows += rows.num_rows
        self.size = self._sink.tell()

    def close(self, spec_id: int, partition: list[bytes | None]) -> WrittenFile:
        """Finish the file and tell what is in it."""
        self._writer.close()
        self.size = self._sink.tell()
        self._sink.close()
        metrics = self.layout.metrics.collect(self._footers[0], self._nans)
        return WrittenFile(
            location=self.location,
            spec_id=spec_id,
            partition=partition,
            rows=self.rows,
            size=self.size,
            sort_order_id=self.layout.sort_order_id,
            **vars(metrics),
        )

    def abandon(self) -> None:
        """Close without keeping anything; the file is removed by whoever abandons it."""
        try:
            self._writer.close()
        finally:
            self._sink.close()
