"""The planner on evolved tables: filter per spec, thresholds, groups, and what it tells of itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, IsNull, LessThan
from pyiceberg.schema import Schema

from lakeshift.errors import ConfigError, FilterNotEvaluableError, SpecNotWritableError, UnknownSpecError
from lakeshift.iceberg.rewrite.diagnostics import FilterStats, SpecStatus
from lakeshift.iceberg.rewrite.planner import RewriteDataFilesPlanner
from tests.handmade import HandmadeTable
from tests.tables import EVENTS
from tests.unit.iceberg.rewrite.tables import (
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


@pytest.fixture
def evolved(tmp_path: Path) -> HandmadeTable:
    """Two specs: by region eu 6 files, us 5, null 5; by day 10 January 5, 20 January 7; and too few elsewhere."""
    table = evolved_table(tmp_path)
    table.commit(*files(table, 6, 0, "eu"), *files(table, 5, 0, "us"), *files(table, 5, 0, None))
    table.commit(*files(table, 2, 0, "asia"), *files(table, 5, 1, day(10)))
    table.commit(*files(table, 7, 1, day(20)), *files(table, 4, 1, day(21)))
    return table


def test_plan_evolved_table_no_filter(evolved: HandmadeTable) -> None:
    result = planning(evolved)
    assert by_partition(result) == {
        ((0,), "region=eu"): 6,
        ((0,), "region=us"): 5,
        ((0,), "region=null"): 5,
        ((1,), "ts_day=2026-01-10"): 5,
        ((1,), "ts_day=2026-01-20"): 7,
    }
    assert {group.output_spec_id for group in result.groups} == {0, 1}
    assert result.filter_stats == FilterStats()
    assert {spec.status for spec in result.specs} == {SpecStatus.NO_FILTER}
    assert (result.plan.input_files, result.plan.input_bytes, result.plan.input_rows) == (28, 28_000, 280)
    assert result.plan.snapshot_id == evolved.metadata.current_snapshot_id
    assert [group.expected_output_files for group in result.groups] == [1] * 5


def test_plan_evolved_table_with_filter(evolved: HandmadeTable) -> None:
    """Each spec by its own projection: the one without a field for the filter's columns is not constrained."""
    result = planning(evolved, EqualTo("region", "eu"))
    assert by_partition(result) == {
        ((0,), "region=eu"): 6,
        ((1,), "ts_day=2026-01-10"): 5,
        ((1,), "ts_day=2026-01-20"): 7,
    }
    assert [spec.status for spec in result.specs] == [SpecStatus.CONSTRAINED, SpecStatus.NOT_CONSTRAINED]
    assert (result.specs[0].files_excluded_by_partition, result.specs[0].partitions_excluded) == (12 - 2, 3 - 1)
    assert result.filter_stats == FilterStats()
    both = planning(evolved, And(IsNull("region"), GreaterThanOrEqual("ts", "2026-01-15T00:00:00")))
    assert by_partition(both) == {((0,), "region=null"): 5, ((1,), "ts_day=2026-01-20"): 7}


def test_the_filter_may_be_spark_sql(evolved: HandmadeTable) -> None:
    result = planning(evolved, "Region IS NULL AND ts >= TIMESTAMP_NTZ '2026-01-15 00:00:00'")
    assert by_partition(result) == {((0,), "region=null"): 5, ((1,), "ts_day=2026-01-20"): 7}


def test_parts_that_only_spark_can_decide_are_an_error_that_names_them(evolved: HandmadeTable) -> None:
    with pytest.raises(ConfigError, match=r"UPPER\(region\) = 'EU'") as raised:
        planning(evolved, "upper(region) = 'EU' AND amount > 3")
    assert "amount" not in str(raised.value)
    with pytest.raises(ConfigError, match="rejion"):
        planning(evolved, "rejion = 'eu'")


