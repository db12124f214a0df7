"""Handmade evolved tables for planner tests: specs by region and by day of ts, and one that nobody can read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, UnknownTransform

from lakeshift.iceberg.rewrite.options import RewriteOptions
from lakeshift.iceberg.rewrite.plan import RewriteDataFilesPlanningResult, RewriteGroup
from lakeshift.iceberg.rewrite.planner import RewriteDataFilesPlanner
from tests.handmade import HandmadeTable
from tests.tables import EVENTS

BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"), spec_id=0)
BY_DAY = PartitionSpec(PartitionField(2, 1001, DayTransform(), "ts_day"), spec_id=1)
BY_BUCKET = PartitionSpec(PartitionField(1, 1003, BucketTransform(4), "id_bucket"), spec_id=3)
UNREADABLE = PartitionSpec(PartitionField(3, 1002, UnknownTransform("zorder"), "region_z"), spec_id=2)
UNPARTITIONED = PartitionSpec(spec_id=4)

KB = 1000


def day(number: int) -> int:
    """A day of January 2026 as partitions hold it."""
    return (date(2026, 1, number) - date(1970, 1, 1)).days


def evolved_table(folder: Path, *specs: PartitionSpec, **properties: Any) -> HandmadeTable:
    """A table whose default spec is the last one given; files are tiny beside its target size of 100 kB."""
    table = HandmadeTable(folder, EVENTS, *(specs or (BY_REGION, BY_DAY)), **properties)
    table.metadata = table.metadata.model_copy(update={"properties": {"write.target-file-size-bytes": str(100 * KB)}})
    return table


def files(table: HandmadeTable, count: int, spec_id: int, *partition: Any, **fields: Any) -> list[DataFile]:
    return [table.data_file(spec_id, *partition, **fields) for _ in range(count)]


def planning(
    table: HandmadeTable, where: str | BooleanExpression | None = None, **arguments: Any
) -> RewriteDataFilesPlanningResult:
    """Plan with options given by name among the planner's own arguments."""
    own = {"target_spec_id", "strictness", "case_sensitive", "snapshot_id", "session_time_zone"}
    options = RewriteOptions.of({name: value for name, value in arguments.items() if name not in own})
    rest = {name: value for name, value in arguments.items() if name in own}
    planner = RewriteDataFilesPlanner(table.metadata, table.io, where=where, options=options, **rest)
    return planner.plan_with_stats()


def paths(group: RewriteGroup) -> list[str]:
    return [path for part in group.inputs for path in part.files.column("file_path").to_pylist()]


def by_partition(
    result: RewriteDataFilesPlanningResult, count: Callable[[RewriteGroup], Any] = lambda group: group.input_files
) -> dict[tuple[tuple[int, ...], str], Any]:
    return {(group.spec_ids, group.partition): count(group) for group in result.groups}
