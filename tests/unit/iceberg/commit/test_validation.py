"""Conflict checks in races whose steps are played one by one: plan, then let the others commit, then validate."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, GreaterThan
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import IsolationLevel, Operation
from pyiceberg.table.update import (
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from lakeshift.errors import CommitConflictError, ConfigError
from lakeshift.iceberg.commit.history import Start
from lakeshift.iceberg.commit.validation import OverwriteValidation, RewriteValidation, RowDeltaValidation
from tests.handmade import HandmadeTable

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "amount", DoubleType()), NestedField(3, "region", StringType())
)
BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"), spec_id=0)
UNPARTITIONED = PartitionSpec(spec_id=1)
BY_ID = PartitionSpec(PartitionField(1, 1001, BucketTransform(4), "id_bucket"), spec_id=2)

EU = EqualTo("region", "eu")


@dataclass(frozen=True)
class Planned:
    file_path: str
    spec_id: int
    manifest_path: str | None = None

    @classmethod
    def of(cls, *files: DataFile) -> list[Planned]:
        return [cls(file.file_path, file.spec_id) for file in files]


@dataclass
class Race:
    """A table with a file of each spec, and an operation that was planned on it."""

    table: HandmadeTable
    eu: DataFile
    plain: DataFile
    start: Start

    def delete(self, *, moves_rows: bool = False, **options: Any) -> RowDeltaValidation:
        return RowDeltaValidation(self.start, EU, Planned.of(self.eu), moves_rows=moves_rows, **options)

    def update(self, **options: Any) -> RowDeltaValidation:
        return self.delete(moves_rows=True, **options)

    def overwrite(self, **options: Any) -> OverwriteValidation:
        return OverwriteValidation(self.start, EU, Planned.of(self.eu), **options)

    def compact(self, **options: Any) -> RewriteValidation:
        return RewriteValidation(self.start, in_place=Planned.of(self.eu), **options)

    def upgrade(self) -> RewriteValidation:
        return RewriteValidation(self.start, moved=Planned.of(self.eu))

    def validate(self, validation: Callable[..., None]) -> None:
        validation(self.table.metadata, self.table.io)

    def conflict(self, validation: Callable[..., None]) -> CommitConflictError:
        with pytest.raises(CommitConflictError) as raised:
            self.validate(validation)
        return raised.value


@pytest.fixture
def race(tmp_path: Path) -> Race:
    table = HandmadeTable(tmp_path, SCHEMA, BY_REGION, UNPARTITIONED)
    eu, plain = table.data_file(0, "eu"), table.data_file(1)
    table.commit(eu, plain)
    return Race(table, eu, plain, Start.of(table.metadata))


ALL: list[Callable[[Race], Callable[..., None]]] = [
    Race.delete,
    Race.update,
    Race.overwrite,
    Race.compact,
    Race.upgrade,
]


@pytest.mark.parametrize("operation", ALL)
def test_nothing_conflicts_with_itself(race: Race, operation: Callable[[Race], Any]) -> None:
    race.validate(operation(race))


@pytest.mark.parametrize("operation", ALL)
def test_commits_elsewhere_are_no_conflict(race: Race, operation: Callable[[Race], Any]) -> None:
    us = race.table.data_file(0, "us")
    race.table.commit(us)
    race.table.commit(race.table.position_deletes([us.file_path], 0, "us"), race.table.equality_deletes(0, "us"))
    race.table.commit(removed=[us.file_path], operation=Operation.DELETE)
    race.validate(operation(race))


# Rows that come in under the filter.


@pytest.mark.parametrize("operation", [Race.delete, Race.update, Race.overwrite])
def test_new_rows_under_the_filter_conflict_when_serializable(race: Race, operation: Callable[..., Any]) -> None:
    new = race.table.data_file(0, "eu")
    snapshot = race.table.commit(new)
    error = race.conflict(operation(race))
    assert error.retryable
    assert f"snapshot {snapshot.snapshot_id} (append): {new.file_path}" in str(error)
    race.validate(operation(race, isolation=IsolationLevel.SNAPSHOT))


@pytest.mark.parametrize("operation", [Race.compact, Race.upgrade])
def test_new_rows_do_not_disturb_a_compaction(race: Race, operation: Callable[..., Any]) -> None:
    race.table.commit(race.table.data_file(0, "eu"))
    race.validate(operation(race))


def test_new_rows_of_an_unpartitioned_spec_conflict_unless_metrics_tell_otherwise(race: Race) -> None:
    bounds = {"lower_bounds": {3: b"fr"}, "upper_bounds": {3: b"us"}}
    race.table.commit(race.table.data_file(1, **bounds))
    race.validate(race.delete())
    race.table.commit(race.table.data_file(1))
    assert "region" in str(race.conflict(race.delete()))


def test_new_rows_of_a_spec_that_is_itself_new_are_judged_by_that_spec(race: Race) -> None:
    by_id = EqualTo("id", 7)
    mine = BucketTransform(4).transform(LongType())(7)
    race.table.add_spec(BY_ID)
    race.table.commit(race.table.data_file(2, (mine + 1) % 4))
    validation = RowDeltaValidation(race.start, by_id, Planned.of(race.eu), moves_rows=False)
    race.validate(validation)
    race.table.commit(race.table.data_file(2, mine))
    assert "EqualTo" in str(race.conflict(validation))


def test_new_rows_conflict_where_they_may_be_nan(race: Race) -> None:
    amounts = {"lower_bounds": {2: to_bytes(DoubleType(), 0.0)}, "upper_bounds": {2: to_bytes(DoubleType(), 1.0)}}
    above = RowDeltaValidation(race.start, GreaterThan("amount", 5.0), Planned.of(race.eu), moves_rows=False)
    race.table.commit(race.table.data_file(0, "eu", nan_value_counts={2: 0}, **amounts))
    race.validate(above)
    race.table.commit(race.table.data_file(0, "eu", **amounts))
    race.conflict(above)


def test_a_filter_on_a_column_that_is_gone_conflicts_with_any_new_rows(race: Race) -> None:
    where: BooleanExpression = EqualTo("amount", 5.0)
    race.table.add_schema(Schema(NestedField(1, "id", LongType()), NestedField(3, "region", StringType()), schema_id=1))
    race.validate(RowDeltaValidation(race.start, where, Planned.of(race.eu), moves_rows=False))
    race.table.commit(race.table.data_file(0, "us"))
    error = race.conflict(RowDeltaValidation(race.start, where, Planned.of(race.eu), moves_rows=False))
    assert "cannot be evaluated" in str(error)


def test_what_a_compaction_wrote_is_not_new(race: Race) -> None:
    race.table.commit(race.table.data_file(0, "eu"), removed=[], operation=Operation.REPLACE)
    race.validate(race.delete())


def test_an_operation_that_read_nothing_tolerates_new_rows(race: Race) -> None:
    race.table.commit(race.table.data_file(0, "eu"))
    race.validate(OverwriteValidation(race.start, None, Planned.of(race.eu)))


# Files that are gone.


@pytest.mark.parametrize("operation", ALL)
@pytest.mark.parametrize("by", [Operation.DELETE, Operation.OVERWRITE, Operation.REPLACE])
def test_a_removed_file_conflicts(race: Race, operation: Callable[[Race], Any], by: Operation) -> None:
    snapshot = race.table.commit(removed=[race.eu.file_path], operation=by)
    error = race.conflict(operation(race))
    assert error.retryable
    assert f"snapshot {snapshot.snapshot_id} ({by.value}): {race.eu.file_path}" in str(error)


@pytest.mark.parametrize("operation", ALL)
def test_a_removed_file_conflicts_also_under_snapshot_isolation_and_when_spelled_otherwise(
    race: Race, operation: Callable[..., Any]
) -> None:
    race.table.commit(removed=[race.eu.file_path], operation=Operation.DELETE)
    validation = operation(race)
    for name in ("deleted_from", "removed", "in_place", "moved"):
        for planned in getattr(validation, name, ()):
            object.__setattr__(planned, "file_path", planned.file_path.replace("file://", "file:"))
    if hasattr(validation, "isolation"):
        object.__setattr__(validation, "isolation", IsolationLevel.SNAPSHOT)
    race.conflict(validation)


def test_a_removed_delete_file_conflicts_with_a_rewrite_that_replaces_it(race: Race) -> None:
    delete = race.table.position_deletes([race.eu.file_path], 0, "eu")
    race.table.commit(delete)
    race.start = Start.of(race.table.metadata)
    race.table.commit(removed=[delete.file_path], operation=Operation.REPLACE)
    error = race.conflict(race.compact(removed_deletes=Planned.of(delete)))
    assert "removed delete files" in str(error)
    race.validate(race.compact())


# Deletes that come in.


@pytest.mark.parametrize(
    ("operation", "tolerated"),
    [(Race.delete, True), (Race.update, False), (Race.overwrite, False), (Race.compact, False), (Race.upgrade, False)],
)
@pytest.mark.parametrize("file_scoped", [True, False])
def test_a_new_position_delete_on_the_same_file(
    race: Race, operation: Callable[[Race], Any], tolerated: bool, file_scoped: bool
) -> None:
    targets = [race.eu.file_path] if file_scoped else [race.eu.file_path, "file:///elsewhere"]
    delete = race.table.position_deletes(targets, 0, "eu")
    snapshot = race.table.commit(delete, operation=Operation.DELETE)
    if tolerated:
        race.validate(operation(race))
        return
    error = race.conflict(operation(race))
    assert error.retryable
    assert race.eu.file_path in str(error)
    assert f"snapshot {snapshot.snapshot_id} (delete): {delete.file_path}" in str(error)


@pytest.mark.parametrize(
    ("operation", "tolerated"),
    [(Race.delete, True), (Race.update, False), (Race.overwrite, False), (Race.compact, True), (Race.upgrade, False)],
)
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_new_equality_delete_of_the_same_key_and_a_global_one(
    race: Race, operation: Callable[[Race], Any], tolerated: bool, everywhere: bool
) -> None:
    race.table.commit(race.table.equality_deletes(1) if everywhere else race.table.equality_deletes(0, "eu"))
    if tolerated:
        race.validate(operation(race))
    else:
        assert "added deletes for" in str(race.conflict(operation(race)))


@pytest.mark.parametrize("operation", [Race.update, Race.overwrite, Race.compact, Race.upgrade])
def test_deletes_that_were_there_already_are_no_conflict(race: Race, operation: Callable[[Race], Any]) -> None:
    race.table.commit(race.table.position_deletes([race.eu.file_path], 0, "eu"), race.table.equality_deletes(0, "eu"))
    race.start = Start.of(race.table.metadata)
    race.table.commit(race.table.data_file(0, "us"))
    race.validate(operation(race))


@pytest.mark.parametrize("operation", [Race.update, Race.overwrite, Race.compact, Race.upgrade])
def test_compacted_deletes_are_not_new(race: Race, operation: Callable[[Race], Any]) -> None:
    race.table.commit(race.table.position_deletes([race.eu.file_path], 0, "eu"))
    race.start = Start.of(race.table.metadata)
    race.table.commit(race.table.position_deletes([race.eu.file_path], 0, "eu"), operation=Operation.REPLACE)
    race.validate(operation(race))


def test_a_conflict_in_the_second_of_three_commits_is_found_and_named(race: Race) -> None:
    race.table.commit(race.table.data_file(0, "us"))
    culprit = race.table.commit(race.table.position_deletes([race.eu.file_path], 0, "eu"), operation=Operation.DELETE)
    race.table.commit(race.table.data_file(0, "us"))
    assert f"snapshot {culprit.snapshot_id} (delete)" in str(race.conflict(race.update()))


def test_the_manifest_of_a_planned_file_spares_the_others(race: Race) -> None:
    race.table.commit(race.table.position_deletes([race.eu.file_path], 0, "eu"))
    snapshot = race.table.metadata.snapshot_by_id(race.start.starting_snapshot_id or 0)
    assert snapshot is not None
    manifest = next(m for m in snapshot.manifests(race.table.io) if m.partition_spec_id == 0)
    planned = [Planned(race.eu.file_path, 0, manifest.manifest_path)]
    race.conflict(RewriteValidation(race.start, in_place=planned))


def test_a_file_that_was_never_there_is_a_mistake_not_a_conflict(race: Race) -> None:
    race.table.commit(race.table.equality_deletes(1))
    with pytest.raises(ConfigError, match="/nowhere"):
        race.validate(RewriteValidation(race.start, moved=[Planned("/nowhere", 0)]))


def test_nothing_can_be_planned_on_an_empty_table(race: Race) -> None:
    empty = dataclasses.replace(race.start, starting_snapshot_id=None)
    race.table.commit(race.table.equality_deletes(1))
    with pytest.raises(ConfigError, match="had no snapshot"):
        race.validate(RewriteValidation(empty, moved=Planned.of(race.eu)))


# The table itself.


@pytest.mark.parametrize("operation", ALL)
def test_a_table_created_again_is_another_table(race: Race, operation: Callable[[Race], Any]) -> None:
    race.table.metadata = race.table.metadata.model_copy(update={"table_uuid": uuid.uuid4()})
    error = race.conflict(operation(race))
    assert not error.retryable
    assert str(race.start.table_uuid) in str(error)


@pytest.mark.parametrize("operation", ALL)
def test_a_new_format_version_conflicts(race: Race, operation: Callable[[Race], Any]) -> None:
    race.start = dataclasses.replace(race.start, format_version=1)
    error = race.conflict(operation(race))
    assert error.retryable
    assert "from format version 1 to 2" in str(error)


@pytest.mark.parametrize("operation", ALL)
def test_a_rollback_beyond_the_start_conflicts(race: Race, operation: Callable[[Race], Any]) -> None:
    before = race.table.head()
    assert before is not None
    race.table.commit(race.table.data_file(0, "us"))
    race.start = Start.of(race.table.metadata)
    race.table.update(SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=before.snapshot_id))
    error = race.conflict(operation(race))
    assert error.retryable
    assert f"Snapshot {race.start.starting_snapshot_id}" in str(error)
    assert f"now at snapshot {before.snapshot_id}" in str(error)


def test_history_with_an_expired_snapshot_cannot_be_followed(race: Race) -> None:
    middle = race.table.commit(race.table.data_file(0, "us"))
    race.table.commit(race.table.data_file(0, "us"))
    race.table.update(RemoveSnapshotsUpdate(snapshot_ids=[middle.snapshot_id]))
    assert "snapshots in between were expired" in str(race.conflict(race.delete()))


def test_an_operation_that_started_on_an_empty_table_sees_all_commits(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, SCHEMA, BY_REGION)
    start = Start.of(table.metadata)
    overwrite = OverwriteValidation(start, AlwaysTrue(), [])
    overwrite(table.metadata, table.io)
    table.commit(table.data_file(0, "eu"))
    with pytest.raises(CommitConflictError, match="append"):
        overwrite(table.metadata, table.io)


def test_an_operation_that_started_on_an_empty_table_sees_files_of_expired_commits(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, SCHEMA, BY_REGION)
    overwrite = OverwriteValidation(Start.of(table.metadata), EU, [])
    expired = table.commit(table.data_file(0, "eu"))
    table.commit(table.data_file(0, "us"))
    table.update(RemoveSnapshotsUpdate(snapshot_ids=[expired.snapshot_id]))
    with pytest.raises(CommitConflictError, match=f"snapshot {expired.snapshot_id}"):
        overwrite(table.metadata, table.io)


def test_a_branch_knows_nothing_of_commits_to_another(race: Race) -> None:
    head = race.table.head()
    assert head is not None
    race.table.update(SetSnapshotRefUpdate(ref_name="audit", type="branch", snapshot_id=head.snapshot_id))
    race.table.commit(race.table.data_file(0, "eu"), branch="main")
    race.validate(race.delete(branch="audit"))
    race.conflict(race.delete(branch="main"))
    race.table.commit(race.table.data_file(0, "eu"), branch="audit")
    assert "'audit'" in str(race.conflict(race.delete(branch="audit")))


def test_a_branch_that_was_dropped_is_not_there_any_more(race: Race) -> None:
    assert "without a snapshot" in str(race.conflict(race.delete(branch="audit")))
