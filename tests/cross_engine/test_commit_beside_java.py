"""Our commits beside Java's: the same summaries, Java's deletes under our compaction, and what we leave to Java."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from lakeshift.errors import UnsupportedTableError
from lakeshift.iceberg.commit.change_set import (
    RemovedFile,
    append_change,
    overwrite_change,
)
from lakeshift.iceberg.commit.commit import commit
from tests.peer_iceberg import PeerTable
from tests.tables import EVENTS, data_file, events, ids, local_catalog

BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))

# Who wrote a snapshot differs, of course; these two come from the Spark application.
_ENVIRONMENT = ("engine-name", "engine-version", "iceberg-version", "app-id", "spark.app.id", "app-name")
# Newer Java runtimes count manifests, older ones do not.
_MANIFESTS = ("manifests-created", "manifests-kept", "manifests-replaced")


@pytest.fixture
def lake(tmp_path: Path, java_catalog: Callable[[Path], str]) -> tuple[str, Any]:
    name = java_catalog(tmp_path)
    return name, local_catalog(tmp_path, name)


def summaries(table: Table, *, without: tuple[str, ...]) -> list[dict[str, str]]:
    table.refresh()
    return [
        {key: value for key, value in snapshot.summary.model_dump().items() if key not in without}
        for snapshot in table.snapshots()
    ]


def test_summaries_are_those_of_java(lake: tuple[str, Any], spark: Any) -> None:
    """The same files, added and removed in the same operations: by us in one table, by Java in another."""
    name, catalog = lake
    # Java merges manifests of a second spec at once, whatever the minimal count; that is not what is compared here.
    properties = {"commit.manifest-merge.enabled": "false"}
    ours = catalog.create_table("db.ours", EVENTS, partition_spec=BY_REGION, properties=properties)
    theirs = catalog.create_table("db.theirs", EVENTS, partition_spec=BY_REGION, properties=properties)
    for table in (ours, theirs):
        with table.update_spec() as update:
            update.add_identity("id")
    files = [
        data_file(ours, events(1, region="eu"), 0),
        data_file(ours, events(1, 2, region="us", first=10), 0),
        data_file(ours, events(2, 1, first=20), 1),
        data_file(ours, events(2, 1, first=30), 1),
    ]
    before = {row["file_path"]: row for row in spark.sql(f"select * from {name}.db.events.delete_files").collect()}
    assert len(before) == 2
    # One of Java's delete files goes with its data file, the other is carried over in a new manifest.
    (gone,) = PeerTable(spark, f"{name}.db.events").planned_deletes()[files[0].file_path]
    table.refresh()
    change = overwrite_change(table.metadata, [], [RemovedFile.of(files[0])], removed_deletes=[RemovedFile(gone, 0)])
    result = commit(table, change)
    assert (result.removed_data_files, result.removed_delete_files) == (1, 1)
    assert ids(table) == [21, 22]
    assert sorted(row[0] for row in spark.sql(f"select id from {name}.db.events").collect()) == [21, 22]
    # All that Java said of the one that stays is still there.
    del before[gone]
    after = spark.sql(f"select * from {name}.db.events.delete_files").collect()
    assert {row["file_path"]: row for row in after} == before


def test_a_v3_table_of_java_s_is_refused(lake: tuple[str, Any], spark: Any) -> None:
    name, catalog = lake
    spark.sql(f"create table {name}.db.new (id bigint) using iceberg tblproperties ('format-version' = '3')")
    table = catalog.load_table("db.new")
    with pytest.raises(UnsupportedTableError, match="format version 3"):
        append_change(table.metadata, [])
