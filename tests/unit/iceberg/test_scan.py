"""Which files a read opens, planned from metadata alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import AlwaysTrue, EqualTo, GreaterThan
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.kernels.read import FileToRead
from lakeshift.iceberg.read import plan_read
from lakeshift.iceberg.scan import into_tasks, plan_appends, plan_snapshot, schema_of
from tests.handmade import HandmadeTable

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()), schema_id=0)
SPECS = [
    PartitionSpec(),
    PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"), spec_id=1),
]


def _ids(low: int, high: int) -> dict[str, Any]:
    return {"lower_bounds": {1: to_bytes(LongType(), low)}, "upper_bounds": {1: to_bytes(LongType(), high)}}


def test_files_come_with_their_partition_and_the_deletes_that_apply(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, SCHEMA, *SPECS)
    old, eu, us = (
        table.data_file(0, path="old"),
        table.data_file(1, "eu", path="eu"),
        table.data_file(1, "us", path="us"),
    )
    table.commit(old, eu, us)
    table.commit(
        table.equality_deletes(0, path="everywhere", ids=[1, 2]),
        table.equality_deletes(1, "eu", path="scoped"),
        table.position_deletes(["us"], 1, "us", path="positions"),
        table.data_file(1, "eu", path="new"),
    )
    scan = plan_snapshot(table.metadata, table.io, None, AlwaysTrue(), SCHEMA)
    found = {file.path: file for file in scan.files}
    assert {path: (file.spec_id, file.partition) for path, file in found.items()} == {
        "old": (0, ()),
        "eu": (1, ("eu",)),
        "us": (1, ("us",)),
        "new": (1, ("eu",)),
    }
    applied = {
        path: sorted((delete.path, delete.equality_ids) for delete in file.deletes) for path, file in found.items()
    }
    assert applied == {
        "old": [("everywhere", (1, 2))],
        "eu": [("everywhere", (1, 2)), ("scoped", (1,))],
        "us": [("everywhere", (1, 2)), ("positions", ())],
        "new": [],
    }
    pruned = plan_snapshot(table.metadata, table.io, None, EqualTo("region", "us"), SCHEMA)
    assert (sorted(file.path for file in pruned.files), pruned.live_files) == (["old", "us"], 4)
    assert [len(file.deletes) for file in pruned.files] == [1, 2]


def test_a_snapshot_that_is_asked_for_is_read_and_filtered_by_its_own_schema(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, SCHEMA)
    first = table.commit(table.data_file(path="low", **_ids(0, 9)), table.data_file(path="high", **_ids(10, 19)))
    table.add_schema(Schema(NestedField(3, "id", IntegerType()), NestedField(1, "key", LongType()), schema_id=1))
    table.commit(table.data_file(path="later", **_ids(20, 29)))
    assert schema_of(table.metadata, None).schema_id == 1
    assert schema_of(table.metadata, first.snapshot_id) == SCHEMA

    def planned(where: str, snapshot_id: int | None = None) -> list[str]:
        plan = plan_read(table.metadata, table.io, where=where, snapshot_id=snapshot_id)
        return [file.path for file in plan.scan.files]

    assert planned("key > 12") == ["high", "later"]
    assert planned("id > 12", first.snapshot_id) == ["high"]
    with pytest.raises(ConfigError, match="'key' of the condition does not exist; there are: id, region"):
        planned("key > 12", first.snapshot_id)
    with pytest.raises(ConfigError, match=f"has no snapshot 5; it has: {first.snapshot_id}, "):
        planned("key > 12", 5)


def test_only_appends_are_read_incrementally(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, SCHEMA)
    first = table.commit(table.data_file(path="a"))
    second = table.commit(table.data_file(path="b", **_ids(0, 5)), table.data_file(path="c", **_ids(6, 9)))
    rewritten = table.commit(table.data_file(path="bc"), removed=["b", "c"], operation=Operation.REPLACE)
    last = table.commit(table.data_file(path="d"))

    def appended(after: int, until: int | None = None, where: Any = None) -> list[str]:
        scan = plan_appends(table.metadata, table.io, after, until, where or AlwaysTrue(), SCHEMA)
        return sorted(file.path for file in scan.files)

    assert appended(first.snapshot_id) == ["b", "c", "d"]
    assert appended(first.snapshot_id, rewritten.snapshot_id) == ["b", "c"]
    assert appended(first.snapshot_id, second.snapshot_id, GreaterThan("id", 5)) == ["c"]
    assert appended(last.snapshot_id) == []
    with pytest.raises(ConfigError, match=f"{second.snapshot_id} is not an ancestor of snapshot {first.snapshot_id}"):
        appended(second.snapshot_id, first.snapshot_id)
    changed = table.commit(removed=["d"], operation=Operation.DELETE)
    with pytest.raises(ConfigError, match=f"Snapshot {changed.snapshot_id}, after .*, is delete: only appended rows"):
        appended(first.snapshot_id)


def test_a_table_without_a_snapshot_has_no_files(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, SCHEMA)
    assert plan_read(table.metadata, table.io, where="id = 1").tasks == ()


def test_what_spark_or_the_kernel_cannot_read_is_refused_while_planning(tmp_path: Path) -> None:
    from pyiceberg.manifest import FileFormat
    from pyiceberg.types import TimeType

    table = HandmadeTable(tmp_path, Schema(NestedField(1, "id", LongType()), NestedField(2, "at", TimeType())))
    assert plan_read(table.metadata, table.io, columns=["id"]).columns == ("id",)
    with pytest.raises(UnsupportedTableError, match="Column 'at' is of type time, which Spark does not have"):
        plan_read(table.metadata, table.io)
    table.commit(table.data_file(path="x.orc", file_format=FileFormat.ORC))
    with pytest.raises(UnsupportedTableError, match="x.orc is a data file in ORC"):
        plan_read(table.metadata, table.io, columns=["id"])


def _file(path: str, length: int) -> FileToRead:
    return FileToRead(path, "PARQUET", length, 0, (), 1)


def test_files_are_put_together_up_to_the_target_size() -> None:
    sizes = {"read.split.target-size": "100", "read.split.open-file-cost": "10"}
    files = [_file(str(n), length) for n, length in enumerate([60, 30, 20, 1, 1, 200])]
    tasks = into_tasks(files, sizes, {})
    assert [[file.path for file in task] for task in tasks] == [["0", "1"], ["2", "3", "4"], ["5"]]
    # By default many small files make few tasks, but not one.
    assert len(into_tasks([_file(str(n), 1000) for n in range(320)], {}, {})) == 10
    with pytest.raises(ConfigError, match="read.split.target-size is '1 MB'"):
        into_tasks(files, {"read.split.target-size": "1 MB"}, {})


def test_a_large_file_is_cut_where_row_groups_begin() -> None:
    sizes = {"read.split.target-size": "100", "read.split.open-file-cost": "1"}
    offsets = {"big": [4, 50, 90, 130, 260]}
    tasks = into_tasks([_file("big", 300), _file("small", 10)], sizes, offsets)
    stretches = [file.stretch for task in tasks for file in task]
    assert stretches == [(0, 90), (90, 130), (130, 260), (260, 300), None]
    assert [len(task) for task in tasks] == [1, 1, 1, 2]
    # Offsets that cannot be true are not followed.
    assert into_tasks([_file("big", 300)], sizes, {"big": [50, 4]}) == [(_file("big", 300),)]
