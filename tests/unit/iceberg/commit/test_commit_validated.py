"""Conflict checks and dangling deletes inside the commit loop, with real files and a real catalog.

A first validation that commits something itself is the other committer: it comes after the operation's
plan, and before its own checks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from lakeshift.errors import CommitConflictError
from lakeshift.iceberg.commit.change_set import (
    ChangeSet,
    RemovedFile,
    append_change,
    replace_change,
    row_delta_change,
)
from lakeshift.iceberg.commit.commit import Validation, commit
from lakeshift.iceberg.commit.dangling import DanglingAfter
from lakeshift.iceberg.commit.validation import RewriteValidation, RowDeltaValidation
from lakeshift.iceberg.deletes import match_deletes
from lakeshift.iceberg.ledger import read_ledger
from tests.tables import EVENTS, data_file, equality_deletes, files_under, local_catalog, position_deletes

BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))
EU = [{"id": number, "region": "eu"} for number in range(4)]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return local_catalog(tmp_path / "lake").create_table("db.events", EVENTS, partition_spec=BY_REGION)


def other_commits(table: Table, *deletes: DataFile) -> Validation:
    """Another committer, who comes in once."""
    waiting = list(deletes)

    def come_in(metadata: object, io: object) -> None:
        if waiting:
            other = table.catalog.load_table(table.name())
            commit(other, row_delta_change(other.metadata, [], [waiting.pop()]))

    return come_in


def compaction(table: Table, *files: DataFile, rows: int = 1) -> tuple[ChangeSet, RewriteValidation]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    change = replace_change(
        table.metadata,
        [data_file(table, EU[:rows])],
        [RemovedFile.of(file) for file in files],
        data_sequence_number=snapshot.sequence_number,
    )
    return change, RewriteValidation(change, in_place=change.removed_data_files)


def applied(table: Table) -> dict[str, int]:
    """How many delete files apply to each data file."""
    ledger = read_ledger(table.metadata, table.io)
    matched = match_deletes(ledger)
    return {
        path: count
        for spec_id, rows in ledger.data.items()
        for path, count in zip(rows.column("file_path").to_pylist(), matched[spec_id].counts.to_pylist(), strict=True)
    }


def test_a_compaction_takes_its_dangling_deletes_along(table: Table) -> None:
    first, second = data_file(table, EU[:2]), data_file(table, EU[2:])
    commit(table, append_change(table.metadata, [first, second]))
    commit(table, row_delta_change(table.metadata, [], [position_deletes(table, first, [0])]))
    commit(table, row_delta_change(table.metadata, [], [position_deletes(table, [(first, 1), (second, 0)])]))
    change, validation = compaction(table, first, second)
    result = commit(table, change, validations=[validation], dangling_deletes=DanglingAfter(change))
    assert result.removed_delete_files == 2
    assert read_ledger(table.metadata, table.io).deletes == {}


def test_a_compaction_of_one_of_two_files_leaves_the_deletes_they_share(table: Table) -> None:
    first, second = data_file(table, EU[:2]), data_file(table, EU[2:])
    commit(table, append_change(table.metadata, [first, second]))
    commit(table, row_delta_change(table.metadata, [], [position_deletes(table, [(first, 1), (second, 0)])]))
    change, validation = compaction(table, first)
    result = commit(table, change, validations=[validation], dangling_deletes=DanglingAfter(change))
    assert result.removed_delete_files == 0
    assert applied(table)[second.file_path] == 1


def test_a_compaction_against_a_new_position_delete_fails_and_leaves_nothing_behind(table: Table) -> None:
    first = data_file(table, EU)
    commit(table, append_change(table.metadata, [first]))
    delete = position_deletes(table, first, [0])
    change, validation = compaction(table, first)
    with pytest.raises(CommitConflictError, match=first.file_path) as raised:
        commit(table, change, validations=[other_commits(table, delete), validation])
    assert raised.value.retryable
    data = {name for name in files_under(table.location()) if "/data/" in name}
    assert {Path(name).name for name in data} == {Path(file.file_path).name for file in (first, delete)}


@pytest.mark.parametrize("everywhere", [False, True])
def test_an_equality_delete_that_meets_a_compaction_still_applies_to_its_output(table: Table, everywhere: bool) -> None:
    if everywhere:
        with table.update_spec() as update:
            update.remove_field("region")
    first = data_file(table, EU, spec_id=0)
    commit(table, append_change(table.metadata, [first]))
    delete = equality_deletes(table, EU[:1], ["id"])
    change = replace_change(
        table.metadata, [data_file(table, EU, spec_id=0)], [RemovedFile.of(first)], data_sequence_number=1
    )
    commit(
        table,
        change,
        validations=[other_commits(table, delete), RewriteValidation(change, in_place=change.removed_data_files)],
        dangling_deletes=DanglingAfter(change),
    )
    assert applied(table) == {change.added_data_files[0].file_path: 1}


def test_a_merge_on_read_update_against_a_delete_of_the_same_row_fails(table: Table) -> None:
    first = data_file(table, EU)
    commit(table, append_change(table.metadata, [first]))
    other = position_deletes(table, first, [0])
    change = row_delta_change(
        table.metadata, [data_file(table, [{**EU[0], "amount": 5}])], [position_deletes(table, first, [0])]
    )

    def validation(moves_rows: bool) -> Callable[..., None]:
        return RowDeltaValidation(change, EqualTo("id", 0), [RemovedFile.of(first)], moves_rows=moves_rows)

    with pytest.raises(CommitConflictError, match="added deletes for"):
        commit(table, change, validations=[other_commits(table, other), validation(moves_rows=True)])
