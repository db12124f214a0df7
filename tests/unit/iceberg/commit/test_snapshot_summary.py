"""What snapshots say of themselves: the keys and totals that Java writes, operation by operation."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform, TruncateTransform

import lakeshift
from lakeshift.iceberg.commit.change_set import (
    ChangeSet,
    RemovedFile,
    append_change,
    overwrite_change,
    replace_change,
    row_delta_change,
)
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.commit.result import SpecCounts
from lakeshift.iceberg.commit.summary import ManifestCounts, summarise_snapshot
from tests.tables import EVENTS, data_file, equality_deletes, events, local_catalog, position_deletes

BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=BY_DAY)


def committed(table: Table, change: ChangeSet) -> dict[str, str]:
    commit(table, change)
    return table.current_snapshot().summary.model_dump()


def engine(created: int, kept: int, replaced: int) -> dict[str, str]:
    return {
        "manifests-created": str(created),
        "manifests-kept": str(kept),
        "manifests-replaced": str(replaced),
        "engine-name": "lakeshift",
        "engine-version": lakeshift.__version__,
    }


def test_every_operation_says_what_it_did(table: Table) -> None:
    first, second = data_file(table, events(1)), data_file(table, events(2, 5))
    size = first.file_size_in_bytes + second.file_size_in_bytes
    assert committed(table, append_change(table.metadata, [first, second])) == {
        "operation": "append",
        "added-data-files": "2",
        "added-records": "8",
        "added-files-size": str(size),
        "changed-partition-count": "2",
        "total-data-files": "2",
        "total-delete-files": "0",
        "total-records": "8",
        "total-files-size": str(size),
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
        **engine(1, 0, 0),
    }

    position = position_deletes(table, first, [0, 1])
    equality = equality_deletes(table, events(2, 1), ["id"])
    deletes_size = position.file_size_in_bytes + equality.file_size_in_bytes
    assert committed(table, row_delta_change(table.metadata, [], [position, equality])) == {
        "operation": "delete",
        "added-delete-files": "2",
        "added-position-delete-files": "1",
        "added-equality-delete-files": "1",
        "added-position-deletes": "2",
        "added-equality-deletes": "1",
        "added-files-size": str(deletes_size),
        "changed-partition-count": "2",
        "total-data-files": "2",
        "total-delete-files": "2",
        "total-records": "8",
        "total-files-size": str(size + deletes_size),
        "total-position-deletes": "2",
        "total-equality-deletes": "1",
        **engine(1, 1, 0),
    }

    compacted = data_file(table, events(1, 1))
    change = replace_change(
        table.metadata, [compacted], [RemovedFile.of(first)], removed_deletes=[RemovedFile.of(position)]
    )
    total = size + deletes_size + compacted.file_size_in_bytes - first.file_size_in_bytes - position.file_size_in_bytes
    assert committed(table, change) == {
        "operation": "replace",
        "added-data-files": "1",
        "deleted-data-files": "1",
        "removed-delete-files": "1",
        "removed-position-delete-files": "1",
        "added-records": "1",
        "deleted-records": "3",
        "removed-position-deletes": "2",
        "added-files-size": str(compacted.file_size_in_bytes),
        "removed-files-size": str(first.file_size_in_bytes + position.file_size_in_bytes),
        "changed-partition-count": "1",
        "total-data-files": "2",
        "total-delete-files": "1",
        "total-records": "6",
        "total-files-size": str(total),
        "total-position-deletes": "0",
        "total-equality-deletes": "1",
        **engine(3, 0, 2),
    }

    assert committed(table, overwrite_change(table.metadata, [], [RemovedFile.of(second)])) == {
        "operation": "delete",
        "deleted-data-files": "1",
        "deleted-records": "5",
        "removed-files-size": str(second.file_size_in_bytes),
        "changed-partition-count": "1",
        "total-data-files": "1",
        "total-delete-files": "1",
        "total-records": "1",
        "total-files-size": str(total - second.file_size_in_bytes),
        "total-position-deletes": "0",
        "total-equality-deletes": "1",
        **engine(1, 2, 1),
    }


def test_a_changed_partition_is_one_of_a_spec(tmp_path: Path) -> None:
    """The same values under two specs are two partitions; twice under one spec they are one."""
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))
    table = local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=spec)
    with table.update_spec() as update:
        update.remove_field("region")
        update.add_field("region", TruncateTransform(4), "region_start")
    files = [data_file(table, events(1), spec_id=spec_id) for spec_id in (0, 1, 0)]
    assert {tuple(file.partition._data) for file in files} == {("eu",)}
    assert committed(table, append_change(table.metadata, files))["changed-partition-count"] == "2"


def test_an_unpartitioned_commit_changes_one_partition(tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table("db.flat", EVENTS)
    change = append_change(table.metadata, [data_file(table, events(1)), data_file(table, events(2))])
    assert committed(table, change)["changed-partition-count"] == "1"


def test_partitions_are_summed_up_where_the_table_asks_for_it(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))
    table = local_catalog(tmp_path).create_table(
        "db.events", EVENTS, partition_spec=spec, properties={"write.summary.partition-limit": "2"}
    )
    eu, us = data_file(table, events(1)), data_file(table, events(1, 2, region="us"))
    summary = committed(table, append_change(table.metadata, [eu, us]))
    assert summary["partition-summaries-included"] == "true"
    assert (
        summary["partitions.region=us"]
        == f"added-data-files=1,added-records=2,added-files-size={us.file_size_in_bytes}"
    )
    three = [data_file(table, events(1, region=region)) for region in ("a", "b", "c")]
    assert "partition-summaries-included" not in committed(table, append_change(table.metadata, three))


def test_totals_that_the_parent_does_not_know_are_left_out(table: Table) -> None:
    commit(table, append_change(table.metadata, [data_file(table, events(1))]))
    summary = table.metadata.current_snapshot().summary
    del summary.additional_properties["total-records"]
    parent = table.metadata.current_snapshot()
    made = summarise_snapshot(table.metadata, parent, [], [], ManifestCounts(0, 0, 0), {})
    assert "total-records" not in made
    assert made["total-data-files"] == "1"


def test_the_result_counts_by_spec(table: Table) -> None:
    old = data_file(table, events(1))
    commit(table, append_change(table.metadata, [old]))
    with table.update_spec() as update:
        update.add_identity("region")
    new = data_file(table, events(1, 2))
    change = row_delta_change(table.metadata, [new], [position_deletes(table, old, [0, 1])])
    result = commit(table, change)
    assert result.by_spec == {0: SpecCounts(added_delete_files=1), 1: SpecCounts(added_data_files=1)}
    assert (result.rows_written, result.rows_deleted, result.rows_quarantined) == (2, 2, 0)
    assert result.to_dict()["by_spec"] == {
        "0": {"added_data_files": 0, "added_delete_files": 1, "removed_data_files": 0, "removed_delete_files": 0},
        "1": {"added_data_files": 1, "added_delete_files": 0, "removed_data_files": 0, "removed_delete_files": 0},
    }
