"""Table properties as settings of the Parquet writer."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType

from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.parquet_options import ParquetOptions

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "tags", ListType(3, StringType()), required=False),
)


def footer(properties: dict[str, str]) -> pq.FileMetaData:
    options = ParquetOptions.of(SCHEMA, properties)
    sink = pa.BufferOutputStream()
    rows = pa.Table.from_pylist([{"id": 1, "tags": ["a"]}], schema=arrow_schema(SCHEMA))
    with pq.ParquetWriter(sink, rows.schema, **options.writer_arguments) as writer:
        writer.write_table(rows)
    return pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata


def test_defaults_are_those_of_java() -> None:
    options = ParquetOptions.of(SCHEMA, {})
    assert options.target_file_size == 512 * 1024 * 1024
    assert options.row_group_size == 128 * 1024 * 1024
    assert footer({}).row_group(0).column(0).compression == "ZSTD"


def test_codec_and_level_are_taken() -> None:
    column = footer({"write.parquet.compression-codec": "GZIP", "write.parquet.compression-level": "9"})
    assert column.row_group(0).column(0).compression == "GZIP"
    plain = footer({"write.parquet.compression-codec": "uncompressed"})
    assert plain.row_group(0).column(0).compression == "UNCOMPRESSED"


def test_statistics_can_be_switched_off_for_a_column() -> None:
    group = footer({"write.parquet.stats-enabled.column.id": "false"}).row_group(0)
    assert not group.column(0).is_stats_set
    assert group.column(1).is_stats_set


def test_bloom_filters_are_written_for_nested_columns_too() -> None:
    options = ParquetOptions.of(
        SCHEMA,
        {
            "write.parquet.bloom-filter-enabled.column.tags.element": "true",
            "write.parquet.bloom-filter-fpp.column.tags.element": "0.01",
            "write.parquet.bloom-filter-enabled.column.gone": "true",
        },
    )
    assert options.writer_arguments["bloom_filter_options"] == {"tags.list.element": {"fpp": 0.01}}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"write.parquet.compression-codec": "lzo"}, "compression-codec is 'lzo'; it must be one of zstd"),
        ({"write.parquet.compression-level": "23"}, "compression-level is 23; zstd takes levels 1 to 22"),
        ({"write.target-file-size-bytes": "0"}, "write.target-file-size-bytes is 0; it must be at least 1"),
        ({"write.parquet.row-group-size-bytes": "128MB"}, "row-group-size-bytes is '128MB'; it must be a whole"),
        ({"write.parquet.stats-enabled.column.id": "maybe"}, "column.id is 'maybe'; it must be true or false"),
        (
            {
                "write.parquet.bloom-filter-enabled.column.id": "true",
                "write.parquet.bloom-filter-fpp.column.id": "2",
            },
            "fpp.column.id is '2'; it must lie between 0 and 1",
        ),
    ],
)
def test_values_that_cannot_be_meant_are_named(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ParquetOptions.of(SCHEMA, properties)


@pytest.mark.parametrize("kind", ["orc", "avro"])
def test_other_formats_are_refused(kind: str) -> None:
    with pytest.raises(UnsupportedTableError, match=f"write.format.default is '{kind}'"):
        ParquetOptions.of(SCHEMA, {"write.format.default": kind})
