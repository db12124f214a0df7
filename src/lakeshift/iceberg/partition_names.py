"""Partitions as people write them, and ledger values as keys. Only metadata is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import StringType

from lakeshift.iceberg.partition_key import PartitionKey
from lakeshift.iceberg.partition_path import human_string
from lakeshift.iceberg.partition_types import (
    is_unpartitioned,
    partition_field_type,
    partition_values,
    schemas_newest_first,
)

UNPARTITIONED = "unpartitioned"


def partition_keys(metadata: TableMetadata, spec: PartitionSpec, partitions: pa.StructArray) -> list[PartitionKey]:
    """A ledger column of partitions as keys, with values as PyIceberg keeps them in data files."""
    if is_unpartitioned(spec):
        return [PartitionKey(spec.spec_id, None)] * len(partitions)
    return [PartitionKey(spec.spec_id, values) for values in partition_values(partitions, spec, metadata)]


class PartitionNames:
    """Writes the partitions of a table's specs, such as ``region=eu/ts_day=2026-01-31``."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._writers: dict[int, list[tuple[str, Callable[[Any], str]]]] = {}

    def text(self, key: PartitionKey) -> str:
        """A partition as people write it."""
        if key.partition is None:
            return UNPARTITIONED
        if key.spec_id not in self._writers:
            fields = self._metadata.specs()[key.spec_id].fields
            self._writers[key.spec_id] = [(field.name, self.writer(field)) for field in fields]
        parts = zip(self._writers[key.spec_id], key.partition, strict=False)
        return "/".join(f"{name}={write(value)}" for (name, write), value in parts)

    def writer(self, field: PartitionField) -> Callable[[Any], str]:
        """What writes the values of a partition field."""
        kind = partition_field_type(field, schemas_newest_first(self._metadata)) or StringType()

        def write(value: Any) -> str:
            try:
                return human_string(field.transform, kind, value)
            except (ArithmeticError, TypeError, ValueError):  # a value that is not of the field's type
                return str(value)

        return write
