"""The rewrite kernels without Spark: rows kept, deletes applied, files of even size, nothing left after a failure."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.iceberg.commit.change_set import RemovedFile, append_change, replace_change, row_delta_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.kernels import move
from lakeshift.iceberg.kernels.data_files import WrittenFile, to_data_file
from lakeshift.iceberg.kernels.move import MoveTask, Places, WholeFiles, send_rows, write_moved
from lakeshift.iceberg.kernels.rewrite import RewriteReport, RewriteTask, rewrite_files
from lakeshift.iceberg.rewrite import tasks
from lakeshift.iceberg.rewrite.group_jobs import worth_joining
from lakeshift.iceberg.rewrite.options import RewriteOptions
from lakeshift.iceberg.rewrite.planner import RewriteDataFilesPlanner
from lakeshift.iceberg.rewrite.tasks import GroupFiles, cut, move_tasks, rewrite_job, rewrite_tasks
from lakeshift.kernel import Attempt
from lakeshift.locations import canonical_location
from tests.tables import (
    EVENTS,
    data_file,
    equality_deletes,
    events,
    files_under,
    live_entries,
    local_catalog,
    position_deletes,
)

BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=BY_DAY)


def plan(table: Table, target_spec_id: int | None = None, **options: Any) -> Any:
    planner = RewriteDataFilesPlanner(
        table.metadata,
        table.io,
        options=RewriteOptions(rewrite_all=True, **options),
        target_spec_id=target_spec_id,
    )
    return planner.plan()


def rewritten(table: Table, planned: Any) -> list[tuple[RewriteTask, RewriteReport]]:
    """Run the kernel on every task of a plan whose rows keep their partition."""
    job, made = rewrite_job(table.metadata, planned), GroupFiles(planned)
    found = []
    for group in planned.groups:
        for task in rewrite_tasks(group, made.of(group), job.outputs[group.output_spec_id]):
            (report,) = rewrite_files(task, Attempt("op", len(found)), job=job, io=table.io)
            found.append((task, report))
    return found


def rows_of(report: RewriteReport) -> list[dict[str, Any]]:
    tables = [pq.read_table(canonical_location(file.location)) for file in report.files]
    return [row for each in tables for row in each.to_pylist()]


def test_rows_go_from_file_to_file_in_their_order(table: Table) -> None:
    first, second = events(1, 5), events(1, 4, first=100, hour=3)
    commit(table, append_change(table.metadata, [data_file(table, first), data_file(table, second)]))
    ((_, report),) = rewritten(table, plan(table))
    assert rows_of(report) == [*first, *second]
    (file,) = report.files
    assert (file.rows, file.spec_id) == (9, 0)
    assert "/data/ts_day=2026-01-01/op-00000-" in file.location
    assert file.null_value_counts[1] == 0
    assert report.seconds > 0


def test_deletes_of_every_kind_are_applied(table: Table) -> None:
    rows = events(1, 9)
    kept = data_file(table, rows)
    commit(table, append_change(table.metadata, [kept]))
    deletes = [position_deletes(table, kept, [0, 8]), equality_deletes(table, [rows[3]], ["id"])]
    commit(table, row_delta_change(table.metadata, [], deletes))
    with table.update_spec() as update:
        update.remove_field("ts_day")
    commit(table, row_delta_change(table.metadata, [], [equality_deletes(table, [rows[5]], ["id", "region"])]))
    (group,) = plan(table).groups
    assert group.delete_files == 3
    ((_, report),) = rewritten(table, plan(table))
    assert [row["id"] for row in rows_of(report)] == [1, 2, 4, 6, 7]


def test_a_group_whose_rows_are_all_deleted_leaves_no_file(table: Table) -> None:
    kept = data_file(table, events(1, 3))
    commit(table, append_change(table.metadata, [kept]))
    commit(table, row_delta_change(table.metadata, [], [position_deletes(table, kept, [0, 1, 2])]))
    before = files_under(table.location())
    ((_, report),) = rewritten(table, plan(table))
    assert report.files == []
    assert files_under(table.location()) == before


def wide(number: int, count: int) -> list[dict[str, Any]]:
    """Rows that compress badly: text without a pattern."""
    import random

    chance = random.Random(number)
    return [{**row, "region": chance.randbytes(60).hex()} for row in events(1, count, first=number * count)]


@pytest.mark.parametrize(("files", "rows"), [(6, 700), (1, 4200), (40, 100)])
def test_new_files_are_of_even_size_by_real_bytes(table: Table, files: int, rows: int) -> None:
    """Each is within the limits, whatever the input's sizes were, and none is a small rest."""
    written = [data_file(table, wide(number, rows)) for number in range(files)]
    commit(table, append_change(table.metadata, written))
    target = sum(file.file_size_in_bytes for file in written) // 5
    planned = plan(table, target_file_size_bytes=target)
    ((_, report),) = rewritten(table, planned)
    assert sum(file.rows for file in report.files) == files * rows
    assert len(report.files) in (2, 3)  # they compress to half of what they were
    for file in report.files:
        assert planned.sizes.smallest <= file.size <= planned.sizes.largest
        assert len(file.split_offsets) <= 8


