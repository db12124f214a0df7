"""Marking without Spark: which files are looked at, which rows are marked, where deletes lie, what is read by them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.commit.change_set import append_change, row_delta_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.dml.plan import Target, into_tasks, plan_target
from lakeshift.iceberg.dml.rules import Mode, Operation, Rules
from lakeshift.iceberg.kernels.mark import (
    ACTS,
    ROW_ID,
    FileWithMarks,
    Keys,
    MarkReport,
    mark_matching,
    mark_rows,
    pack_keys,
    read_by_marks,
    read_with_ids,
)
from lakeshift.iceberg.kernels.position_deletes import (
    DELETES,
    DeleteLayout,
    MarkedFile,
    PositionDeleteWriter,
    row_ids,
    row_positions,
)
from lakeshift.iceberg.parquet_options import ParquetOptions
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.partitioning import build_partition_spec
from lakeshift.iceberg.predicates import translate
from lakeshift.iceberg.read import read_context
from lakeshift.iceberg.specs import partition_type
from lakeshift.kernel import Attempt
from tests.tables import EVENTS, data_file, equality_deletes, events, files_under, local_catalog, position_deletes


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Files of two specs: by day, then by region; of the first day's file two rows are deleted already."""
    spec = build_partition_spec(EVENTS, ["day(ts)"])
    table = local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=spec)
    first = data_file(table, events(1, 5))
    commit(table, append_change(table.metadata, [first, data_file(table, events(2, 5, first=5))]))
    with table.update_spec() as update:
        update.remove_field("ts_day")
        update.add_identity("region")
    table.refresh()
    deletes = [position_deletes(table, first, [1]), equality_deletes(table, [{"id": 2}], ["id"], 0, first.partition)]
    added = [data_file(table, events(1, 5, first=10)), data_file(table, events(1, 5, region="us", first=15))]
    commit(table, row_delta_change(table.metadata, added, deletes))
    return table


def plan(table: Table, where: str, *, drop_whole: bool = False) -> tuple[Target, Any]:
    said = translate(where, table.schema())
    return plan_target(table.metadata, table.io, "main", said.pushed, drop_whole=drop_whole), said


def layout(table: Table, granularity: str = "file") -> DeleteLayout:
    metadata = table.metadata
    return DeleteLayout(
        granularity,
        DataLocations.of(metadata.location, metadata.properties),
        {key: PartitionPaths.of(spec, partition_type(metadata, spec)) for key, spec in metadata.specs().items()},
        ParquetOptions.of(DELETES, metadata.properties).writer_arguments,
    )


def mark(table: Table, where: str, granularity: str = "file") -> tuple[Target, MarkReport]:
    target, said = plan(table, where)
    context = read_context(table.metadata, table.schema(), (), said.pushed, exact=said.exact)
    reports = mark_matching(
        target.candidates, Attempt("test", 0), context=context, layout=layout(table, granularity), io=table.io
    )
    return target, next(iter(reports))


def test_files_are_pruned_by_each_spec_and_dropped_where_they_match_wholly(table: Table) -> None:
    target, _ = plan(table, "region = 'us'", drop_whole=True)
    assert target.live_files == 4
    # The day files hold region eu by their bounds; of spec 1 the partition says all.
    assert (len(target.candidates), [file.read.record_count for file in target.whole]) == (0, [5])
    target, _ = plan(table, "id < 7", drop_whole=True)
    # The file that has deletes is not dropped, though all of its rows match: how many are left is not known.
    assert ([file.read.record_count for file in target.whole], len(target.candidates)) == ([], 2)
    assert plan(table, "false")[0].candidates == ()
    assert plan_target(table.metadata, table.io, "main", AlwaysTrue(), drop_whole=True).whole_rows == 15


