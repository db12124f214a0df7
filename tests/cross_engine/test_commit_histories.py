"""Histories over five specs, committed by us: Java and PyIceberg read every snapshot and can write on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, IdentityTransform, TruncateTransform

from lakeshift.iceberg.commit.change_set import (
    RemovedFile,
    append_change,
    overwrite_change,
    replace_change,
    row_delta_change,
)
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.ledger import read_ledger
from tests.tables import EVENTS, data_file, events, ids, live_entries, local_catalog, position_deletes

pytestmark = pytest.mark.once_last  # what it shows is of the catalog and the files, not of a Spark line

BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))


@dataclass
class History:
    """A table, and what every one of its snapshots should hold, kept by a plain model."""

    table: Table
    drops_a_column: bool
    live: dict[str, tuple[DataFile, list[int]]] = field(default_factory=dict)
    expected: dict[int, list[int]] = field(default_factory=dict)
    next_id: int = 0

    def new_file(self, day: int, spec_id: int, region: str = "eu", hour: int = 0) -> DataFile:
        rows = events(day, 3, region=region, hour=hour, first=self.next_id)
        if "region" not in [column.name for column in self.table.schema().columns]:
            rows = [{name: value for name, value in row.items() if name != "region"} for row in rows]
        dropped = spec_id == 0 and "region" not in rows[0]
        file = data_file(self.table, rows, spec_id, partition=[region] if dropped else None)
        self.live[file.file_path] = (file, [row["id"] for row in rows])
        self.next_id += 3
        return file

    def remove(self, file: DataFile) -> RemovedFile:
        del self.live[file.file_path]
        return RemovedFile.of(file)

    def delete_first_row(self, file: DataFile) -> DataFile:
        self.live[file.file_path][1].pop(0)
        return position_deletes(self.table, file, [0])

    def whole_file(self, spec_id: int) -> DataFile:
        return next(file for file, rows in self.live.values() if file.spec_id == spec_id and len(rows) == 3)

    def note(self) -> None:
        """Remember what the current snapshot should hold."""
        snapshot_id = self.table.refresh().metadata.current_snapshot_id
        self.expected[snapshot_id] = sorted(number for _, numbers in self.live.values() for number in numbers)


def evolve(history: History, step: int) -> None:
    """Region; day and bucket; nothing; hour, with the region column dropped; a truncated id.

    In v1 fields that go stay as void ones. Java cannot insert where such a one has lost its column, nor
    PyIceberg where two fields have one source, so that history goes by other columns.
    """
    table = history.table
    void = table.format_version == 1
    if step == 1:
        with table.update_spec() as update:
            update.remove_field("region")
            update.add_field("ts", DayTransform(), "ts_day")
            if not void:
                update.add_field("id", BucketTransform(4), "id_bucket")
    elif step == 2:
        with table.update_spec() as update:
            update.remove_field("ts_day")
            if not void:
                update.remove_field("id_bucket")
    elif step == 3:
        with table.update_spec() as update:
            if void:
                update.add_field("amount", BucketTransform(4), "amount_bucket")
            else:
                update.add_field("ts", HourTransform(), "ts_hour")
        if history.drops_a_column:
            with table.update_schema() as schema:
                schema.delete_column("region")
    elif step == 4:
        with table.update_spec() as update:
            update.remove_field("amount_bucket" if void else "ts_hour")
            update.add_field("id", TruncateTransform(100), "id_hundreds")


def commit_on_every_spec(history: History, step: int, *, with_deletes: bool) -> None:
    """Append to all specs so far, then change files of all of them in one snapshot, then compact one."""
    table = history.table
    specs = range(step + 1)
    commit(table, append_change(table.metadata, [history.new_file(step + 1, s, hour=s) for s in specs for _ in "ab"]))
    history.note()
    if with_deletes:
        deletes = [history.delete_first_row(history.whole_file(s)) for s in specs]
        new = [history.new_file(step + 10, s) for s in specs]
        commit(table, row_delta_change(table.metadata, new, deletes))
        history.note()
    # A file without deletes of its own goes, in every spec, and new ones come.
    untouched = [
        next(f for f, numbers in reversed(history.live.values()) if f.spec_id == s and len(numbers) == 3) for s in specs
    ]
    removed = [history.remove(file) for file in untouched]
    commit(table, overwrite_change(table.metadata, [history.new_file(20 + step, step)], removed))
    history.note()
    old = next(f for f, numbers in reversed(history.live.values()) if f.spec_id == step and len(numbers) == 3)
    numbers = history.live[old.file_path][1]
    rows = [{**row, "id": number} for row, number in zip(events(20 + step, 3), numbers, strict=True)]
    # The table's current schema may lack the region; rows take the columns that there are.
    names = [column.name for column in table.schema().columns]
    compacted = data_file(
        table, [{name: row[name] for name in names} for row in rows], step, partition=list(old.partition._data)
    )
    history.live[compacted.file_path] = (compacted, numbers)
    number = live_entries(table)[old.file_path].sequence_number if table.format_version > 1 else None
    commit(table, replace_change(table.metadata, [compacted], [history.remove(old)], data_sequence_number=number))
    history.note()


@pytest.mark.parametrize(("format_version", "drops_a_column"), [(1, False), (2, False), (2, True)])
def test_both_engines_read_every_snapshot_and_write_on(
    tmp_path: Path, spark: Any, java_catalog: Callable[[Path], str], format_version: int, drops_a_column: bool
) -> None:
    name = java_catalog(tmp_path)
    catalog = local_catalog(tmp_path, name)
    properties = {
        "format-version": str(format_version),
        "commit.manifest.min-count-to-merge": "4",
        "write.delete.mode": "copy-on-write",
    }
    table = catalog.create_table("db.events", EVENTS, partition_spec=BY_REGION, properties=properties)
    history = History(table, drops_a_column)
    for step in range(5):
        evolve(history, step)
        commit_on_every_spec(history, step, with_deletes=format_version > 1)
    table.refresh()
    assert len(table.specs()) == 5
    if format_version == 1:
        assert [str(each.transform) for each in table.spec().fields].count("void") == 3

    def java(sql: str) -> list[int]:
        return sorted(row[0] for row in spark.sql(sql.format(t=f"{name}.db.events")).collect())

    assert len(history.expected) == (20 if format_version > 1 else 15)
    for snapshot_id, expected in history.expected.items():
        assert java(f"select id from {{t}}.snapshot_id_{snapshot_id}") == expected
        assert ids(table, snapshot_id=snapshot_id) == expected

    now = history.expected[table.metadata.current_snapshot_id]
    # Filters on a partition source prune by each file's own spec.
    for day, hour in [(1, 0), (4, 2), (5, 4), (20, 0), (24, 0)]:
        moment = f"2026-01-{day:02} {hour:02}:00:00"
        found = java(f"select id from {{t}} where ts = timestamp_ntz'{moment}'")
        assert found == ids(table, row_filter=f"ts == '{moment.replace(' ', 'T')}'")
        assert set(found) <= set(now)
    assert java("select id from {t} where ts < timestamp_ntz'2026-01-02'") == ids(
        table, row_filter="ts < '2026-01-02T00:00:00'"
    )

    # Java writes on. It cannot rewrite a manifest whose partition column was dropped without losing the values
    # (see below), so that there it only inserts.
    if drops_a_column:
        with table.transaction() as transaction:
            transaction.set_properties({"commit.manifest-merge.enabled": "false"})
    columns = "" if drops_a_column else "'eu', "
    spark.sql(f"insert into {name}.db.events values (9000, timestamp_ntz'2026-02-01 00:00:00', {columns}1)")
    expected = sorted([*now, 9000])
    assert java("select id from {t}") == ids(table) == expected
    if not drops_a_column:
        gone = now[:4]
        spark.sql(f"delete from {name}.db.events where id in ({', '.join(str(number) for number in gone)})")
        expected = [number for number in expected if number not in gone]
        assert java("select id from {t}") == ids(table) == expected
        spark.sql(f"call {name}.system.rewrite_manifests('db.events')")
        assert java("select id from {t}") == ids(table) == expected

    # PyIceberg writes on, and then we do, on what both of them wrote.
    arrow = table.scan().to_arrow()
    table.append(arrow.from_pylist([{"id": 9001, "amount": 1}], schema=arrow.schema))
    written_by_java = next(
        entry.data_file
        for entry in live_entries(table.refresh()).values()
        if entry.data_file.record_count == 1 and entry.data_file.lower_bounds[1] == (9000).to_bytes(8, "little")
    )
    commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(written_by_java)]))
    expected = sorted([number for number in expected if number != 9000] + [9001])
    assert java("select id from {t}") == ids(table) == expected

    # What Java counts file by file is what our summary says.
    totals = table.refresh().metadata.current_snapshot().summary
    files = spark.sql(f"select content, record_count from {name}.db.events.files").collect()
    assert int(totals["total-data-files"]) == sum(row["content"] == 0 for row in files)
    assert int(totals["total-records"]) == sum(row["record_count"] for row in files if row["content"] == 0)
    assert int(totals["total-delete-files"]) == sum(row["content"] != 0 for row in files)


def test_java_loses_partitions_whose_column_was_dropped_when_it_rewrites_a_manifest(
    tmp_path: Path, spark: Any, java_catalog: Callable[[Path], str]
) -> None:
    """A fact about Java 1.11 and 1.12, which limits what the test above can ask of it; our own rewriting keeps them."""
    name = java_catalog(tmp_path)
    properties = {"write.delete.mode": "copy-on-write"}
    catalog = local_catalog(tmp_path, name)
    table = catalog.create_table("db.events", EVENTS, partition_spec=BY_REGION, properties=properties)
    kept, gone, other = (data_file(table, events(day, first=10 * day)) for day in (1, 2, 3))
    commit(table, append_change(table.metadata, [kept, gone, other]))
    with table.update_spec() as update:
        update.remove_field("region")
    with table.update_schema() as schema:
        schema.delete_column("region")
    commit(table, overwrite_change(table.metadata, [], [RemovedFile.of(gone)]))
    assert live_entries(table)[kept.file_path].data_file.partition[0] == "eu"
    spark.sql(f"delete from {name}.db.events where id = 30")
    rows = read_ledger(table.refresh().metadata, table.io).data[0].to_pylist()
    assert [(row["file_path"], row["partition"]) for row in rows] == [(kept.file_path, {"region": None})]
