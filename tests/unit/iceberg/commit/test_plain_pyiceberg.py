"""What PyIceberg does to evolved tables on its own, and what we do instead.

The first half of each pair is a fact about PyIceberg 0.12. When such a test fails, PyIceberg has been mended:
rejoice, and look at whether the adapter can be smaller.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform

from lakeshift.iceberg.commit.change_set import RemovedFile, append_change, overwrite_change
from lakeshift.iceberg.commit.commit import commit
from tests.tables import EVENTS, data_file, events, ids, live_entries, local_catalog

FIVE_O_CLOCK = "ts >= '2026-01-01T05:00:00' and ts < '2026-01-01T06:00:00'"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))
    return local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=spec)


def to_hours(table: Table) -> None:
    changed = table.catalog.load_table(table.name())
    with changed.update_spec() as update:
        update.remove_field("ts_day")
        update.add_field("ts", HourTransform(), "ts_hour")


def test_pyiceberg_writes_a_file_of_an_old_spec_under_the_default_one(table: Table) -> None:
    to_hours(table)
    table.refresh()
    file = data_file(table, events(1, hour=5), spec_id=0)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)
    assert ids(table) == [0, 1, 2]
    assert ids(table, row_filter=FIVE_O_CLOCK) == []  # three rows have become invisible


def test_we_write_a_file_of_an_old_spec_under_that_spec(table: Table) -> None:
    to_hours(table)
    table.refresh()
    commit(table, append_change(table.metadata, [data_file(table, events(1, hour=5), spec_id=0)]))
    assert ids(table, row_filter=FIVE_O_CLOCK) == [0, 1, 2]


def test_pyiceberg_retries_a_stale_append_under_the_new_spec(table: Table) -> None:
    rows = table.scan().to_arrow().from_pylist(events(1, hour=5), schema=table.scan().to_arrow().schema)
    transaction = table.transaction()
    transaction.append(rows)
    to_hours(table)
    other = table.catalog.load_table(table.name())
    other.append(rows.slice(0, 0).from_pylist(events(2, first=10), schema=rows.schema))
    transaction.commit_transaction()
    assert ids(table) == [0, 1, 2, 10, 11, 12]
    assert ids(table, row_filter=FIVE_O_CLOCK) == []


def test_we_retry_a_stale_append_under_the_spec_it_was_planned_with(table: Table) -> None:
    change = append_change(table.metadata, [data_file(table, events(1, hour=5))])
    to_hours(table)
    other = table.catalog.load_table(table.name())
    commit(other, append_change(other.metadata, [data_file(other, events(2, first=10))]))
    commit(table, change)
    assert ids(table) == [0, 1, 2, 10, 11, 12]
    assert ids(table, row_filter=FIVE_O_CLOCK) == [0, 1, 2]


def with_a_dropped_partition_column(tmp_path: Path, region: str | None) -> tuple[Table, DataFile, DataFile]:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))
    table = local_catalog(tmp_path).create_table("db.regions", EVENTS, partition_spec=spec)
    kept, gone = data_file(table, events(1, region=region)), data_file(table, events(1, region=region, first=10))
    commit(table, append_change(table.metadata, [kept, gone]))
    with table.update_spec() as update:
        update.remove_field("region")
    with table.update_schema() as schema:
        schema.delete_column("region")
    return table, kept, gone


def test_pyiceberg_makes_a_table_unreadable_whose_partition_column_was_dropped(tmp_path: Path) -> None:
    table, _, _ = with_a_dropped_partition_column(tmp_path, region=None)
    table.delete("id >= 10")  # succeeds, and writes the partition with an unknown type
    with pytest.raises(IndexError):
        ids(table)


def test_pyiceberg_cannot_delete_where_the_dropped_column_had_values(tmp_path: Path) -> None:
    table, _, _ = with_a_dropped_partition_column(tmp_path, region="eu")
    with pytest.raises(TypeError, match="unknown"):
        table.delete("id >= 10")


@pytest.mark.parametrize("region", ["eu", None])
def test_we_keep_partitions_whose_column_was_dropped(tmp_path: Path, region: str | None) -> None:
    table, _, gone = with_a_dropped_partition_column(tmp_path, region)
    commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(gone)]))
    assert [entry.data_file.partition[0] for entry in live_entries(table).values()] == [region]
    assert ids(table) == [0, 1, 2]
