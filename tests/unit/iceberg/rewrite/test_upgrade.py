"""Planning a move to another spec: what moves, what is consolidated with it, and what is known of the outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import DoubleType, LongType, NestedField

from lakeshift.errors import SpecNotWritableError, UnknownSpecError
from lakeshift.iceberg.partition_key import PartitionKey
from lakeshift.iceberg.rewrite.plan import SpecMove
from tests.handmade import HandmadeTable
from tests.unit.iceberg.rewrite.tables import (
    BY_BUCKET,
    BY_DAY,
    BY_REGION,
    KB,
    UNPARTITIONED,
    UNREADABLE,
    by_partition,
    day,
    evolved_table,
    files,
    paths,
    planning,
)

GOOD = {"file_size_in_bytes": 90 * KB}


def spec(spec_id: int, *fields: tuple[int, Transform[Any, Any]]) -> PartitionSpec:
    return PartitionSpec(
        *(PartitionField(source, 2000 + 10 * spec_id + n, kind, f"f{n}") for n, (source, kind) in enumerate(fields)),
        spec_id=spec_id,
    )


def test_all_files_of_other_specs_move_also_well_sized_ones(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, BY_REGION, BY_DAY)
    table.commit(*files(table, 2, 0, "eu", **GOOD), *files(table, 1, 0, "us"), *files(table, 3, 1, day(1), **GOOD))
    result = planning(table, target_spec_id=1)
    (group,) = result.groups
    assert (group.spec_ids, group.output_spec_id, group.input_files, group.moved_files) == ((0,), 1, 3, 3)
    assert (group.key, group.partition) == (None, "all partitions")
    assert result.plan.moves == (SpecMove(spec_id=0, files=3, bytes=181 * KB, rows=30),)
    assert planning(table).groups == ()


def test_the_filter_says_what_moves(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, BY_REGION, BY_DAY)
    table.commit(*files(table, 2, 0, "eu"), *files(table, 2, 0, "us"))
    result = planning(table, EqualTo("region", "us"), target_spec_id=1)
    assert result.plan.moves == (SpecMove(0, 2, 2 * KB, 20),)
    assert planning(table, EqualTo("region", "asia"), target_spec_id=1).groups == ()


def test_wrongly_sized_files_of_the_target_spec_are_consolidated_with_those_that_move(tmp_path: Path) -> None:
    """Rows may come to any partition, so every small file of the target is in it, and no well-sized one."""
    table = evolved_table(tmp_path, BY_REGION, BY_DAY)
    table.commit(*files(table, 1, 0, "eu"), *files(table, 2, 1, day(1)), *files(table, 2, 1, day(2), **GOOD))
    (group,) = planning(table, target_spec_id=1).groups
    assert [(part.spec_id, part.length) for part in group.inputs] == [(0, 1), (1, 2)]
    assert (group.input_files, group.moved_files) == (3, 1)


def test_without_anything_to_move_the_target_spec_is_planned_as_usual(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, BY_REGION, BY_DAY)
    table.commit(*files(table, 5, 1, day(1)), *files(table, 4, 1, day(2)))
    result = planning(table, target_spec_id=1)
    assert by_partition(result) == {((1,), "ts_day=2026-01-01"): 5}
    assert result.plan.moves == ()


def test_where_old_partitions_determine_new_ones_files_are_pooled_by_those(tmp_path: Path) -> None:
    """An hour determines its day, so hours of one day go together with what lies there already."""
    by_hour = spec(0, (2, HourTransform()))
    table = evolved_table(tmp_path, by_hour, BY_DAY)
    table.commit(*(table.data_file(0, day(1) * 24 + hour) for hour in (0, 5, 23)), table.data_file(0, day(2) * 24))
    table.commit(*files(table, 1, 1, day(1)), *files(table, 4, 1, day(3)))
    result = planning(table, target_spec_id=1)
    assert by_partition(result, lambda group: (group.moved_files, group.input_files)) == {
        ((0, 1), "ts_day=2026-01-01"): (3, 4),
        ((0,), "ts_day=2026-01-02"): (1, 1),
    }
    assert [group.key for group in result.groups] == [PartitionKey(1, (day(1),)), PartitionKey(1, (day(2),))]


def test_a_part_that_only_some_specs_determine_does_not_split_pools(tmp_path: Path) -> None:
    """Else rows of one new partition would be in two groups, and leave two files."""
    target = spec(2, (3, IdentityTransform()), (2, DayTransform()))
    table = evolved_table(tmp_path, BY_REGION, spec(1, (3, IdentityTransform()), (2, HourTransform())), target)
    table.commit(*files(table, 1, 0, "eu"), *files(table, 1, 0, "us"))
    table.commit(*files(table, 1, 1, "eu", day(1) * 24), *files(table, 1, 1, "eu", day(2) * 24))
    table.commit(*files(table, 1, 2, "eu", day(3)), *files(table, 5, 2, "asia", day(3)))
    result = planning(table, target_spec_id=2)
    assert by_partition(result) == {
        ((0, 1, 2), "f0=eu/..."): 4,
        ((0,), "f0=us/..."): 1,
        ((2,), "f0=asia/f1=2026-01-03"): 5,
    }
    assert [group.key is None for group in result.groups] == [True, True, False]


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        ((3, IdentityTransform()), (3, TruncateTransform(1)), "eu", "e"),
        ((3, IdentityTransform()), (3, IdentityTransform()), None, None),
        ((1, IdentityTransform()), (1, BucketTransform(16)), 34, 3),
        ((2, IdentityTransform()), (2, DayTransform()), day(3) * 86_400_000_000 + 1, day(3)),
        ((2, HourTransform()), (2, MonthTransform()), -1, -1),
        ((2, DayTransform()), (2, YearTransform()), day(3), 56),
        ((2, MonthTransform()), (2, YearTransform()), -13, -2),
        ((3, TruncateTransform(4)), (3, TruncateTransform(2)), "euro", "eu"),
        ((1, TruncateTransform(10)), (1, TruncateTransform(100)), -10, -100),
    ],
)
def test_what_an_old_value_determines(tmp_path: Path, old: Any, new: Any, value: Any, expected: Any) -> None:
    table = evolved_table(tmp_path, spec(0, old), spec(1, new))
    table.commit(table.data_file(0, value))
    (group,) = planning(table, target_spec_id=1).groups
    assert group.key == PartitionKey(1, (expected,))


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ((2, DayTransform()), (2, HourTransform()), 5),
        ((1, BucketTransform(16)), (1, BucketTransform(8)), 5),
        ((3, TruncateTransform(2)), (3, TruncateTransform(4)), "eu"),
        ((1, TruncateTransform(10)), (1, TruncateTransform(15)), 10),
        ((3, VoidTransform()), (3, IdentityTransform()), None),
        ((1, IdentityTransform()), (4, IdentityTransform()), 5),
    ],
)
def test_what_an_old_value_does_not_determine(tmp_path: Path, old: Any, new: Any, value: Any) -> None:
    table = evolved_table(tmp_path, spec(0, old), spec(1, new))
    table.commit(table.data_file(0, value))
    assert [group.key for group in planning(table, target_spec_id=1).groups] == [None]


def test_the_target_may_be_unpartitioned(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, BY_REGION, UNPARTITIONED)
    table.commit(*files(table, 2, 0, "eu"), *files(table, 1, 4))
    (group,) = planning(table, target_spec_id=4).groups
    assert (group.key, group.partition, group.input_files) == (PartitionKey(4, None), "unpartitioned", 3)


def test_a_target_need_not_be_the_default_but_must_be_writable(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, BY_REGION, UNREADABLE, BY_BUCKET)
    table.commit(*files(table, 1, 3, 2))
    assert planning(table, target_spec_id=0).groups[0].output_spec_id == 0
    with pytest.raises(SpecNotWritableError, match="region_z"):
        planning(table, target_spec_id=2)
    with pytest.raises(UnknownSpecError, match="no partition spec 7"):
        planning(table, target_spec_id=7)


def test_pools_larger_than_a_group_are_split(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, BY_REGION, BY_DAY)
    table.commit(*files(table, 10, 0, "eu", **GOOD))
    result = planning(table, target_spec_id=1, max_file_group_size_bytes=300 * KB)
    assert [group.input_files for group in result.groups] == [3, 3, 3, 1]
    assert len({path for group in result.groups for path in paths(group)}) == 10
    assert [group.expected_output_files for group in result.groups] == [3, 3, 3, 1]


def test_partitions_that_the_filter_leaves_out_do_not_pool_others(tmp_path: Path) -> None:
    """What does not move has no say in what is consolidated: the target spec's files stay with their own kind."""
    by_hour = spec(0, (2, HourTransform()))
    table = evolved_table(tmp_path, by_hour, BY_REGION.model_copy(update={"spec_id": 2}), BY_DAY)
    table.commit(table.data_file(0, day(1) * 24), table.data_file(0, day(9) * 24), *files(table, 1, 2, "eu"))
    table.commit(*files(table, 5, 1, day(9)), *files(table, 1, 1, day(1)))
    result = planning(table, "ts < TIMESTAMP_NTZ '2026-01-05 00:00:00' AND region = 'us'", target_spec_id=1)
    assert by_partition(result) == {((0, 1), "ts_day=2026-01-01"): 2}
    assert result.groups[0].key == PartitionKey(1, (day(1),))


def test_nan_is_one_partition_also_where_files_move(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "ratio", DoubleType()))
    old = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "r"), spec_id=0)
    new = PartitionSpec(
        PartitionField(2, 1001, IdentityTransform(), "r2"), PartitionField(1, 1002, VoidTransform(), "v"), spec_id=1
    )
    table = HandmadeTable(tmp_path, schema, old, new)
    table.commit(table.data_file(0, float("nan")), table.data_file(0, None))
    table.commit(table.data_file(1, float("nan"), None))
    assert [group.input_files for group in planning(table, target_spec_id=1).groups] == [2, 1]
