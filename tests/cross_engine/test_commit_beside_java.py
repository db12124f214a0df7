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
    replace_change,
    row_delta_change,
)
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.commit.validation import RewriteValidation
from tests.peer_iceberg import PeerTable
from tests.tables import EVENTS, data_file, events, ids, local_catalog, position_deletes

pytestmark = pytest.mark.once_last  # what it shows is of the catalog and the files, not of a Spark line

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
    deletes = [position_deletes(ours, files[0], [0, 1]), position_deletes(ours, files[2], [0])]

    commit(ours, append_change(ours.metadata, files[:3]))
    commit(ours, row_delta_change(ours.metadata, [], deletes))
    commit(ours, row_delta_change(ours.metadata, [files[3]], [position_deletes(ours, files[1], [0])]))
    commit(ours, replace_change(ours.metadata, [], [], removed_deletes=[RemovedFile.of(deletes[1])]))
    commit(ours, overwrite_change(ours.metadata, [], [RemovedFile.of(files[2])]))
    commit(ours, overwrite_change(ours.metadata, [data_file(ours, events(3, 4), 0)], [RemovedFile.of(files[1])]))

    peer = PeerTable(spark, f"{name}.db.theirs")
    java = _JavaFiles(peer, PeerTable(spark, f"{name}.db.ours"))
    first, second, third, fourth, fifth, sixth = ours.snapshots()
    for snapshot, operation in (
        (first, peer.java.newAppend),
        (second, peer.java.newRowDelta),
        (third, peer.java.newRowDelta),
        (fourth, peer.java.newRewrite),
        (fifth, peer.java.newOverwrite),
        (sixth, peer.java.newOverwrite),
    ):
        java.repeat(snapshot.snapshot_id, operation())
    wanted = summaries(theirs, without=_ENVIRONMENT)
    counted = any(_MANIFESTS[0] in summary for summary in wanted)
    found = summaries(ours, without=_ENVIRONMENT if counted else (*_ENVIRONMENT, *_MANIFESTS))
    for mine, java_s in zip(found, wanted, strict=True):
        assert mine == java_s


class _JavaFiles:
    """Repeats in one table what a snapshot of another one added and removed, through Java's API."""

    def __init__(self, peer: PeerTable, source: PeerTable) -> None:
        self.peer = peer
        self.source = source

    def repeat(self, snapshot_id: int, operation: Any) -> None:
        snapshot = self.source.java.snapshot(snapshot_id)
        io = self.source.java.io()
        kind = operation.getClass().getSimpleName()
        for file in snapshot.addedDataFiles(io):
            getattr(operation, {"MergeAppend": "appendFile", "BaseRowDelta": "addRows"}.get(kind, "addFile"))(file)
        for file in snapshot.removedDataFiles(io):
            operation.deleteFile(file)
        for file in snapshot.addedDeleteFiles(io):
            operation.addDeletes(file)
        for file in snapshot.removedDeleteFiles(io):
            operation.deleteFile(file)
        operation.commit()


@pytest.mark.parametrize("scope", ["partition", "global"])
def test_java_s_equality_delete_applies_to_what_we_compact_meanwhile(
    lake: tuple[str, Any], spark: Any, scope: str
) -> None:
    name, catalog = lake
    properties = {"commit.retry.min-wait-ms": "1"}
    table = catalog.create_table("db.events", EVENTS, partition_spec=BY_REGION, properties=properties)
    files = [data_file(table, events(day, first=10 * day)) for day in (1, 2)]
    commit(table, append_change(table.metadata, files))
    with table.update_spec() as update:
        update.remove_field("region")
    inputs = [RemovedFile.of(file) for file in files]
    compacted = data_file(table, [*events(1, first=10), *events(2, first=20)], 0)
    change = replace_change(table.metadata, [compacted], inputs, data_sequence_number=1)
    peer = PeerTable(spark, f"{name}.db.events")
    waiting = [0 if scope == "partition" else 1]

    def java_comes_first(*_: object) -> None:
        if waiting:
            peer.delete_equal("id", rows={"id": 11}, spec_id=waiting.pop())

    commit(table, change, validations=[RewriteValidation(change, in_place=inputs), java_comes_first])
    found = sorted(row[0] for row in spark.sql(f"select id from {name}.db.events").collect())
    assert found == [10, 12, 20, 21, 22]


def test_java_s_position_deletes_survive_our_rewriting_of_their_manifest(lake: tuple[str, Any], spark: Any) -> None:
    name, catalog = lake
    properties = {"write.delete.mode": "merge-on-read", "write.delete.granularity": "file"}
    table = catalog.create_table("db.events", EVENTS, partition_spec=BY_REGION, properties=properties)
    files = [data_file(table, events(day, first=10 * day)) for day in (1, 2)]
    commit(table, append_change(table.metadata, files))
    spark.sql(f"delete from {name}.db.events where id in (10, 20)")
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
