"""The report's numbers: they equal what manifests say, counted in another way, on tables of every kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import DayTransform, IdentityTransform, VoidTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from lakeshift.errors import ConfigError
from lakeshift.iceberg.commit.change_set import append_change, row_delta_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.deletes import DATA_COLUMNS, DELETE_COLUMNS, match_deletes
from lakeshift.iceberg.ledger import read_ledger
from lakeshift.report.facts import TableFacts, gather_facts
from tests.handmade import HandmadeTable
from tests.report_tables import EVENTS as HANDMADE_EVENTS
from tests.tables import EVENTS, data_file, equality_deletes, events, local_catalog, position_deletes

REGION = Schema(NestedField(1, "id", LongType()), NestedField(3, "region", StringType()))
BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"), spec_id=0)


def facts_of(table: Any, **options: Any) -> TableFacts:
    return gather_facts("db.events", table.metadata, table.io, **options)


def live_files(table: Any) -> dict[bool, list[Any]]:
    """The live files that PyIceberg reads entry by entry: data files under True, delete files under False."""
    found = defaultdict(list)
    for manifest in table.metadata.current_snapshot().manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            file = entry.data_file
            found[file.content == DataFileContent.DATA].append((manifest.partition_spec_id, file))
    return found


def check_against_manifests(table: Any) -> TableFacts:
    """Every number that can be counted file by file."""
    facts, live = facts_of(table), live_files(table)
    counted: dict[tuple[int, tuple[Any, ...]], Counter[str]] = defaultdict(Counter)
    for spec_id, file in live[True]:
        counted[spec_id, tuple(file.partition._data)] += Counter(
            files=1, bytes=file.file_size_in_bytes, rows=file.record_count
        )
    records = facts.to_dict()["partitions"]
    assert Counter((r["spec_id"], r["files"], r["bytes"], r["rows"]) for r in records) == Counter(
        (spec_id, c["files"], c["bytes"], c["rows"]) for (spec_id, _), c in counted.items()
    )
    assert facts.totals.data_files == len(live[True]) == sum(bucket.files for bucket in facts.file_sizes)
    assert facts.totals.rows == sum(file.record_count for _, file in live[True])
    assert facts.totals.bytes == sum(bucket.bytes for bucket in facts.file_sizes)
    assert facts.totals.delete_files == len(live[False]) == sum(cost.files for cost in facts.deletes)
    for bucket in facts.file_sizes:
        inside = [(s, f) for s, f in live[True] if bucket.low <= f.file_size_in_bytes < bucket.high]
        assert (bucket.files, dict(bucket.by_spec)) == (len(inside), dict(Counter(spec_id for spec_id, _ in inside)))
    return facts


def check_deletes(table: Any, facts: TableFacts) -> None:
    """What deletes apply to, pair by pair as the ledger's rules give them."""
    ledger = read_ledger(table.metadata, table.io, columns=sorted({*DATA_COLUMNS, *DELETE_COLUMNS, "record_count"}))
    pairs, with_deletes, used = 0, 0, set()
    for matched in match_deletes(ledger).values():
        found = matched.pairs().to_pylist()
        pairs += len(found)
        with_deletes += len({pair["data_row"] for pair in found})
        used |= {(pair["delete_spec_id"], pair["delete_row"]) for pair in found}
    assert sum(cost.opened for cost in facts.deletes) == pairs
    assert sum(record["deletes_to_apply"] for record in facts.to_dict()["partitions"]) == pairs
    assert facts.totals.files_with_deletes == with_deletes
    assert sum(cost.files - cost.unused_files for cost in facts.deletes) == len(used)


def test_numbers_of_a_lived_in_table_equal_those_of_its_manifests(lived_in_table: HandmadeTable) -> None:
    facts = check_against_manifests(lived_in_table)
    check_deletes(lived_in_table, facts)
    assert [spec.partitions for spec in facts.specs] == [5, 182, 330]
    kinds = {cost.kind: (cost.files, cost.unused_files, cost.data_files) for cost in facts.deletes}
    assert kinds == {"position deletes": (131, 1, 130), "equality deletes": (12, 0, 12)}
    small = [file for _, file in live_files(lived_in_table)[True] if file.file_size_in_bytes < facts.sizes.smallest]
    assert sum(spec.small_files for spec in facts.specs) == len(small)


def test_numbers_of_real_files_under_two_specs_with_every_kind_of_delete(tmp_path: Path) -> None:
    table = local_catalog(tmp_path / "lake", "local").create_table(
        "db.events", EVENTS, partition_spec=PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))
    )
    first = [data_file(table, events(day, 10, first=10 * day)) for day in (1, 1, 2)]
    commit(table, append_change(table.metadata, first))
    with table.update_spec() as update:
        update.remove_field("ts_day")
        update.add_field("region", IdentityTransform(), "region")
    second = [data_file(table, events(3, 5, region=region)) for region in ("eu", None)]
    commit(table, append_change(table.metadata, second))
    with table.update_spec() as update:
        update.remove_field("region")
    deletes = [
        position_deletes(table, first[0], [0, 1, 2]),
        position_deletes(table, [(first[1], 0), (first[0], 3)]),
        equality_deletes(table, events(3, 1, region="eu"), ["id"], spec_id=1),
        equality_deletes(table, events(1, 1), ["id"], spec_id=2),
    ]
    commit(table, row_delta_change(table.metadata, [], deletes))
    facts = check_against_manifests(table)
    check_deletes(table, facts)
    by_kind = {cost.kind: cost for cost in facts.deletes}
    everywhere = by_kind["equality deletes of the whole table"]
    assert (everywhere.data_files, everywhere.data_rows, everywhere.unused_files) == (5, 40, 0)
    assert by_kind["position deletes"].entries == 5
    assert facts.totals.deleted_rows == 3  # the delete of two files is not known to be of one
    assert [spec.deleted_rows for spec in facts.specs] == [3, 0, 0]
    regions = [r["partition"] for r in facts.to_dict()["partitions"] if r["spec_id"] == 1]
    assert regions == [{"region": "eu"}, {"region": None}]
    assert [(s.operation, s.done["added_files"], s.done["added_delete_files"]) for s in facts.snapshots] == [
        ("append", 3, None),
        ("append", 2, None),
        ("delete", None, 4),
    ]


