"""Rewriting on Spark: split groups, even sizes, fixed point, and failures that leave nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, DayTransform

import lakeshift
from lakeshift.errors import ConfigError, TaskFailedError, UnsupportedTableError
from lakeshift.iceberg.commit.change_set import append_change, row_delta_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.rewrite import tasks
from lakeshift.iceberg.rewrite.progress import RewriteStep
from lakeshift.iceberg.table import IcebergTable
from lakeshift.locations import canonical_location
from tests.tables import (
    EVENTS,
    data_file,
    equality_deletes,
    events,
    files_under,
    ids,
    local_catalog,
    position_deletes,
    referenced_files,
)

BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))


def wide(day: int, first: int, count: int) -> list[dict[str, Any]]:
    """Rows that compress badly."""
    chance = random.Random(first)
    return [{**row, "region": chance.randbytes(40).hex()} for row in events(day, count, first=first)]


def opened(folder: Path, spark: Any, **properties: str) -> IcebergTable:
    local_catalog(folder, "local").create_table("db.events", EVENTS, partition_spec=BY_DAY, properties=properties)
    return lakeshift.connect(warehouse=folder, spark=spark).iceberg("db.events")


def test_an_evolved_table_settles_at_good_sizes(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are split over tasks; afterwards nothing is left to do, neither in place nor after moving."""
    monkeypatch.setattr(tasks, "TASK_BYTES", 40_000)
    events_table = opened(tmp_path, spark, **{"write.target-file-size-bytes": "20000"})
    table = events_table.table
    first = [data_file(table, wide(day, 10_000 * day + 500 * n, 60)) for day in (1, 2) for n in range(20)]
    commit(table, append_change(table.metadata, first))
    table.update_spec().remove_field("ts_day").add_field("id", BucketTransform(2), "id_bucket").commit()
    marked = [position_deletes(table, file, [0, 5]) for file in first[:8]]
    gone = wide(1, 10_000, 60)[7]
    marked.append(equality_deletes(table, [gone], ["id"], spec_id=0))
    commit(table, row_delta_change(table.metadata, [], marked))
    expected = sorted(
        row
        for number, (day, n) in enumerate((day, n) for day in (1, 2) for n in range(20))
        for position, row in enumerate(range(10_000 * day + 500 * n, 10_000 * day + 500 * n + 60))
        if not (number < 8 and position in (0, 5)) and row != gone["id"]
    )
    steps: list[RewriteStep] = []
    result = events_table.rewrite_data_files(progress=steps.append, snapshot_properties={"why": "test"})
    assert ids(table) == expected
    assert (result.rewritten_data_files, result.rows_before, result.rows_after) == (40, 2400, len(expected))
    assert result.removed_delete_files == 9
    assert [group.delete_files_applied for group in result.groups] == [9, 0]
    assert result.added_data_files < 20
    assert (steps[-1].groups_done, steps[-1].groups, steps[-1].commits) == (2, 2, 1)
    assert steps[-1].bytes_done == steps[-1].bytes == result.rewritten_bytes
    assert table.current_snapshot().summary.additional_properties["why"] == "test"
    assert table.current_snapshot().summary.operation.value == "replace"
    assert events_table.plan_rewrite().groups == ()
    assert events_table.rewrite_data_files().groups == ()

    moved = events_table.rewrite_data_files(target_spec_id=1)
    assert ids(table) == expected
    assert [spec.data_files > 0 for spec in events_table.layout()] == [False, True]
    assert moved.rows_after == moved.rows_before == len(expected)
    assert events_table.plan_rewrite(target_spec_id=1).groups == ()
    assert {name for name in files_under(table.location()) if name.endswith(".parquet")} <= referenced_files(table)
    assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "10000"


def test_a_file_that_cannot_be_read_fails_the_rewrite_or_its_group(spark: Any, tmp_path: Path) -> None:
    events_table = opened(tmp_path, spark)
    table = events_table.table
    written = [data_file(table, events(day, first=10 * day + 100 * n)) for day in (1, 2, 3) for n in range(5)]
    commit(table, append_change(table.metadata, written))
    Path(canonical_location(written[0].file_path)).write_bytes(b"PAR1 broken PAR1")
    before = files_under(table.location())
    # That group alone: what tasks beside it have finished when a task fails is not heard of any more.
    with pytest.raises(TaskFailedError, match=r"Group 1 \(ts_day=2026-01-01\)"):
        events_table.rewrite_data_files(where="ts < TIMESTAMP_NTZ '2026-01-02 00:00:00'")
    assert files_under(table.location()) == before
    result = events_table.rewrite_data_files(partial_progress_enabled=True)
    assert [group.committed for group in result.groups] == [False, True, True]
    assert "ts_day=2026-01-01" in str(result.groups[0].error)
    assert len(result.snapshot_ids) == 2
    assert result.to_dict()["failed_groups"] == 1
    assert {name for name in files_under(table.location()) if name.endswith(".parquet")} <= referenced_files(table)


def test_what_cannot_be_rewritten_is_refused_before_anything_is_written(spark: Any, tmp_path: Path) -> None:
    events_table = opened(tmp_path, spark)
    table = events_table.table
    odd = data_file(table, events(1))
    odd._data[2] = "ORC"
    commit(table, append_change(table.metadata, [odd, *(data_file(table, events(1, first=10)) for _ in range(5))]))
    before = files_under(table.location())
    with pytest.raises(UnsupportedTableError, match="a data file in ORC"):
        events_table.rewrite_data_files()
    with pytest.raises(ConfigError, match="no branch 'nowhere'"):
        events_table.rewrite_data_files(branch="nowhere")
    with pytest.raises(ConfigError, match="min_inputfiles"):
        events_table.rewrite_data_files(min_inputfiles=3)
    assert files_under(table.location()) == before
