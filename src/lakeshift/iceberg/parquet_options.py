"""How a table wants its Parquet files written: its ``write.parquet.*`` properties, under Java's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.schema import Schema

from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.metrics import MetricsPlan
from lakeshift.iceberg.table_properties import one_of, truth, whole_number

FORMAT = "write.format.default"
TARGET_SIZE = "write.target-file-size-bytes"
DELETE_TARGET_SIZE = "write.delete.target-file-size-bytes"
CODEC = "write.parquet.compression-codec"
LEVEL = "write.parquet.compression-level"
ROW_GROUP_SIZE = "write.parquet.row-group-size-bytes"
PAGE_SIZE = "write.parquet.page-size-bytes"
PAGE_ROWS = "write.parquet.page-row-limit"
DICTIONARY_SIZE = "write.parquet.dict-size-bytes"
STATISTICS = "write.parquet.stats-enabled.column."
BLOOM_FILTER = "write.parquet.bloom-filter-enabled.column."
BLOOM_RATE = "write.parquet.bloom-filter-fpp.column."
BLOOM_VALUES = "write.parquet.bloom-filter-ndv.column."

_CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed")
_LEVELS = {"zstd": range(1, 23), "gzip": range(1, 10), "brotli": range(12)}


@dataclass(frozen=True)
class ParquetOptions:
    """The settings of a table's Parquet writer; ``writer_arguments`` are those of pyarrow's."""

    target_file_size: int
    row_group_size: int
    writer_arguments: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, schema: Schema, properties: Mapping[str, str]) -> ParquetOptions:
        """Read a table's properties; a value that Parquet cannot have is an error, before anything is written."""
        if (kind := properties.get(FORMAT, "parquet").lower()) != "parquet":
            raise UnsupportedTableError(
                f"The table property {FORMAT} is {kind!r}; lakeshift writes parquet. Set the property to parquet: "
                "a table may hold files of several formats."
            )
        codec = one_of(properties, CODEC, "zstd", _CODECS)
        arguments: dict[str, Any] = {
            "compression": "none" if codec == "uncompressed" else codec,
            "data_page_size": _positive(properties, PAGE_SIZE, 1024 * 1024),
            "max_rows_per_page": _positive(properties, PAGE_ROWS, 20_000),
            "dictionary_pagesize_limit": _positive(properties, DICTIONARY_SIZE, 2 * 1024 * 1024),
            # As the Iceberg spec stores them: small decimals as integers, no Arrow schema beside Parquet's own.
            "store_decimal_as_integer": True,
            "store_schema": False,
        }
        if (level := _level(properties, codec)) is not None:
            arguments["compression_level"] = level
        paths = _leaf_paths(schema)
        if silent := _switched(properties, STATISTICS, paths, "false"):
            arguments["write_statistics"] = [path for path in paths.values() if path not in silent]
        if blooms := _switched(properties, BLOOM_FILTER, paths, "true"):
            arguments["bloom_filter_options"] = {
                path: _bloom(properties, name) for name, path in paths.items() if path in blooms
            }
        return cls(
            target_file_size=_positive(properties, TARGET_SIZE, 512 * 1024 * 1024),
            row_group_size=_positive(properties, ROW_GROUP_SIZE, 128 * 1024 * 1024),
            writer_arguments=arguments,
        )


def _positive(properties: Mapping[str, str], name: str, default: int) -> int:
    number = whole_number(properties, name, default)
    if not number:
        raise ConfigError(f"The table property {name} is 0; it must be at least 1.")
    return number


def _level(properties: Mapping[str, str], codec: str) -> int | None:
    text = properties.get(LEVEL)
    if text in (None, "", "null") or codec not in _LEVELS:
        return None
    allowed = _LEVELS[codec]
    level = whole_number(properties, LEVEL, 0)
    if level not in allowed:
        raise ConfigError(
            f"The table property {LEVEL} is {level}; {codec} takes levels {allowed.start} to {allowed.stop - 1}."
        )
    return level


def _leaf_paths(schema: Schema) -> dict[str, str]:
    """The name of every primitive column, and its path in a Parquet file."""
    leaves = MetricsPlan.of(schema, {}).leaves
    return {str(schema.find_column_name(leaf.field_id)): leaf.parquet_path for leaf in leaves}


def _switched(properties: Mapping[str, str], prefix: str, paths: Mapping[str, str], wanted: str) -> set[str]:
    """The Parquet paths of the columns for which a switch is set this way. Columns that are gone are ignored."""
    found = set()
    for name in properties:
        if name.startswith(prefix):
            is_on = truth(properties, name, default=True)
            if is_on is (wanted == "true") and name.removeprefix(prefix) in paths:
                found.add(paths[name.removeprefix(prefix)])
    return found


def _bloom(properties: Mapping[str, str], column: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    rate = properties.get(BLOOM_RATE + column)
    if rate is not None:
        try:
            options["fpp"] = float(rate)
        except ValueError:
            options["fpp"] = 0.0
        if not 0 < options["fpp"] < 1:
            raise ConfigError(f"The table property {BLOOM_RATE + column} is {rate!r}; it must lie between 0 and 1.")
    if BLOOM_VALUES + column in properties:
        options["ndv"] = _positive(properties, BLOOM_VALUES + column, 1)
    return options
