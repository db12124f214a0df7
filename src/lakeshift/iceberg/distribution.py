"""Which Spark task gets which rows of a write, and in what order: ``write.distribution-mode`` and the sort order.

The exchange happens in Spark, on expressions that are equal exactly where partition values are, so that
rows cross into Python once. Task counts are explicit: adaptive execution would merge them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)

from lakeshift.errors import UnsupportedTableError
from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.partition_types import is_unpartitioned
from lakeshift.iceberg.schemas import to_iceberg_schema
from lakeshift.iceberg.table_properties import one_of
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.spark.frames import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

MODE = "write.distribution-mode"
_MODES = ("none", "hash", "range")
# A task more than cores evens out partitions of different sizes; many more only start and stop, and so do those that
# get but a few rows.
_TASKS_PER_CORE = 4
_ROWS_PER_TASK = 50_000

# Spark's hash of this number is 0. Hashing it before a value therefore hashes the value with seed 0, as
# Iceberg's buckets do.
_SEED_ZERO = -1693959553

_DAY = 24 * 60 * 60 * 1_000_000
_HOUR = 60 * 60 * 1_000_000


@dataclass(frozen=True)
class LaidOut:
    """A frame whose rows lie in the tasks that will write them; ``tasks`` is None where the frame decides."""

    frame: DataFrame
    tasks: int | None


def distribution_mode(metadata: TableMetadata, spec: PartitionSpec) -> str:
    """The mode that the table asks for, or Iceberg's default for it; ``none`` where nothing tells rows apart."""
    is_sorted = not default_sort_order(metadata).is_unsorted
    natural = "range" if is_sorted else "none" if is_unpartitioned(spec) else "hash"
    mode = one_of(metadata.properties, MODE, natural, _MODES)
    if is_unpartitioned(spec) and (mode == "hash" or not is_sorted):
        return "none"
    return mode


def default_sort_order(metadata: TableMetadata) -> SortOrder:
    """The order in which the table wants the rows of a file, perhaps none."""
    return metadata.sort_order_by_id(metadata.default_sort_order_id) or UNSORTED_SORT_ORDER