def test_a_table_without_a_snapshot_has_no_numbers(tmp_path: Path) -> None:
    facts = facts_of(HandmadeTable(tmp_path, REGION, BY_REGION))
    assert (facts.snapshot_id, facts.totals.data_files, facts.file_sizes, facts.partitions) == (None, 0, (), ())
    assert [spec.partitions for spec in facts.specs] == [0]


def test_a_v1_table_is_told_like_any_other(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, REGION, BY_REGION, format_version=1)
    table.commit(table.data_file(0, "eu"), table.data_file(0, "us"), table.data_file(0, "us"))
    facts = check_against_manifests(table)
    assert facts.format_version == 1
    assert [(r["partition"], r["files"]) for r in facts.to_dict()["partitions"]] == [
        ({"region": "eu"}, 1),
        ({"region": "us"}, 2),
    ]


@pytest.mark.parametrize("spec", [PartitionSpec(), PartitionSpec(PartitionField(3, 1000, VoidTransform(), "none"))])
def test_files_without_a_partition_are_one(tmp_path: Path, spec: PartitionSpec) -> None:
    table = HandmadeTable(tmp_path, REGION, spec)
    values = [None] * len(spec.fields)
    table.commit(*(table.data_file(0, *values) for _ in range(3)))
    facts = check_against_manifests(table)
    assert [(r["partition"], r["files"]) for r in facts.to_dict()["partitions"]] == [({}, 3)]


def test_zero_and_minus_zero_null_and_nan_are_partitions_of_their_own(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "weight", DoubleType()))
    table = HandmadeTable(tmp_path, schema, PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "weight")))
    values = [0.0, -0.0, float("nan"), float("nan"), None]
    table.commit(*(table.data_file(0, value) for value in values))
    records = facts_of(table).to_dict()["partitions"]
    assert {(r["partition"]["weight"], r["files"]) for r in records} == {
        ("0.0", 1),
        ("-0.0", 1),
        ("NaN", 2),
        (None, 1),
    }


def test_days_are_put_together_by_month_and_values_by_the_first_field(lived_in_table: HandmadeTable) -> None:
    by_month, by_day, by_both = facts_of(lived_in_table).partitions
    assert by_month.runs == ()  # five months of one year
    assert by_day.runs == tuple(zip((f"2025-{m:02}" for m in range(6, 12)), (30, 31, 31, 30, 31, 29), strict=True))
    assert by_both.runs == (("2025-12", 94), ("2026-01", 124), ("2026-02", 112))


def test_schemas_tell_what_changed(lived_in_table: HandmadeTable) -> None:
    told = [(schema.schema_id, schema.changes, schema.is_current) for schema in facts_of(lived_in_table).schemas]
    assert told == [
        (0, (), False),
        (1, ("added region string",), False),
        (2, ("amount from int to long", "added discount double"), True),
    ]


def test_snapshots_that_a_branch_does_not_have_are_told_apart(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, REGION, BY_REGION)
    base = table.commit(table.data_file(0, "eu"))
    head = table.commit(table.data_file(0, "us"))
    side = table.commit(table.data_file(0, "us"), branch="audit", operation=Operation.OVERWRITE)
    facts = facts_of(table, branch="audit", snapshot_id=side.snapshot_id)
    assert facts.totals.data_files == 3
    main = facts_of(table)
    assert {s.snapshot_id: (s.in_history, s.refs) for s in main.snapshots} == {
        base.snapshot_id: (True, ()),
        head.snapshot_id: (True, ("main",)),
        side.snapshot_id: (False, ("audit",)),
    }


def test_when_a_spec_was_first_written_is_unknown_once_its_snapshot_has_expired(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, HANDMADE_EVENTS)
    table.commit(table.data_file(0))
    last = table.commit(table.data_file(0))
    assert facts_of(table).specs[0].oldest_file_ms is not None
    table.metadata = table.metadata.model_copy(update={"snapshots": table.metadata.snapshots[1:]})
    [spec] = facts_of(table).specs
    assert (spec.oldest_file_ms, spec.newest_file_ms) == (None, last.timestamp_ms)


def test_a_target_size_that_is_no_number_is_an_error_that_names_it(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, REGION, BY_REGION)
    table.metadata = table.metadata.model_copy(update={"properties": {"write.target-file-size-bytes": "512MB"}})
    with pytest.raises(ConfigError, match="'512MB'"):
        facts_of(table)