def test_rows_that_are_deleted_already_are_not_marked(table: Table) -> None:
    target, report = mark(table, "id < 7")
    assert {target.by_number()[c.number].read.path: c.rows for c in report.counts} == {
        target.candidates[0].read.path: 3,
        target.candidates[1].read.path: 2,
    }
    found = {
        row["file_path"]: row["pos"]
        for deletes in report.deletes
        for row in pq.read_table(deletes.location.removeprefix("file://")).to_pylist()
        if row["pos"] in (0, 1)
    }
    assert sorted(found.values()) == [0, 1]  # row 1 of the first file was deleted before


@pytest.mark.parametrize(("granularity", "files"), [("file", 4), ("partition", 3)])
def test_granularity_groups_deletes_by_file_or_by_partition(table: Table, granularity: str, files: int) -> None:
    more = data_file(table, events(3, 5, first=20))  # the second file of region eu in spec 1
    commit(table, append_change(table.metadata, [more]))
    target, report = mark(table, "amount = 3 AND region = 'eu'", granularity)
    assert len(report.counts) == 4
    assert len(report.deletes) == files
    for deletes in report.deletes:
        stored = pq.read_table(deletes.location.removeprefix("file://"))
        assert stored.num_rows == deletes.rows == len(deletes.files)
        assert stored["file_path"].to_pylist() == sorted(target.by_number()[n].read.path for n in deletes.files)
        assert {target.by_number()[n].marked.spec_id for n in deletes.files} == {
            target.by_number()[deletes.number].marked.spec_id
        }
        assert stored.schema.field("pos").metadata[b"PARQUET:field_id"] == b"2147483545"


def test_marked_rows_are_read_and_the_others_kept(table: Table) -> None:
    target, report = mark(table, "amount >= 3")
    marks: dict[int, list[tuple[str, int]]] = {}
    for deletes in report.deletes:
        for number in deletes.files:
            marks.setdefault(number, []).append((deletes.location, deletes.size))
    task = [FileWithMarks(file.number, file.read, tuple(marks[file.number])) for file in target.candidates]
    context = read_context(table.metadata, table.schema(), ("id", "amount"))
    read = partial(read_by_marks, task, Attempt("test", 0), context=context, io=table.io)
    marked = pa.Table.from_batches(read(which="marked"))
    kept = pa.Table.from_batches(read(which="unmarked"))
    assert set(marked["amount"].to_pylist()) == {3, 4}
    assert marked.column_names == ["id", "amount", ROW_ID]
    assert sorted(kept["id"].to_pylist()) == sorted(n for n in range(20) if n % 5 < 3 and n not in (1, 2))
    # What Spark finds by row ids is the same as what the kernel finds by the condition.
    everything = pa.Table.from_batches(
        read_with_ids(target.candidates, Attempt("test", 0), context=context, io=table.io)
    )
    chosen = everything.filter(pa.compute.greater_equal(everything["amount"], 3)).select([ROW_ID])
    by_number = {file.number: file.marked for file in target.candidates}
    again = next(
        iter(
            mark_rows(iter(chosen.to_batches()), Attempt("test", 1), files=by_number, layout=layout(table), io=table.io)
        )
    )
    assert sorted((c.number, c.rows) for c in again.counts) == sorted((c.number, c.rows) for c in report.counts)


def test_only_rows_with_a_key_are_read(table: Table) -> None:
    target, _ = plan(table, "true")
    batches = [pa.record_batch({"key": pa.array(keys, pa.int64())}) for keys in ([3, None, 3], [], [16, 99])]
    packed = [record.stream for record in pack_keys(iter(batches), Attempt("t", 0))]
    assert list(pack_keys(iter([]), Attempt("t", 1))) == []
    keys = Keys("id", tuple(packed))
    assert sorted(keys.values().to_pylist()) == [3, 16, 99]
    context = read_context(table.metadata, table.schema(), ("id",))
    read = read_with_ids(target.candidates, Attempt("t", 0), context=context, io=table.io, keys=keys)
    assert sorted(pa.Table.from_batches(read)["id"].to_pylist()) == [3, 16]


