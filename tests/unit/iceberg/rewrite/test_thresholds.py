"""Which files are worth rewriting: by size, by number, by the deletes that really apply; packing and order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.handmade import HandmadeTable
from tests.unit.iceberg.rewrite.tables import KB, UNPARTITIONED, by_partition, evolved_table, files, paths, planning


@pytest.fixture
def table(tmp_path: Path) -> HandmadeTable:
    return evolved_table(tmp_path)


def test_files_of_a_good_size_are_left_alone(table: HandmadeTable) -> None:
    small, good, large = (files(table, 5, 0, "eu", file_size_in_bytes=size * KB) for size in (74, 75, 181))
    table.commit(*small, *good, *large)
    (group,) = planning(table).groups
    assert sorted(paths(group)) == sorted(file.file_path for file in (*small, *large))
    assert planning(table, rewrite_all=True).plan.input_files == 15


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [
        ([10, 10, 10, 10], False),  # fewer than min-input-files, and not enough for one file
        ([10, 10, 10, 10, 10], True),
        ([70, 70], True),  # enough for one file
        ([70, 20], False),
        ([200], True),  # too large
        ([10], False),
    ],
)
def test_a_partition_is_rewritten_if_it_is_worth_it(table: HandmadeTable, sizes: list[int], chosen: bool) -> None:
    table.commit(*(table.data_file(0, "eu", file_size_in_bytes=size * KB) for size in sizes))
    assert bool(planning(table).groups) is chosen
    assert len(planning(table, rewrite_all=True).groups) == 1


def test_files_of_one_partition_under_two_specs_do_not_add_up(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, *(UNPARTITIONED.model_copy(update={"spec_id": number}) for number in (0, 1)))
    table.commit(*files(table, 3, 0), *files(table, 3, 1))
    assert planning(table).groups == ()


def test_large_partitions_are_split_into_bins(table: HandmadeTable) -> None:
    eu = [table.data_file(0, "eu", file_size_in_bytes=size * KB) for size in (40, 40, 40, 250, 40, 30, 30)]
    table.commit(*eu, *files(table, 5, 0, "us"))
    result = planning(table, max_file_group_size_bytes=100 * KB, min_input_files=2)
    names = {file.file_path: number for number, file in enumerate(eu)}
    assert [[names.get(path) for path in paths(group)] for group in result.groups] == [
        [0, 1],
        [3],  # larger than a bin, and too large a file; the lone one before it is not worth it
        [4, 5, 6],
        [None] * 5,
    ]
    by_count = planning(table, max_file_group_input_files=3, min_input_files=2)
    assert [group.input_files for group in by_count.groups] == [3, 3, 3, 2]


def test_groups_are_ordered_as_asked_and_keep_their_ids(table: HandmadeTable) -> None:
    table.commit(
        *files(table, 5, 0, "a", file_size_in_bytes=9 * KB), *files(table, 7, 0, "b"), *files(table, 6, 0, "c")
    )
    orders = {
        order: [group.group_id for group in planning(table, rewrite_job_order=order).groups]
        for order in ("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc")
    }
    assert orders == {
        "none": [1, 2, 3],
        "bytes-asc": [3, 2, 1],
        "bytes-desc": [1, 2, 3],
        "files-asc": [1, 3, 2],
        "files-desc": [2, 3, 1],
    }


def test_the_number_of_files_can_be_limited(table: HandmadeTable) -> None:
    table.commit(*files(table, 6, 0, "a"), *files(table, 7, 0, "b"), *files(table, 9, 0, "c"))
    assert by_partition(planning(table, max_files_to_rewrite=12)) == {((0,), "region=a"): 6, ((0,), "region=b"): 6}
    # What is left of a group must still be worth it, and the order of work decides what comes first.
    assert by_partition(planning(table, max_files_to_rewrite=8)) == {((0,), "region=a"): 6}
    largest = planning(table, max_files_to_rewrite=16, rewrite_job_order="files-desc")
    assert by_partition(largest) == {((0,), "region=c"): 9, ((0,), "region=b"): 7}
    assert planning(table, max_files_to_rewrite=22).plan.input_files == 22
    cut = planning(table, max_files_to_rewrite=11).groups[-1]
    assert (cut.input_files, cut.input_bytes, cut.input_rows) == (5, 5 * KB, 50)
    assert len(paths(cut)) == 5


def test_deletes_that_apply_to_a_file_make_it_a_candidate(table: HandmadeTable) -> None:
    """File-scoped position deletes count by rows; a delete of another file, or an older one, counts for nothing."""
    good = {"file_size_in_bytes": 90 * KB, "record_count": 100}
    hurt, light, fresh = (table.data_file(0, "eu", **good) for _ in range(3))
    table.commit(hurt, light)
    table.commit(
        table.position_deletes([hurt.file_path], 0, "eu", record_count=10),
        table.position_deletes([hurt.file_path], 0, "eu", record_count=20),
        table.position_deletes([light.file_path], 0, "eu", record_count=29),
        table.equality_deletes(0, "us", record_count=1000),
    )
    table.commit(fresh)
    result = planning(table)
    assert [paths(group) for group in result.groups] == [[hurt.file_path]]
    assert result.groups[0].delete_files == 2
    assert planning(table, delete_ratio_threshold=0.31).groups == ()
    assert sorted(paths(planning(table, delete_ratio_threshold=0.29).groups[0])) == sorted(
        [hurt.file_path, light.file_path]
    )


def test_deletes_are_counted_by_file_where_that_is_asked_for(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, UNPARTITIONED.model_copy(update={"spec_id": 0}))
    good = {"file_size_in_bytes": 90 * KB, "record_count": 100}
    old, middle, new = (table.data_file(0, **good) for _ in range(3))
    table.commit(old)
    table.commit(table.equality_deletes(0, record_count=90))
    table.commit(middle)
    table.commit(table.equality_deletes(0, record_count=90), new)
    assert planning(table).groups == ()  # what an equality delete removes is not known
    assert [paths(g) for g in planning(table, delete_file_threshold=2).groups] == [[old.file_path]]
    (group,) = planning(table, delete_file_threshold=1).groups
    assert sorted(paths(group)) == sorted([old.file_path, middle.file_path])
    assert group.delete_files == 2
    (applied,) = [part.applied for part in group.inputs]
    assert applied is not None
    assert sorted(applied.counts.to_pylist()) == [1, 2]
    assert applied.pairs().num_rows == 3


def test_a_table_of_format_version_1_is_planned_alike(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, format_version=1)
    table.commit(*files(table, 5, 0, "eu"), *files(table, 5, 1, 20000))
    result = planning(table)
    assert [group.input_files for group in result.groups] == [5, 5]
    assert result.plan.deletes == {}
