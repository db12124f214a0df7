"""Races in which one committer's change no longer holds: found on the retry, or rightly let through.

Each operation plans on one snapshot, another one commits in between, and the validation of the first runs
on the table as it is then. What is committed is read back by PyIceberg, or checked by the deletes that apply.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import IsolationLevel
from pyiceberg.transforms import IdentityTransform

from lakeshift.errors import CommitConflictError, LakeshiftError
from lakeshift.iceberg.commit.change_set import (
    ChangeSet,
    RemovedFile,
    append_change,
    overwrite_change,
    removed_files,
    replace_change,
    row_delta_change,
)
from lakeshift.iceberg.commit.commit import Validation, commit
from lakeshift.iceberg.commit.dangling import dangling_deletes, rows_to_be
from lakeshift.iceberg.commit.validation import OverwriteValidation, RewriteValidation, RowDeltaValidation
from lakeshift.iceberg.deletes import match_deletes
from lakeshift.iceberg.ledger import read_ledger
from tests.tables import (
    EVENTS,
    data_file,
    equality_deletes,
    events,
    files_under,
    ids,
    live_entries,
    local_catalog,
    position_deletes,
    referenced_files,
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Spec 0 is by region; spec 1, unpartitioned, is the default. Two files of region eu lie in spec 0."""
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))
    properties = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}
    table = local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=spec, properties=properties)
    with table.update_spec() as update:
        update.remove_field("region")
    append(table, data_file(table, events(1), 0), data_file(table, events(2, first=10), 0))
    return table


def append(table: Table, *files: DataFile) -> None:
    commit(table, append_change(table.metadata, files))


def live(table: Table) -> list[DataFile]:
    entries = sorted(live_entries(table).values(), key=lambda entry: entry.data_file.lower_bounds.get(1, b""))
    return [entry.data_file for entry in entries if entry.data_file.content.value == 0]