def test_rows_found_twice_are_told_and_marked_once(table: Table) -> None:
    target, _ = plan(table, "true")
    ids = pa.concat_arrays([row_ids(0, pa.array([3, 3, 4])), row_ids(2, pa.array([1, 1, 1]))])
    acts = pa.array([True, False, False, True, True, False])
    batch = pa.RecordBatch.from_arrays([ids, acts], names=[ROW_ID, ACTS])
    files = {file.number: file.marked for file in target.candidates}
    report = next(iter(mark_rows(iter([batch]), Attempt("t", 0), files=files, layout=None, io=table.io)))
    assert report.found_twice == 3
    assert [(count.number, count.rows) for count in report.counts] == [(0, 1), (2, 1)]
    assert report.deletes == []


def test_a_writer_that_fails_leaves_nothing(table: Table) -> None:
    before = files_under(table.location())
    files = {0: MarkedFile("a.parquet", 1, ("eu",)), 1: MarkedFile("b.parquet", 99, ())}
    writer = PositionDeleteWriter(layout(table), files, table.io, Attempt("t", 0))
    writer.add(0, np.array([1, 2]))
    with pytest.raises(KeyError):
        writer.add(1, np.array([1]))
    writer.abort()
    assert files_under(table.location()) == before


def test_row_ids_keep_file_and_position() -> None:
    far = 2**40 - 1
    ids = [row_ids(7, pa.array([0, far])), row_ids(0, pa.array([5])), row_ids(2**22, pa.array([9]))]
    assert {number: list(found) for number, found in row_positions(ids).items()} == {7: [0, far], 0: [5], 2**22: [9]}
    assert row_positions([]) == {}


def test_tasks_keep_files_whole_and_partitions_together(table: Table) -> None:
    target, _ = plan(table, "true")
    tasks = into_tasks(target.candidates, {"read.split.open-file-cost": "1"}, cores=2)
    assert sorted(file.number for task in tasks for file in task) == [0, 1, 2, 3]
    assert len(tasks) >= 2
    assert [file.marked.spec_id for task in tasks for file in task] == [0, 0, 1, 1]
    # Two deletes of one of them count as files to open, so that there are six.
    assert len(into_tasks(target.candidates, {}, cores=4)) == 2


def test_modes_and_levels_come_from_the_call_or_the_table(table: Table) -> None:
    rules = Rules.of(table.metadata, Operation.DELETE, None, None, {})
    assert (rules.mode, rules.isolation.value, rules.granularity) == (Mode.COPY_ON_WRITE, "serializable", "file")
    with table.transaction() as change:
        change.set_properties({"write.merge.mode": "merge-on-read", "write.merge.isolation-level": "snapshot"})
    rules = Rules.of(table.metadata, Operation.MERGE, None, None, {})
    assert (rules.mode, rules.isolation.value) == (Mode.MERGE_ON_READ, "snapshot")
    with pytest.raises(ConfigError, match="mode is 'sideways'"):
        Rules.of(table.metadata, Operation.DELETE, "sideways", None, {})
    with table.transaction() as change:
        change.set_properties({"write.update.mode": "both"})
    with pytest.raises(ConfigError, match=r"write\.update\.mode is 'both'"):
        Rules.of(table.metadata, Operation.UPDATE, None, None, {})


def test_version_1_is_copied_on_write(tmp_path: Path) -> None:
    catalog = local_catalog(tmp_path)
    old = catalog.create_table(
        "db.old", EVENTS, properties={"format-version": "1", "write.delete.mode": "merge-on-read"}
    )
    assert Rules.of(old.metadata, Operation.DELETE, None, None, {}).mode is Mode.COPY_ON_WRITE
    with pytest.raises(UnsupportedTableError, match="format version 1"):
        Rules.of(old.metadata, Operation.DELETE, "merge-on-read", None, {})