def test_row_groups_do_not_become_small(table: Table) -> None:
    written = [data_file(table, wide(number, 100)) for number in range(30)]
    commit(table, append_change(table.metadata, written))
    ((_, report),) = rewritten(table, plan(table))
    assert [len(file.split_offsets) for file in report.files] == [1]


def test_a_large_group_is_split_and_so_are_its_large_files(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [data_file(table, wide(number, 100)) for number in range(4)]
    large = data_file(table, wide(9, 4000))
    path = Path(canonical_location(large.file_path))
    pq.write_table(pq.read_table(path), path, row_group_size=500, store_schema=False)
    large._data[5] = path.stat().st_size
    commit(table, append_change(table.metadata, [*small, large]))
    planned = plan(table, target_file_size_bytes=large.file_size_in_bytes // 8)
    monkeypatch.setattr(tasks, "TASK_BYTES", large.file_size_in_bytes // 4)
    found = rewritten(table, planned)
    assert len(found) == 4
    stretches = [file.stretch for task, _ in found for file in task.files if file.path == large.file_path]
    assert len(stretches) > 1
    assert None not in stretches
    rows = [row for number in range(4) for row in wide(number, 100)] + wide(9, 4000)
    assert sorted(row["id"] for _, report in found for row in rows_of(report)) == sorted(row["id"] for row in rows)
    # One may be small, as long as planning would not choose it again.
    assert worth_joining([file for _, report in found for file in report.files], planned) == []


def test_a_failure_leaves_nothing_behind(table: Table) -> None:
    written = [data_file(table, wide(number, 300)) for number in range(4)]
    commit(table, append_change(table.metadata, written))
    before = files_under(table.location())
    Path(canonical_location(written[-1].file_path)).write_bytes(b"PAR1 broken PAR1")
    with pytest.raises(pa.ArrowInvalid):
        rewritten(table, plan(table, target_file_size_bytes=10_000))
    assert files_under(table.location()) == before


def moved(table: Table, planned: Any, places: tuple[int, ...]) -> tuple[list[MoveTask], list[RewriteReport]]:
    """Both halves of a move without Spark in between: the tasks that send rows, and what each place writes of them."""
    (group,) = planned.groups
    assert group.key is None
    job, files = rewrite_job(table.metadata, planned), GroupFiles(planned).of(group)
    tasks = move_tasks(group, files, places, cores=2)
    sent: dict[int, list[pa.RecordBatch]] = {place: [] for place in places}
    for number, task in enumerate(tasks):
        for message in send_rows(task, Attempt("op", number), job=job, spec_id=group.output_spec_id, io=table.io):
            sent[message.column("place")[0].as_py()].append(message)
    reports = [
        report
        for number, batches in enumerate(sent.values())
        for report in write_moved(
            iter(batches),
            Attempt("op", 10 + number),
            job=job,
            spec_id=group.output_spec_id,
            io=table.io,
            sample=files[0],
        )
    ]
    return tasks, reports


def bucketed(table: Table) -> None:
    with table.update_spec() as update:
        update.remove_field("ts_day")
        update.add_field("id", BucketTransform(8), "id_bucket")
        update.add_field("region", IdentityTransform(), "region")


def check_buckets(files: list[WrittenFile], rows: int) -> None:
    """Every partition has one file, and every row is in the file of its partition."""
    partitions = [tuple(file.partition) for file in files]
    assert len(set(partitions)) == len(partitions) == 8
    assert sum(file.rows for file in files) == rows
    for file in files:
        bucket = int.from_bytes(file.partition[0] or b"", "little")
        stored = pq.read_table(canonical_location(file.location))["id"].to_pylist()
        assert {BucketTransform(8).transform(EVENTS.find_type("id"))(value) for value in stored} == {bucket}


def test_rows_that_move_go_to_the_task_of_their_new_partition(table: Table) -> None:
    commit(table, append_change(table.metadata, [data_file(table, events(d, 50, first=100 * d)) for d in (1, 2, 3)]))
    bucketed(table)
    tasks, reports = moved(table, plan(table, target_spec_id=1), (7, 8, 9))
    assert sorted(len(task.files) for task in tasks) == [1, 2]
    check_buckets([file for report in reports for file in report.files], 150)


def test_files_of_the_new_spec_are_read_by_the_task_that_writes_their_partition(table: Table) -> None:
    """Their rows are not sent, yet come into one file with those of their partition that were; deletes are applied."""
    commit(table, append_change(table.metadata, [data_file(table, events(1, 50, first=100))]))
    bucketed(table)
    _, before = moved(table, plan(table, target_spec_id=1), (7, 8, 9))
    there = [to_data_file(table.metadata, file) for report in before for file in report.files]
    commit(table, append_change(table.metadata, there))
    kept = next(file for file in there if file.record_count > 2)
    commit(table, row_delta_change(table.metadata, [], [position_deletes(table, kept, [0, 1])]))
    tasks, reports = moved(table, plan(table, target_spec_id=1), (7, 8, 9))
    assert [len(task.files) for task in tasks] == [1]
    told = [whole for task in tasks for whole in task.whole]
    assert sorted(file.path for whole in told for file in whole.files) == sorted(file.file_path for file in there)
    # As many partitions for each of the tasks, as they are of about equal size.
    assert sorted(sum(whole.place == place for whole in told) for place in (7, 8, 9)) == [2, 3, 3]
    check_buckets([file for report in reports for file in report.files], 98)


def test_what_is_thought_of_a_files_partition_only_decides_who_reads_it(table: Table) -> None:
    """Rows are written where their values belong, even if a task was told of a file with rows of other partitions."""
    commit(table, append_change(table.metadata, [data_file(table, events(1, 50))]))
    bucketed(table)
    planned = plan(table, target_spec_id=1)
    job, files = rewrite_job(table.metadata, planned), tuple(GroupFiles(planned).of(planned.groups[0]))
    task = MoveTask((), Places((4,), {}), (WholeFiles(4, "(0, 'eu')", files),))
    sent = send_rows(task, Attempt("op", 0), job=job, spec_id=1, io=table.io)
    (report,) = write_moved(sent, Attempt("op", 1), job=job, spec_id=1, io=table.io, sample=files[0])
    check_buckets(report.files, 50)


def test_messages_are_small_and_hold_every_row_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones would each take memory of their own in the JVM."""
    monkeypatch.setattr(move, "_MESSAGE_BYTES", 4000)
    rows = [{**row, "region": "eu"} for row in wide(1, 500)]
    commit(table, append_change(table.metadata, [data_file(table, rows)]))
    bucketed(table)
    planned = plan(table, target_spec_id=1)
    job, files = rewrite_job(table.metadata, planned), tuple(GroupFiles(planned).of(planned.groups[0]))
    task = MoveTask(files, Places((4, 5), {}))
    messages = list(send_rows(task, Attempt("op", 0), job=job, spec_id=1, io=table.io))
    assert max(message["rows"][0].as_buffer().size for message in messages) < 6000
    sent = [pa.ipc.read_record_batch(message["rows"][0].as_buffer(), job.layout.arrow) for message in messages]
    assert sorted(value for part in sent for value in part["id"].to_pylist()) == sorted(row["id"] for row in rows)


def test_cutting_keeps_every_byte_once(table: Table) -> None:
    commit(table, append_change(table.metadata, [data_file(table, wide(n, 50 * n)) for n in range(1, 9)]))
    (group,) = plan(table).groups
    files = GroupFiles(plan(table)).of(group)
    for pieces in range(1, 12):
        parts = cut(files, pieces)
        assert len(parts) <= pieces
        by_path: dict[str, list[tuple[int, int]]] = {}
        for part in parts:
            assert part
            for file in part:
                by_path.setdefault(file.path, []).append(file.stretch or (0, file.length))
        for file in files:
            stretches = by_path[file.path]
            assert stretches[0][0] == 0
            assert stretches[-1][1] >= file.length
            assert all(before[1] == after[0] for before, after in pairwise(stretches))


def test_tasks_pickle(table: Table) -> None:
    import pickle

    commit(table, append_change(table.metadata, [data_file(table, events(1))]))
    planned = plan(table)
    job = rewrite_job(table.metadata, planned)
    files = tuple(GroupFiles(planned).of(planned.groups[0]))
    task = MoveTask(files, Places((1,), {"(2,)": 1}), (WholeFiles(1, "(2,)", files),))
    assert pickle.loads(pickle.dumps(task)) == task
    assert pickle.loads(pickle.dumps(job)).sizes == planned.sizes


TYPES: list[tuple[Any, Any, Any]] = [
    (BooleanType(), True, True),
    (IntegerType(), -7, -7),
    (DateType(), date(1969, 12, 30), -2),
    (TimeType(), time(1, 2, 3), 3_723_000_000),
    (TimestampType(), datetime(2026, 1, 1), 1_767_225_600_000_000),
    (TimestamptzType(), datetime(2026, 1, 1, tzinfo=UTC), 1_767_225_600_000_000),
    (StringType(), "a/b=ü", "a/b=ü"),
    (BinaryType(), b"\x00\xff", b"\x00\xff"),
    (FixedType(3), b"abc", b"abc"),
    (DecimalType(9, 2), Decimal("-1.25"), Decimal("-1.25")),
    (DoubleType(), float("nan"), float("nan")),
    (UUIDType(), UUID(int=5).bytes, UUID(int=5)),
    (StringType(), None, None),
]


@pytest.mark.parametrize("version", ["1", "2"])
def test_partitions_of_every_type_are_kept(tmp_path: Path, version: str) -> None:
    fields = [NestedField(n, f"c{n}", kind, required=False) for n, (kind, _, _) in enumerate(TYPES, 1)]
    spec = PartitionSpec(*(PartitionField(f.field_id, 1000 + f.field_id, IdentityTransform(), f.name) for f in fields))
    table = local_catalog(tmp_path).create_table(
        "db.types", Schema(*fields), partition_spec=spec, properties={"format-version": version}
    )
    row = {field.name: value for field, (_, value, _) in zip(fields, TYPES, strict=True)}
    partition = [stored for _, _, stored in TYPES]
    commit(table, append_change(table.metadata, [data_file(table, [row], partition=partition) for _ in range(2)]))
    planned = plan(table)
    ((_, report),) = rewritten(table, planned)
    new = [to_data_file(table.metadata, file) for file in report.files]
    old = [RemovedFile.of(entry.data_file) for entry in live_entries(table).values()]
    commit(table, replace_change(table.metadata, new, old))
    again = plan(table)
    assert [group.key for group in again.groups] == [group.key for group in planned.groups]
    assert again.input_files == 1
    assert table.scan().to_arrow().num_rows == 2