def test_plan_evolved_table_fail_open_stats(tmp_path: Path) -> None:
    """Candidates are counted, not files: well-sized files of a fail-open partition are not rewritten."""
    table = evolved_table(tmp_path, UNREADABLE, BY_REGION)
    table.commit(*files(table, 5, 0, "eu"), *files(table, 5, 0, "us"))
    table.commit(
        *files(table, 6, 2, "z1"), *files(table, 3, 2, "z2"), *files(table, 2, 2, "z2", file_size_in_bytes=90 * KB)
    )
    result = planning(table, EqualTo("region", "eu"))
    assert result.filter_stats == FilterStats(
        unevaluable_specs=1, eval_errors=0, fail_open_partitions=2, fail_open_files=9
    )
    assert by_partition(result) == {((0,), "region=eu"): 5, ((2,), "region_z=z1"): 6}
    assert [warning.to_dict()["concern"] for warning in result.warnings] == ["unevaluable-spec"]
    assert result.specs[1].fail_open_partitions == 2
    assert planning(table, EqualTo("amount", 1)).filter_stats == FilterStats()


def test_fail_closed_names_what_cannot_be_decided(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, UNREADABLE, BY_REGION)
    table.commit(*files(table, 5, 0, "eu"))
    strict = planning(table, EqualTo("region", "eu"), strictness="fail-closed")
    assert len(strict.groups) == 1  # the spec is unevaluable, but nothing lies under it
    table.commit(*files(table, 1, 2, "z1"))
    with pytest.raises(FilterNotEvaluableError, match="spec 2, partitions region_z=z1"):
        planning(table, EqualTo("region", "eu"), strictness="fail-closed")
    with pytest.raises(ConfigError, match="'lenient'"):
        planning(table, EqualTo("region", "eu"), strictness="lenient")


def test_plan_deterministic_group_ids(tmp_path: Path) -> None:
    """The same files give the same ids whatever order they came in; keys are ordered by value, not as text."""
    plans = []
    for name, days in (("a", (2, 10, 9)), ("b", (10, 9, 2))):
        table = evolved_table(tmp_path / name)
        for number in days:
            table.commit(*files(table, 5, 1, day(number)))
        table.commit(*files(table, 5, 0, "us"), *files(table, 5, 0, None), *files(table, 5, 0, "eu"))
        plans.append([(group.group_id, group.partition) for group in planning(table).groups])
        again = planning(table)
        assert [paths(group) for group in again.groups] == [paths(group) for group in planning(table).groups]
    assert plans[0] == plans[1]
    assert [name for _, name in plans[0]] == [
        *("region=eu", "region=us", "region=null"),
        *("ts_day=2026-01-02", "ts_day=2026-01-09", "ts_day=2026-01-10"),
    ]
    assert [number for number, _ in plans[0]] == [1, 2, 3, 4, 5, 6]


def test_metrics_leave_out_files_that_cannot_match(tmp_path: Path) -> None:
    """In partitions that the filter does not constrain, files are judged by the bounds of their columns."""
    table = evolved_table(tmp_path)

    def with_region(value: bytes) -> dict[str, dict[int, bytes]]:
        return {"lower_bounds": {3: value}, "upper_bounds": {3: value}}

    eu = files(table, 5, 1, day(1), **with_region(b"eu"))
    table.commit(*eu, *files(table, 5, 1, day(1), **with_region(b"us")), *files(table, 5, 1, day(2), record_count=0))
    result = planning(table, EqualTo("region", "eu"))
    assert [paths(group) for group in result.groups] == [[file.file_path for file in eu]]
    assert (result.specs[1].files, result.specs[1].files_excluded_by_metrics) == (15, 10)


def test_a_fail_open_partition_is_taken_in_whole(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, UNREADABLE, BY_REGION)
    table.commit(*files(table, 5, 2, "z", lower_bounds={3: b"us"}, upper_bounds={3: b"us"}))
    assert planning(table, EqualTo("region", "eu")).filter_stats.fail_open_files == 5


def test_manifests_that_cannot_match_are_not_opened(evolved: HandmadeTable) -> None:
    """Each spec has two manifests; that of the days 20 and 21 is ruled out by the manifest list."""
    where = LessThan("ts", "2026-01-15T00:00:00")
    result = planning(evolved, where)
    assert [(spec.manifests_read, spec.manifests_skipped) for spec in result.specs] == [(2, 0), (1, 1)]
    assert (result.manifests_read, result.manifests_skipped) == (3, 1)
    late = day(20).to_bytes(4, "little")
    for manifest in evolved.metadata.current_snapshot().manifests(evolved.io):
        if manifest.partitions[0].lower_bound == late:
            Path(manifest.manifest_path.removeprefix("file://")).unlink()  # nobody will miss it
    assert planning(evolved, where).to_dict() == result.to_dict()
    with pytest.raises(FileNotFoundError):
        planning(evolved)