def task_count(cores: int, rows: int | None) -> int:
    """How many tasks the rows of a write go to; ``rows`` are at most how many, None if nobody knows."""
    most = cores * _TASKS_PER_CORE
    return most if rows is None else max(cores, min(most, rows // _ROWS_PER_TASK))


def lay_out(
    frame: DataFrame,
    metadata: TableMetadata,
    spec: PartitionSpec,
    paths: Mapping[int, Sequence[str]],
    wanted_tasks: int,
) -> LaidOut:
    """Send each row to the task that writes its partition, and sort it there if the table has a sort order.

    ``paths`` leads from the id of a table's column to the place of its values in the frame.
    """
    expressions = _Expressions(frame, paths)
    partition = [key for field in spec.fields for key in expressions.keys(field.source_id, field.transform)]
    order = default_sort_order(metadata)
    ordering = [*partition, *expressions.ordering(order)]
    # Without a column to go by, such as when the frame lacks them all, rows stay where they are.
    mode = distribution_mode(metadata, spec) if ordering else "none"
    tasks: int | None = None
    if mode == "hash" and partition:
        tasks = wanted_tasks
        frame = frame.repartition(tasks, *partition)
    elif mode == "range":
        tasks = wanted_tasks
        frame = frame.repartitionByRange(tasks, *ordering)
    if not order.is_unsorted and ordering:
        frame = frame.sortWithinPartitions(*ordering)
    return LaidOut(frame, tasks)


class _Expressions:
    """Spark expressions for the values of transforms. A column that the frame does not have is constant: no key."""

    def __init__(self, frame: DataFrame, paths: Mapping[int, Sequence[str]]) -> None:
        self._frame = frame
        self._paths = paths

    def keys(self, source_id: int, transform: Transform[Any, Any]) -> list[Column]:
        if isinstance(transform, VoidTransform) or source_id not in self._paths:
            return []
        path = self._paths[source_id]
        return transform_keys(".".join(quoted(name) for name in path), self._type(path), transform)

    def ordering(self, order: SortOrder) -> list[Column]:
        found = []
        for field in order.fields:
            for key in self.keys(field.source_id, field.transform):
                first = field.null_order is NullOrder.NULLS_FIRST
                if field.direction is SortDirection.ASC:
                    found.append(key.asc_nulls_first() if first else key.asc_nulls_last())
                else:
                    found.append(key.desc_nulls_first() if first else key.desc_nulls_last())
        return found

    def _type(self, path: Sequence[str]) -> DataType:
        from pyspark.sql.types import StructType

        kind: DataType = self._frame.schema
        for name in path:
            assert isinstance(kind, StructType)
            kind = kind[name].dataType
        return kind


def transform_keys(column: str, kind: DataType, transform: Transform[Any, Any]) -> list[Column]:
    """Expressions that are equal, and ordered, just as a transform's values of this column are.

    ``column`` is SQL text, with its names quoted.
    """
    from pyspark.sql.functions import expr

    match transform:
        case IdentityTransform():
            found = [column]
        case YearTransform() | MonthTransform() | DayTransform() | HourTransform():
            found = _time_keys(column, kind, transform)
        case TruncateTransform() if (truncated := _truncated(column, kind, transform.width)) is not None:
            found = [truncated]
        case BucketTransform() if (number := _bucketed_number(column, kind)) is not None:
            hashed = f"(hash({_SEED_ZERO}, {number}) & 2147483647) % {transform.num_buckets}"
            found = [f"if({column} is null, null, {hashed})"]
        case TruncateTransform() | BucketTransform():
            return [_in_python(transform, kind)(expr(column))]
        case _:
            raise UnsupportedTableError(f"Rows cannot be laid out by the transform {transform}, which is not known.")
    return [expr(text) for text in found]


def _time_keys(column: str, kind: DataType, transform: Transform[Any, Any]) -> list[str]:
    from pyspark.sql.types import TimestampType

    if isinstance(kind, TimestampType):
        # Spark's own calendar functions would use the session's time zone; Iceberg's partitions are of UTC.
        if isinstance(transform, HourTransform):
            return [_floor_div(f"unix_micros({column})", _HOUR)]
        column = f"date_from_unix_date(int({_floor_div(f'unix_micros({column})', _DAY)}))"
    match transform:
        case YearTransform():
            return [f"year({column})"]
        case MonthTransform():
            return [f"year({column})", f"month({column})"]
        case DayTransform():
            return [f"date({column})"]
        case _:
            return [f"date({column})", f"hour({column})"]


def _truncated(column: str, kind: DataType, width: int) -> str | None:
    from pyspark.sql.types import BinaryType, IntegralType, StringType

    if isinstance(kind, IntegralType):
        return _floor_div(f"bigint({column})", width)
    if isinstance(kind, (StringType, BinaryType)):
        return f"substring({column}, 1, {width})"
    return None


def _bucketed_number(column: str, kind: DataType) -> str | None:
    """The number that Iceberg hashes for a value of this type; None where it hashes bytes."""
    from pyspark.sql.types import DateType, IntegralType, TimestampNTZType, TimestampType

    match kind:
        case IntegralType():
            return f"bigint({column})"
        case DateType():
            return f"bigint(unix_date({column}))"
        case TimestampType():
            return f"unix_micros({column})"
        case TimestampNTZType():
            # A cast to a timestamp would go through the session's time zone.
            clock = f"(hour({column}) * 3600 + minute({column}) * 60 + date_part('SECONDS', {column})) * 1000000"
            return f"unix_date(date({column})) * {_DAY} + bigint({clock})"
        case _:
            return None


def _floor_div(number: str, width: int) -> str:
    """Integer division that rounds down; it neither overflows nor leaves the integers."""
    return f"({number} div {width} - if({number} < 0 and {number} % {width} <> 0, 1, 0))"


def _in_python(transform: Transform[Any, Any], kind: DataType) -> Callable[[Column], Column]:
    """A transform for which Spark has no expression, computed by ours on that column alone."""
    from pyspark.sql.pandas.functions import pandas_udf

    schema = to_iceberg_schema(f"source {kind.simpleString()}")
    source = schema.fields[0]
    values = PartitionValues(schema, PartitionSpec(PartitionField(source.field_id, 1000, transform, "key")))
    column = arrow_schema(schema).field(0)

    def keys(series: Any) -> Any:
        batch = pa.RecordBatch.from_arrays([pa.Array.from_pandas(series, type=column.type)], names=[column.name])
        return values.attempt(batch).values[0].to_pandas()

    # Not written as annotations: these are text in this module, and Spark looks for the classes themselves.
    series = importlib.import_module("pandas").Series
    keys.__annotations__ = {"series": series, "return": series}
    udf: Any = pandas_udf  # its stubs know neither this form nor decimals
    found: Callable[[Column], Column] = udf(keys, "int" if isinstance(transform, BucketTransform) else kind)
    return found
