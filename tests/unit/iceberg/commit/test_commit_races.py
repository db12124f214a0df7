"""Two committers, step by step: what one does between another's refresh and swap.

A validation runs after the refresh and before the swap, so a validation that commits something itself is
a race that happens the same way every time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import DayTransform, HourTransform

from lakeshift.errors import CommitConflictError, CommitStateUnknownError, UnknownSpecError
from lakeshift.iceberg.commit.change_set import RemovedFile, append_change, overwrite_change, row_delta_change
from lakeshift.iceberg.commit.commit import Validation, commit
from tests.tables import (
    EVENTS,
    data_file,
    events,
    files_under,
    ids,
    live_entries,
    local_catalog,
    manifest_headers,
    position_deletes,
    referenced_files,
)

BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))
FAST = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}


class Interrupted(SqlCatalog):
    """A catalog whose commits can be made to fail, before or after they land."""

    trouble: list[Callable[[Callable[[], CommitTableResponse]], CommitTableResponse]]
    commits = 0

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        def land() -> CommitTableResponse:
            return super(Interrupted, self).commit_table(table, requirements, updates)

        type(self).commits += 1
        trouble = getattr(self, "trouble", [])
        return trouble.pop(0)(land) if trouble else land()


def lands_and_loses_the_answer(land: Callable[[], CommitTableResponse]) -> CommitTableResponse:
    land()
    raise CommitStateUnknownException("the connection was reset")


def is_lost_on_the_way(land: Callable[[], CommitTableResponse]) -> CommitTableResponse:
    raise CommitStateUnknownException("the connection was reset")


def is_refused(land: Callable[[], CommitTableResponse]) -> CommitTableResponse:
    raise CommitFailedException("someone else was faster")


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    Interrupted.commits = 0
    return local_catalog(tmp_path, cls=Interrupted)


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    return catalog.create_table("db.events", EVENTS, partition_spec=BY_DAY, properties=FAST)


def meanwhile(*actions: Callable[[], object]) -> Validation:
    """A validation that lets something happen, one thing per attempt."""
    waiting = list(actions)

    def happen(_: TableMetadata, __: FileIO) -> None:
        if waiting:
            waiting.pop(0)()

    return happen


def append(table: Table, *rows: list[dict[str, Any]], **options: Any) -> Any:
    files = [data_file(table, each) for each in rows]
    return commit(table, append_change(table.metadata, files), **options)


def other(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def nothing_left_behind(table: Table) -> None:
    table.refresh()
    assert files_under(table.location()) == referenced_files(table)


def test_a_lost_race_is_tried_again_and_nothing_is_lost_or_doubled(table: Table) -> None:
    result = append(table, events(1), validations=[meanwhile(lambda: append(other(table), events(2, first=10)))])
    assert ids(table) == [0, 1, 2, 10, 11, 12]
    assert table.metadata.current_snapshot_id == result.snapshot_id
    nothing_left_behind(table)


def test_the_user_s_table_shows_the_new_snapshot(table: Table) -> None:
    result = append(table, events(1))
    assert table.current_snapshot().snapshot_id == result.snapshot_id
    assert table.metadata_location == other(table).metadata_location


def test_a_retry_takes_the_sequence_number_of_the_attempt_that_lands(table: Table) -> None:
    append(table, events(1), validations=[meanwhile(lambda: append(other(table), events(2, first=10)))])
    assert table.metadata.last_sequence_number == 2
    newest = [manifest for manifest, _ in manifest_headers(table) if manifest.sequence_number == 2]
    assert [manifest.min_sequence_number for manifest in newest] == [2]
    assert sorted(entry.sequence_number for entry in live_entries(table).values()) == [1, 2]
    totals = [snapshot.summary["total-records"] for snapshot in table.snapshots()]
    assert totals == ["3", "6"]


def test_only_what_depends_on_the_parent_is_written_again(table: Table) -> None:
    kept, gone = data_file(table, events(1)), data_file(table, events(2, first=10))
    commit(table, append_change(table.metadata, [kept, gone]))
    written: list[set[str]] = []
    root = Path(table.location().removeprefix("file://"))

    def look(_: TableMetadata, __: FileIO) -> None:
        written.append({path.name for path in (root / "metadata").glob("*-m*.avro")})

    intruder = meanwhile(lambda: append(other(table), events(3, first=20)))
    change = overwrite_change(table.metadata, [data_file(table, events(4, first=30))], [RemovedFile.of(gone)])
    commit(table, change, validations=[look, intruder, look])
    before_first, _, before_second, _ = written
    used = {Path(manifest.manifest_path).name for manifest, _ in manifest_headers(table)}
    # The new file's manifest and the rewritten one were made by the first attempt and are used by the second.
    assert len(before_second - before_first) == 3  # with the intruder's
    assert before_second - before_first <= used
    assert ids(table) == [0, 1, 2, 20, 21, 22, 30, 31, 32]
    nothing_left_behind(table)


def test_a_stale_append_under_a_concurrent_spec_change_keeps_its_spec(table: Table) -> None:
    def to_hours() -> None:
        changed = other(table)
        with changed.update_spec() as update:
            update.remove_field("ts_day")
            update.add_field("ts", HourTransform(), "ts_hour")
        append(changed, events(2, hour=7, first=10))

    result = append(table, events(1, hour=5), validations=[meanwhile(to_hours)])
    table.refresh()
    assert table.metadata.default_spec_id == 1
    assert result.by_spec.keys() == {0}
    assert {entry.data_file.spec_id for entry in live_entries(table).values()} == {0, 1}
    assert ids(table, row_filter="ts >= '2026-01-01T05:00:00' and ts < '2026-01-01T06:00:00'") == [0, 1, 2]
    nothing_left_behind(table)


def test_the_default_spec_need_not_have_the_largest_number(table: Table) -> None:
    with table.update_spec() as update:
        update.add_identity("region")
    with table.update_spec() as update:
        update.remove_field("region")
    assert (table.metadata.default_spec_id, max(table.specs())) == (0, 1)
    result = commit(
        table, append_change(table.metadata, [data_file(table, events(1)), data_file(table, events(2), spec_id=1)])
    )
    assert result.by_spec.keys() == {0, 1}


def test_a_spec_that_is_gone_when_the_commit_comes_is_named(table: Table, catalog: SqlCatalog) -> None:
    change = append_change(table.metadata, [data_file(table, events(1))])
    change.added_data_files[0].spec_id = 5
    with pytest.raises(UnknownSpecError, match="no partition spec 5; it has 0"):
        commit(table, change)
    nothing_left_behind(table)


def test_a_table_that_was_dropped_and_created_again_is_not_written(table: Table, catalog: SqlCatalog) -> None:
    def recreate() -> None:
        catalog.drop_table("db.events")
        catalog.create_table("db.events", EVENTS, partition_spec=BY_DAY, properties=FAST)

    with pytest.raises(CommitConflictError, match="dropped and created again") as raised:
        append(table, events(1), validations=[meanwhile(recreate)])
    assert not raised.value.retryable
    assert ids(catalog.load_table("db.events")) == []


def test_a_table_that_was_dropped_is_not_written(table: Table, catalog: SqlCatalog) -> None:
    change = append_change(table.metadata, [data_file(table, events(1))])
    catalog.drop_table("db.events")
    with pytest.raises(CommitConflictError, match="does not exist any more") as raised:
        commit(table, change)
    assert not raised.value.retryable
    assert not Path(change.added_data_files[0].file_path.removeprefix("file://")).exists()


def test_a_format_upgrade_in_between_is_a_conflict(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.old", EVENTS, properties={"format-version": "1", **FAST})

    def upgrade() -> None:
        with other(table).transaction() as transaction:
            transaction.upgrade_table_version(2)
        append(other(table), events(2, first=10))

    with pytest.raises(CommitConflictError, match="from format version 1 to 2") as raised:
        append(table, events(1), validations=[meanwhile(upgrade)])
    assert raised.value.retryable
    nothing_left_behind(table)


def test_a_validation_sees_fresh_metadata_on_every_attempt(table: Table) -> None:
    seen = []
    append(
        table,
        events(1),
        validations=[
            lambda metadata, _: seen.append(len(metadata.snapshots)),
            meanwhile(*(lambda n=n: append(other(table), events(2, first=10 * n)) for n in (1, 2))),
        ],
    )
    assert seen == [0, 1, 2]


def test_a_failed_validation_leaves_nothing_behind(table: Table) -> None:
    append(table, events(1))
    before = files_under(table.location())

    def object_to_it(_: TableMetadata, __: FileIO) -> None:
        raise CommitConflictError("a conflicting file appeared", retryable=True)

    intruder = meanwhile(lambda: None)
    data = data_file(table, events(2))
    change = row_delta_change(table.metadata, [data], [position_deletes(table, data, [0])])
    with pytest.raises(CommitConflictError, match="conflicting file"):
        commit(table, change, validations=[intruder, object_to_it])
    assert files_under(table.location()) == before


def test_a_validation_that_fails_on_a_retry_leaves_nothing_behind(table: Table) -> None:
    def no_second_snapshot(metadata: TableMetadata, _: FileIO) -> None:
        if metadata.snapshots:
            raise CommitConflictError("the table is not empty any more", retryable=True)

    intruder = meanwhile(lambda: append(other(table), events(2, first=10)))
    with pytest.raises(CommitConflictError, match="not empty any more"):
        append(table, events(1), validations=[no_second_snapshot, intruder])
    assert ids(table) == [10, 11, 12]
    nothing_left_behind(table)


def test_files_of_the_caller_s_are_kept_on_request(table: Table) -> None:
    file = data_file(table, events(1))

    def object_to_it(_: TableMetadata, __: FileIO) -> None:
        raise CommitConflictError("no", retryable=False)

    with pytest.raises(CommitConflictError):
        commit(table, append_change(table.metadata, [file]), validations=[object_to_it], keep_files_on_failure=True)
    assert files_under(table.location()) - referenced_files(table) == {file.file_path.removeprefix("file://")}


def test_a_commit_gives_up_after_the_retries_the_table_allows(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.busy", EVENTS, properties={"commit.retry.num-retries": "2", **FAST})
    catalog.trouble = [is_refused] * 9  # type: ignore[attr-defined]
    Interrupted.commits = 0
    with pytest.raises(CommitConflictError, match=r"lost 3 races.*commit\.retry\.num-retries") as raised:
        append(table, events(1))
    assert raised.value.retryable
    assert Interrupted.commits == 3
    nothing_left_behind(table)


def test_a_commit_gives_up_when_its_time_is_over(catalog: SqlCatalog) -> None:
    properties = {"commit.retry.num-retries": "1000", "commit.retry.total-timeout-ms": "30", **FAST}
    table = catalog.create_table("db.busy", EVENTS, properties=properties)
    catalog.trouble = [is_refused] * 2000  # type: ignore[attr-defined]
    Interrupted.commits = 0
    with pytest.raises(CommitConflictError, match="races in a row"):
        append(table, events(1))
    assert Interrupted.commits < 100


def test_a_lost_answer_is_looked_up_and_found(table: Table, catalog: SqlCatalog) -> None:
    catalog.trouble = [lands_and_loses_the_answer]  # type: ignore[attr-defined]
    result = append(table, events(1))
    assert table.current_snapshot().snapshot_id == result.snapshot_id
    assert ids(table) == [0, 1, 2]
    assert len(table.snapshots()) == 1
    nothing_left_behind(table)


def test_a_lost_answer_is_found_though_others_committed_since(table: Table, catalog: SqlCatalog) -> None:
    def lands_loses_the_answer_and_is_followed(land: Callable[[], CommitTableResponse]) -> CommitTableResponse:
        land()
        append(other(table), events(2, first=10))
        raise TimeoutError("no answer within 30 s")

    catalog.trouble = [lands_loses_the_answer_and_is_followed]  # type: ignore[attr-defined]
    result = append(table, events(1))
    assert result.added_data_files == 1
    assert table.refresh().snapshots()[0].snapshot_id == result.snapshot_id
    assert ids(table) == [0, 1, 2, 10, 11, 12]
    nothing_left_behind(table)


def test_a_lost_request_is_sent_again(table: Table, catalog: SqlCatalog) -> None:
    catalog.trouble = [is_lost_on_the_way, is_lost_on_the_way]  # type: ignore[attr-defined]
    append(table, events(1))
    assert ids(table) == [0, 1, 2]
    nothing_left_behind(table)


def test_a_request_that_lands_late_does_not_double_anything(table: Table, catalog: SqlCatalog) -> None:
    """The first request is thought lost; it lands just before the second, which then loses against it."""
    late: list[Callable[[], CommitTableResponse]] = []

    def is_delayed(land: Callable[[], CommitTableResponse]) -> CommitTableResponse:
        late.append(land)
        raise TimeoutError("no answer within 30 s")

    def comes_after_the_delayed_one(land: Callable[[], CommitTableResponse]) -> CommitTableResponse:
        late.pop()()
        return land()

    catalog.trouble = [is_delayed, comes_after_the_delayed_one]  # type: ignore[attr-defined]
    append(table, events(1))
    assert ids(table) == [0, 1, 2]
    assert len(table.snapshots()) == 1
    nothing_left_behind(table)


def test_an_unknown_outcome_is_said_and_every_file_kept(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.busy", EVENTS, properties={"commit.retry.num-retries": "1", **FAST})
    catalog.trouble = [is_lost_on_the_way] * 9  # type: ignore[attr-defined]
    file = data_file(table, events(1))
    with pytest.raises(CommitStateUnknownError, match=r"Every file was kept\. Look for snapshot \d+") as raised:
        commit(table, append_change(table.metadata, [file]))
    left = files_under(table.location()) - referenced_files(table)
    assert file.file_path.removeprefix("file://") in left
    assert len([name for name in left if "/snap-" in name]) == 2
    assert isinstance(raised.value.__cause__, CommitStateUnknownException)


def test_an_unknown_outcome_is_known_once_the_branch_has_moved_on(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.busy", EVENTS, properties={"commit.retry.num-retries": "0", **FAST})

    def is_lost_and_overtaken(land: Callable[[], CommitTableResponse]) -> CommitTableResponse:
        append(other(table), events(2, first=10))
        raise TimeoutError("no answer within 30 s")

    catalog.trouble = [is_lost_and_overtaken]  # type: ignore[attr-defined]
    with pytest.raises(CommitConflictError, match="Nothing was committed"):
        append(table, events(1))
    assert ids(table) == [10, 11, 12]
    nothing_left_behind(table)


def test_a_catalog_that_cannot_be_asked_afterwards_leaves_the_outcome_unknown(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("db.busy", EVENTS, properties={"commit.retry.num-retries": "2", **FAST})

    def lands_and_the_catalog_goes_away(land: Callable[[], CommitTableResponse]) -> CommitTableResponse:
        land()
        monkeypatch.setattr(Interrupted, "load_table", lambda *_: (_ for _ in ()).throw(ConnectionError("gone")))
        raise ConnectionError("gone")

    catalog.trouble = [lands_and_the_catalog_goes_away]  # type: ignore[attr-defined]
    with pytest.raises(CommitStateUnknownError):
        append(table, events(1))
    monkeypatch.undo()
    assert ids(table) == [0, 1, 2]


def test_an_interrupted_call_keeps_every_file(table: Table, catalog: SqlCatalog) -> None:
    def is_interrupted(land: Callable[[], CommitTableResponse]) -> CommitTableResponse:
        land()
        raise KeyboardInterrupt

    catalog.trouble = [is_interrupted]  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        append(table, events(1))
    assert ids(table) == [0, 1, 2]


def test_a_refusal_that_does_not_pass_is_not_repeated(table: Table, catalog: SqlCatalog) -> None:
    def is_forbidden(land: Callable[[], CommitTableResponse]) -> CommitTableResponse:
        raise PermissionError("read only")

    catalog.trouble = [is_forbidden] * 9  # type: ignore[attr-defined]
    Interrupted.commits = 0
    with pytest.raises(PermissionError):
        append(table, events(1))
    assert Interrupted.commits == 1
    nothing_left_behind(table)


def test_a_sequence_number_that_another_branch_took_is_only_a_lost_race(table: Table) -> None:
    append(table, events(1))
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    intruder = meanwhile(lambda: append(other(table), events(2, first=10)))
    append(table, events(3, first=20), branch="audit", validations=[intruder])
    table.refresh()
    assert table.metadata.last_sequence_number == 3
    assert ids(table) == [0, 1, 2, 10, 11, 12]
    snapshot_id = table.metadata.refs["audit"].snapshot_id
    assert ids(table, snapshot_id=snapshot_id) == [0, 1, 2, 20, 21, 22]
    nothing_left_behind(table)


def test_dangling_deletes_are_worked_out_again_on_every_attempt(table: Table) -> None:
    file = data_file(table, events(1))
    commit(table, append_change(table.metadata, [file]))
    deletes = position_deletes(table, file, [0])
    commit(table, row_delta_change(table.metadata, [], [deletes]))
    asked = []

    def dangling(metadata: TableMetadata, io: FileIO) -> list[RemovedFile]:
        asked.append(metadata.current_snapshot_id)
        # On the first attempt the delete would dangle; then another commit brings a use for it.
        return [RemovedFile.of(deletes)] if len(asked) == 1 else []

    intruder = meanwhile(lambda: append(other(table), events(2, first=10)))
    change = overwrite_change(table.metadata, [], [RemovedFile.of(file)])
    result = commit(table, change, validations=[intruder], dangling_deletes=dangling)
    assert len(asked) == 2
    assert result.removed_delete_files == 0
    assert deletes.file_path in live_entries(table)
    nothing_left_behind(table)


def test_dangling_deletes_leave_with_the_commit(table: Table) -> None:
    file = data_file(table, events(1))
    commit(table, append_change(table.metadata, [file]))
    deletes = position_deletes(table, file, [0])
    commit(table, row_delta_change(table.metadata, [], [deletes]))
    change = overwrite_change(table.metadata, [], [RemovedFile.of(file)])
    result = commit(table, change, dangling_deletes=lambda *_: [RemovedFile.of(deletes)])
    assert (result.removed_data_files, result.removed_delete_files) == (1, 1)
    assert live_entries(table) == {}


def test_nothing_to_commit_makes_no_snapshot(table: Table) -> None:
    result = commit(table, append_change(table.metadata, []))
    assert result.snapshot_id is None
    assert table.refresh().snapshots() == []
