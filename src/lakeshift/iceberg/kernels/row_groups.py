"""Which row groups of a Parquet file can hold rows that match a filter, by the statistics in its footer.

The rules are those for whole files: `file_filter` judges row groups as if each were a file. Statistics that are
missing, or not of the column's type, exclude nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids, rewrite_not
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType, StructType, UUIDType

from lakeshift.iceberg.file_filter import METRIC_COLUMNS, metrics_can_match
from lakeshift.iceberg.kernels.file_columns import FileFields
from lakeshift.iceberg.partition_types import arrow_type


def row_groups_that_can_match(
    metadata: pq.FileMetaData, fields: FileFields, where: BooleanExpression, schema: Schema
) -> list[bool]:
    """For each row group whether it can hold a row for which ``where`` is true."""
    columns = list(_columns(fields, where, schema))
    groups = [_metrics(metadata.row_group(group), columns) for group in range(metadata.num_row_groups)]
    table = pa.Table.from_pylist(groups, schema=METRIC_COLUMNS)
    found: list[bool] = metrics_can_match(where, table, schema).to_pylist()
    return found


def _columns(
    fields: FileFields, where: BooleanExpression, schema: Schema
) -> Iterator[tuple[NestedField, int, pa.DataType]]:
    """The filter's columns that the file has: each with the number of its leaf, and its type in the file."""
    if not fields.own_ids:  # what such a file has in a column need not be what is read from it
        return
    for field_id in extract_field_ids(bind(schema, rewrite_not(where), case_sensitive=True)):
        have = fields.leaf(_path(schema.as_struct(), field_id))
        if have is not None and not have.children:
            kind = have.kind.value_type if pa.types.is_dictionary(have.kind) else have.kind
            yield schema.find_field(field_id), have.leaf, kind


def _path(struct: StructType, field_id: int) -> list[int]:
    for field in struct.fields:
        if field.field_id == field_id:
            return [field_id]
        if isinstance(field.field_type, StructType) and (rest := _path(field.field_type, field_id)):
            return [field.field_id, *rest]
    return []


def _metrics(group: pq.RowGroupMetaData, columns: list[tuple[NestedField, int, pa.DataType]]) -> dict[str, Any]:
    metrics: dict[str, Any] = {name: [] for name in METRIC_COLUMNS.names}
    metrics["record_count"] = group.num_rows
    for field, leaf, kind in columns:
        column = group.column(leaf)
        statistics = column.statistics
        if statistics is None:
            continue
        metrics["value_counts"].append((field.field_id, column.num_values))
        if statistics.has_null_count:
            metrics["null_value_counts"].append((field.field_id, statistics.null_count))
        if statistics.has_min_max:
            lower, upper = (_bound(value, field, kind) for value in (statistics.min, statistics.max))
            if lower is not None and upper is not None:
                metrics["lower_bounds"].append((field.field_id, lower))
                metrics["upper_bounds"].append((field.field_id, upper))
    return metrics


def _bound(value: Any, field: NestedField, kind: pa.DataType) -> bytes | None:
    """A statistic as Iceberg stores bounds; None if it is not certain what it means."""
    wanted = field.field_type
    if not isinstance(wanted, PrimitiveType) or isinstance(wanted, UUIDType):
        return None
    try:
        found = pa.scalar(value, kind).cast(arrow_type(wanted))
        plain = found.value if pa.types.is_temporal(found.type) else found.as_py()
        return to_bytes(wanted, plain)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
