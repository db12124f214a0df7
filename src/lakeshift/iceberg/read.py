"""Reading a table as a Spark DataFrame: files pruned and deletes matched here, rows read by kernels on executors.

Conditions are pushed down as far as they can be said exactly, and Spark applies the whole condition again: what is
pushed down may only leave out what does not match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from lakeshift.errors import ConfigError
from lakeshift.iceberg.kernels.read import FileToRead, ReadContext, check_readable
from lakeshift.iceberg.kernels.spark_rows import read_task
from lakeshift.iceberg.partition_types import schemas_newest_first
from lakeshift.iceberg.predicates import translate
from lakeshift.iceberg.scan import Scan, into_tasks, plan_appends, plan_snapshot, schema_of
from lakeshift.iceberg.spark_types import spark_json
from lakeshift.kernel import new_operation_id
from lakeshift.spark.frames import is_case_sensitive, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class ReadPlan:
    """What a read will do: the columns that Spark gets, and the tasks that bring them."""

    context: ReadContext
    columns: tuple[str, ...]
    scan: Scan
    tasks: tuple[tuple[FileToRead, ...], ...]


def read_table(
    spark: SparkSession,
    table: Table,
    columns: Sequence[str] | None = None,
    where: str | Column | None = None,
    snapshot_id: int | None = None,
    from_snapshot_id: int | None = None,
) -> DataFrame:
    """The rows of a table as a DataFrame; see ``IcebergTable.read``."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    from lakeshift.spark.jobs import frame_of_tasks

    text = where if isinstance(where, str) and not _compares_times_as_text(spark) else None
    plan = plan_read(
        table.metadata,
        table.io,
        columns,
        text,
        snapshot_id,
        from_snapshot_id,
        whole_rows=where is not None and text is None,
        case_sensitive=is_case_sensitive(spark),
        session_time_zone=spark.conf.get("spark.sql.session.timeZone"),
    )
    frame = frame_of_tasks(
        spark,
        partial(read_task, context=plan.context, io=table.io),
        plan.tasks,
        StructType.fromJson(spark_json(Schema(*plan.context.fields))),
        operation_id=new_operation_id(),
        names=[f"Reading {task[0].path} and {len(task) - 1} more" for task in plan.tasks],
    )
    if where is not None:
        frame = frame.filter(where)
    if plan.columns != plan.context.columns:
        frame = frame.select(*(functions.col(quoted(name)) for name in plan.columns))
    return frame


def _compares_times_as_text(spark: SparkSession) -> bool:
    """Whether a legacy setting makes Spark compare dates and times with text as text: nothing is then pushed down."""
    return spark.conf.get("spark.sql.legacy.typeCoercion.datetimeToString.enabled", "false") == "true"


def plan_read(
    metadata: TableMetadata,
    io: FileIO,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    snapshot_id: int | None = None,
    from_snapshot_id: int | None = None,
    *,
    whole_rows: bool = False,
    case_sensitive: bool = False,
    session_time_zone: str | None = None,
) -> ReadPlan:
    """Plan a read without Spark. ``whole_rows`` reads every column, for a condition that only Spark knows."""
    schema = schema_of(metadata, snapshot_id)
    chosen = _chosen(schema, columns, case_sensitive)
    pushed: BooleanExpression = AlwaysTrue()
    exact, needed = False, tuple(field.name for field in schema.fields) if whole_rows else ()
    if where is not None:
        found = translate(where, schema, case_sensitive=case_sensitive, session_time_zone=session_time_zone)
        pushed, exact, needed = found.pushed, found.exact, found.columns
    if from_snapshot_id is None:
        scan = plan_snapshot(metadata, io, snapshot_id, pushed, schema)
    else:
        scan = plan_appends(metadata, io, from_snapshot_id, snapshot_id, pushed, schema)
    check_readable(scan.files)
    context = read_context(metadata, schema, (*chosen, *(name for name in needed if name not in chosen)), pushed, exact)
    spark_json(Schema(*context.fields))
    return ReadPlan(context, chosen, scan, tuple(into_tasks(scan.files, metadata.properties, scan.split_offsets)))


def read_context(
    metadata: TableMetadata,
    schema: Schema,
    columns: tuple[str, ...],
    where: BooleanExpression | None = None,
    exact: bool = False,
    metadata_columns: tuple[str, ...] = (),
) -> ReadContext:
    """What kernels need to know to read files of a table as rows of a schema."""
    return ReadContext(
        schema=schema,
        columns=columns,
        schemas=tuple(schemas_newest_first(metadata)),
        specs=metadata.specs(),
        name_mapping=metadata.name_mapping(),
        where=None if where == AlwaysTrue() else where,
        exact=exact,
        metadata_columns=metadata_columns,
    )


def _chosen(schema: Schema, columns: Sequence[str] | None, case_sensitive: bool) -> tuple[str, ...]:
    """The top-level columns asked for, as the schema spells them."""
    there = [field.name for field in schema.fields]
    if columns is None:
        return tuple(there)
    if isinstance(columns, str) or not columns:
        raise ConfigError(f"columns must be a list of column names, not {columns!r}; there are: {', '.join(there)}.")
    chosen = []
    for name in columns:
        found = [known for known in there if known == name or (not case_sensitive and known.lower() == name.lower())]
        if len(found) != 1:
            problem = "is ambiguous" if found else "does not exist"
            raise ConfigError(f"The column {name!r} {problem}; top-level columns are: {', '.join(there)}.")
        if found[0] in chosen:
            raise ConfigError(f"The column {name!r} was asked for twice: {', '.join(columns)}.")
        chosen.append(found[0])
    return tuple(chosen)