def other(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def after(change_of_another: ChangeSet, table: Table) -> Validation:
    """Lets another committer come first, once, after the first attempt has validated."""
    waiting = [change_of_another]

    def happen(_: TableMetadata, __: FileIO) -> None:
        if waiting:
            commit(other(table), waiting.pop())

    return happen


def race(table: Table, change: ChangeSet, validation: Validation, concurrent: ChangeSet, **options: Any) -> None:
    commit(table, change, validations=[validation, after(concurrent, table)], **options)


def conflicts(table: Table, change: ChangeSet, validation: Validation, concurrent: ChangeSet, match: str) -> None:
    with pytest.raises(CommitConflictError, match=match) as raised:
        race(table, change, validation, concurrent)
    assert raised.value.retryable
    table.refresh()
    assert table.metadata.snapshots[-1].summary.operation == concurrent.operation
    assert files_under(table.location()) == referenced_files(table)


def compaction(table: Table, spec_id: int) -> tuple[ChangeSet, RewriteValidation]:
    """Both files into one: in place for spec 0, into another key for spec 1."""
    inputs = [RemovedFile.of(file) for file in live(table)]
    new = data_file(table, [*events(1), *events(2, first=10)], spec_id)
    in_place = spec_id == 0
    change = replace_change(table.metadata, [new], inputs, data_sequence_number=1 if in_place else None)
    validation = RewriteValidation(change, in_place=inputs if in_place else (), moved=() if in_place else inputs)
    return change, validation


@pytest.mark.parametrize("spec_id", [0, 1])
def test_a_rewrite_meets_a_new_position_delete(table: Table, spec_id: int) -> None:
    change, validation = compaction(table, spec_id)
    concurrent = row_delta_change(table.metadata, [], [position_deletes(table, live(table)[0], [0])])
    conflicts(table, change, validation, concurrent, "added deletes for")
    assert ids(table) == [1, 2, 10, 11, 12]


def applied(table: Table) -> dict[str, list[int]]:
    """For each data file the contents of the deletes that apply to it."""
    ledger = read_ledger(table.refresh().metadata, table.io)
    found = {}
    for spec_id, matched in match_deletes(ledger).items():
        pairs = matched.pairs().to_pylist()
        for row, path in enumerate(ledger.data[spec_id].column("file_path").to_pylist()):
            found[path] = [
                ledger.deletes[pair["delete_spec_id"]].column("content")[pair["delete_row"]].as_py()
                for pair in pairs
                if pair["data_row"] == row
            ]
    return found


def test_an_equality_delete_of_the_same_key_still_applies_after_a_rewrite_in_place(table: Table) -> None:
    change, validation = compaction(table, 0)
    delete = equality_deletes(table, events(1, 1), ["id"], spec_id=0)
    race(table, change, validation, row_delta_change(table.metadata, [], [delete]))
    assert applied(table) == {change.added_data_files[0].file_path: [2]}


def test_a_global_equality_delete_still_applies_after_a_rewrite_in_place(table: Table) -> None:
    change, validation = compaction(table, 0)
    delete = equality_deletes(table, events(1, 1), ["id"], spec_id=1)
    race(table, change, validation, row_delta_change(table.metadata, [], [delete]))
    assert applied(table) == {change.added_data_files[0].file_path: [2]}


@pytest.mark.parametrize("delete_spec", [0, 1])
def test_a_rewrite_into_another_spec_meets_a_new_equality_delete(table: Table, delete_spec: int) -> None:
    change, validation = compaction(table, 1)
    delete = equality_deletes(table, events(1, 1), ["id"], spec_id=delete_spec)
    conflicts(table, change, validation, row_delta_change(table.metadata, [], [delete]), "added deletes for")


def test_an_equality_delete_of_another_partition_does_not_disturb(table: Table) -> None:
    change, validation = compaction(table, 1)
    delete = equality_deletes(table, events(1, 1, region="us"), ["id"], spec_id=0)
    race(table, change, validation, row_delta_change(table.metadata, [], [delete]))
    assert applied(table) == {change.added_data_files[0].file_path: []}


def test_a_rewrite_meets_the_removal_of_one_of_its_files(table: Table) -> None:
    change, validation = compaction(table, 0)
    concurrent = overwrite_change(table.metadata, [], [RemovedFile.of(live(table)[1])])
    conflicts(table, change, validation, concurrent, "removed data files")
    assert ids(table) == [0, 1, 2]


def test_a_rewrite_and_an_append_do_not_disturb_each_other(table: Table) -> None:
    change, validation = compaction(table, 1)
    race(table, change, validation, append_change(table.metadata, [data_file(table, events(3, first=20))]))
    assert ids(table) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert len(live_entries(table)) == 2


def update_of_row_zero(table: Table) -> tuple[ChangeSet, list[RemovedFile]]:
    first = live(table)[0]
    change = row_delta_change(table.metadata, [data_file(table, events(1, 1))], [position_deletes(table, first, [0])])
    return change, [RemovedFile.of(first)]


def test_a_merge_on_read_update_meets_a_delete_of_the_same_row(table: Table) -> None:
    change, touched = update_of_row_zero(table)
    validation = RowDeltaValidation(change, None, touched, moves_rows=True)
    concurrent = row_delta_change(table.metadata, [], [position_deletes(table, live(table)[0], [0])])
    conflicts(table, change, validation, concurrent, "added deletes for")
    assert ids(table) == [1, 2, 10, 11, 12]  # the deleted row has not returned


def test_two_merge_on_read_deletes_of_the_same_row_both_land(table: Table) -> None:
    first = live(table)[0]
    change = row_delta_change(table.metadata, [], [position_deletes(table, first, [0])])
    validation = RowDeltaValidation(change, None, [RemovedFile.of(first)], moves_rows=False)
    concurrent = row_delta_change(table.metadata, [], [position_deletes(table, first, [0, 1])])
    race(table, change, validation, concurrent)
    assert ids(table) == [2, 10, 11, 12]


def test_a_merge_on_read_delete_meets_a_rewrite(table: Table) -> None:
    first = live(table)[0]
    change = row_delta_change(table.metadata, [], [position_deletes(table, first, [0])])
    validation = RowDeltaValidation(change, None, [RemovedFile.of(first)], moves_rows=False)
    concurrent, _ = compaction(table, 1)
    conflicts(table, change, validation, concurrent, "removed data files")
    assert ids(table) == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("isolation", list(IsolationLevel))
def test_a_copy_on_write_update_meets_a_matching_insert(table: Table, isolation: IsolationLevel) -> None:
    """Serializable fails; snapshot isolation lets it through."""
    removed = [RemovedFile.of(live(table)[0])]
    change = overwrite_change(table.metadata, [data_file(table, events(1), 0)], removed)
    validation = OverwriteValidation(change, EqualTo("region", "eu"), removed, isolation)
    # The insert comes under a spec that the update has never seen.
    changed = other(table)
    with changed.update_spec() as update:
        update.add_field("id", IdentityTransform(), "id_part")
    concurrent = append_change(changed.metadata, [data_file(changed, events(3, 1, first=20))])
    if isolation == IsolationLevel.SERIALIZABLE:
        conflicts(table, change, validation, concurrent, "may hold rows")
    else:
        race(table, change, validation, concurrent)
    assert ids(table) == [0, 1, 2, 10, 11, 12, 20]


def test_a_copy_on_write_update_meets_a_new_equality_delete(table: Table) -> None:
    removed = [RemovedFile.of(live(table)[0])]
    change = overwrite_change(table.metadata, [data_file(table, events(1), 0)], removed)
    validation = OverwriteValidation(change, None, removed)
    delete = equality_deletes(table, events(1, 1), ["id"], spec_id=1)
    conflicts(table, change, validation, row_delta_change(table.metadata, [], [delete]), "added deletes for")


def test_the_start_must_still_be_an_ancestor(table: Table) -> None:
    start = table.metadata.current_snapshot_id
    append(table, data_file(table, events(3, first=20)))
    change, validation = compaction(table, 1)
    rolled_back = other(table)
    rolled_back.manage_snapshots().rollback_to_snapshot(start).commit()
    with pytest.raises(CommitConflictError, match="no longer an ancestor of branch 'main'"):
        commit(table, change, validations=[validation])
    assert ids(table) == [0, 1, 2, 10, 11, 12]


def test_a_global_equality_delete_stays_while_an_older_file_lives(table: Table) -> None:
    """Another committer compacts an older file meanwhile, under its old sequence number: the delete is still needed."""
    inputs = [RemovedFile.of(file) for file in live(table)]
    older = data_file(table, events(5, first=50), 0)
    append(table, older)
    delete = equality_deletes(table, events(1, 1), ["id"], spec_id=1)
    commit(table, row_delta_change(table.metadata, [], [delete]))
    new = data_file(table, [*events(1)[1:], *events(2, first=10)], 1)
    change = replace_change(table.metadata, [new], inputs)

    def dangling(metadata: TableMetadata, io: FileIO) -> list[RemovedFile]:
        paths = [removed.file_path for removed in change.removed_data_files]
        rows = rows_to_be(change.added_data_files, metadata)
        return removed_files(dangling_deletes(read_ledger(metadata, io), io, removed_data=paths, added_data=rows))

    kept = data_file(table, events(5, first=50), 0)
    concurrent = replace_change(table.metadata, [kept], [RemovedFile.of(older)], data_sequence_number=2)
    race(table, change, RewriteValidation(change, moved=inputs), concurrent, dangling_deletes=dangling)
    assert applied(table) == {new.file_path: [], kept.file_path: [2]}

    # Once that file has gone too, so has the delete.
    result = commit(
        table,
        overwrite_change(table.metadata, [], [RemovedFile.of(kept)]),
        dangling_deletes=lambda metadata, io: removed_files(
            dangling_deletes(read_ledger(metadata, io), io, removed_data=[kept.file_path])
        ),
    )
    assert result.removed_delete_files == 1
    assert ids(table) == [1, 2, 10, 11, 12]


def test_a_rewrite_cannot_make_rows_of_nothing(table: Table) -> None:
    change = replace_change(table.metadata, [data_file(table, events(1, 4), 0)], [RemovedFile.of(live(table)[0])])
    with pytest.raises(LakeshiftError, match="adds 4 rows where it removes 3"):
        commit(table, change)
    assert files_under(table.location()) == referenced_files(table)