def test_an_unknown_spec_in_a_manifest_is_a_hard_error(evolved: HandmadeTable) -> None:
    evolved.metadata = evolved.metadata.model_copy(update={"partition_specs": [BY_DAY], "default_spec_id": 1})
    for where in (None, EqualTo("region", "eu")):
        with pytest.raises(UnknownSpecError, match="partition spec 0"):
            planning(evolved, where)


def test_a_table_without_snapshot_has_an_empty_plan(tmp_path: Path) -> None:
    result = planning(evolved_table(tmp_path), EqualTo("region", "eu"))
    assert (result.groups, result.plan.snapshot_id, result.filter_stats) == ((), None, FilterStats())


def test_plan_is_plan_with_stats_without_them(evolved: HandmadeTable) -> None:
    planner = RewriteDataFilesPlanner(evolved.metadata, evolved.io, where=EqualTo("region", "eu"))
    with_stats = planner.plan_with_stats()
    assert planner.plan().to_dict() == with_stats.plan.to_dict()
    assert planner.plan_with_stats().to_dict() == with_stats.to_dict()


def test_an_older_snapshot_can_be_planned(evolved: HandmadeTable) -> None:
    first = evolved.metadata.snapshots[0].snapshot_id
    assert sum(group.input_files for group in planning(evolved, snapshot_id=first).groups) == 16


def test_unpartitioned_and_partitioned_specs_are_never_mixed(tmp_path: Path) -> None:
    """Unpartitioned is a property of a file's own spec, not of the default."""
    table = evolved_table(tmp_path, UNPARTITIONED, BY_REGION)
    table.commit(*files(table, 5, 4), *files(table, 5, 0, None))
    groups = planning(table).groups
    assert [(group.spec_ids, group.partition, group.key.partition) for group in groups if group.key] == [
        ((0,), "region=null", (None,)),
        ((4,), "unpartitioned", None),
    ]


def test_a_group_has_its_files_as_ledger_rows(evolved: HandmadeTable) -> None:
    (group,) = planning(evolved, "region = 'eu' AND ts < TIMESTAMP_NTZ '2026-01-01 00:00:00'").groups
    (part,) = group.inputs
    assert isinstance(part.files, pa.Table)
    assert part.files.column("sequence_number").to_pylist() == [1] * 6
    assert part.files.column("partition").to_pylist() == [{"region": "eu"}] * 6
    assert set(part.files.column_names) >= {"file_path", "manifest_path", "file_format"}
    assert group.to_dict(with_files=True)["files"] == paths(group)


def test_a_spec_whose_source_column_was_dropped_is_planned_by_its_stored_values(tmp_path: Path) -> None:
    """Its files keep their partition; a filter cannot name the column, and one on others does not constrain it."""
    table = evolved_table(tmp_path, BY_REGION, BY_DAY)
    table.commit(*files(table, 5, 0, "eu"), *files(table, 5, 0, "us"), *files(table, 5, 1, day(1)))
    table.add_schema(Schema(*(field for field in EVENTS.fields if field.name != "region"), schema_id=1))
    result = planning(table, EqualTo("amount", 3))
    assert by_partition(result) == {((0,), "region=eu"): 5, ((0,), "region=us"): 5, ((1,), "ts_day=2026-01-01"): 5}
    assert {spec.status for spec in result.specs} == {SpecStatus.NOT_CONSTRAINED}
    assert result.filter_stats == FilterStats()
    with pytest.raises(ConfigError, match="region"):
        planning(table, EqualTo("region", "eu"))
    assert planning(table, target_spec_id=1).plan.moves[0].files == 10
    with pytest.raises(SpecNotWritableError, match="dropped"):
        planning(table, target_spec_id=0)
