"""``lakeshift rewrite plan`` as people and programs call it: as a process, without a JVM, at once."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import DayTransform, IdentityTransform

from lakeshift.iceberg.commit.change_set import append_change, row_delta_change
from lakeshift.iceberg.commit.commit import commit
from tests.command import NO_JAVA, printed, told
from tests.tables import EVENTS, data_file, events, local_catalog, position_deletes


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Spec 0 by day: 6 small files of one day, 2 of another; spec 1 by region: 5 of eu. One file has deletes."""
    folder = tmp_path_factory.mktemp("rewrite") / "lake"
    table = local_catalog(folder, "local").create_table(
        "db.events", EVENTS, partition_spec=PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))
    )
    written = [data_file(table, events(1, first=10 * number)) for number in range(6)]
    written += [data_file(table, events(2, first=100 * number)) for number in (1, 2)]
    commit(table, append_change(table.metadata, written))
    with table.update_spec() as update:
        update.remove_field("ts_day")
        update.add_field("region", IdentityTransform(), "region")
    later = [data_file(table, events(number, region="eu")) for number in range(3, 8)]
    deleted = position_deletes(table, written[0], [0])
    commit(table, row_delta_change(table.metadata, later, [deleted]))
    return str(folder)


def test_a_plan_is_shown_with_its_groups_and_what_the_filter_did(warehouse: str) -> None:
    where = ["--where", "ts < TIMESTAMP_NTZ '2026-01-02 00:00:00'"]
    shown = told("rewrite plan", "db.events", "--warehouse", warehouse, *where, **NO_JAVA)
    lines = [line.split("\t") for line in shown.splitlines()]
    assert lines[0] == ["group", "partition", "specs", "files", "size", "rows", "delete files", "new files"]
    assert lines[1][:4] == ["1", "ts_day=2026-01-01", "0", "6"]
    assert lines[1][5:] == ["18", "1", "1"]
    assert lines[3][:5] == ["0", "day(ts)", "constrained: ts_day <= 2026-01-01", "1", "1 of 2"]
    assert lines[4][0] == "1"
    assert lines[4][2].startswith("not constrained: no partition field")
    assert lines[4][5] == "0 of 5"  # by the bounds of ts
    assert lines[5][0].startswith("1 groups: 6 files of ")


def test_the_same_as_json_with_every_option(warehouse: str) -> None:
    options = ["--min-input-files", "2", "--rewrite-job-order", "files-asc", "--no-partial-progress.enabled", "--files"]
    options += ["--max-file-group-size-bytes", "1000000", "--rewrite-all"]
    plan = printed("rewrite plan", "db.events", "--warehouse", warehouse, *options, **NO_JAVA)
    assert [(group["partition"], group["input_files"], len(group["files"])) for group in plan["groups"]] == [
        ("ts_day=2026-01-02", 2, 2),
        ("region=eu", 5, 5),
        ("ts_day=2026-01-01", 6, 6),
    ]
    assert plan["options"]["min_input_files"] == 2
    assert plan["filter_stats"] == {
        "unevaluable_specs": 0,
        "eval_errors": 0,
        "fail_open_partitions": 0,
        "fail_open_files": 0,
    }


def test_an_upgrade_says_what_would_move(warehouse: str) -> None:
    shown = told("rewrite plan", "db.events", "--warehouse", warehouse, "--target-spec-id", "1", **NO_JAVA)
    assert "0, 1 -> 1" in shown
    assert "From spec 0 to spec 1: 8 files, " in shown
