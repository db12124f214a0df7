"""Where commits go: branches with their retention, staged snapshots, and what is refused before writing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate

from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.commit.change_set import append_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.commit.result import CommitResult
from tests.tables import EVENTS, data_file, events, files_under, ids, local_catalog, referenced_files


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = local_catalog(tmp_path).create_table("db.events", EVENTS)
    append(table, 1)
    return table


def append(table: Table, day: int, **options: object) -> CommitResult:
    change = append_change(table.metadata, [data_file(table, events(day, first=10 * day))])
    return commit(table, change, **options)  # type: ignore[arg-type]


def set_property(table: Table, **properties: str) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({name.replace("__", "."): value for name, value in properties.items()})


def test_a_branch_moves_and_main_does_not(table: Table) -> None:
    main = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_branch(main, "audit").commit()
    result = append(table, 2, branch="audit")
    assert table.current_snapshot().snapshot_id == main
    assert table.metadata.refs["audit"].snapshot_id == result.snapshot_id
    assert table.metadata.snapshot_by_id(result.snapshot_id).parent_snapshot_id == main
    assert ids(table) == [10, 11, 12]
    assert ids(table, snapshot_id=result.snapshot_id) == [10, 11, 12, 20, 21, 22]
    assert table.metadata.snapshot_by_id(result.snapshot_id).summary["total-records"] == "6"


@pytest.mark.parametrize("branch", ["main", "audit"])
def test_the_retention_of_a_branch_is_kept(table: Table, branch: str) -> None:
    update = SetSnapshotRefUpdate.model_validate(
        {
            "ref-name": branch,
            "type": "branch",
            "snapshot-id": table.current_snapshot().snapshot_id,
            "max-ref-age-ms": 111 if branch != "main" else None,
            "max-snapshot-age-ms": 222,
            "min-snapshots-to-keep": 3,
        }
    )
    table.catalog.commit_table(table, (), (update,))
    table.refresh()
    append(table, 2, branch=branch)
    ref = table.metadata.refs[branch]
    assert (ref.max_snapshot_age_ms, ref.min_snapshots_to_keep) == (222, 3)
    assert ref.max_ref_age_ms == (None if branch == "main" else 111)


def test_an_unknown_branch_is_refused_with_those_there_are(table: Table) -> None:
    with pytest.raises(ConfigError, match=r"no branch 'adit'; it has main.*create_branch"):
        append(table, 2, branch="adit")
    assert files_under(table.location()) == referenced_files(table)


def test_a_tag_cannot_be_written_to(table: Table) -> None:
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "v1").commit()
    with pytest.raises(ConfigError, match="'v1' is a tag"):
        append(table, 2, branch="v1")


def test_snapshot_properties_are_in_the_summary(table: Table) -> None:
    append(table, 2, snapshot_properties={"job": "nightly", "run-id": "7"})
    summary = table.current_snapshot().summary
    assert (summary["job"], summary["run-id"]) == ("nightly", "7")


@pytest.mark.parametrize("name", ["operation", "added-records", "total-files-size", "partitions.x=1", "manifests-kept"])
def test_snapshot_properties_cannot_contradict_the_commit(table: Table, name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        append(table, 2, snapshot_properties={name: "1"})


def test_an_audited_table_is_not_published_to_unaudited(table: Table) -> None:
    set_property(table, write__wap__enabled="true")
    with pytest.raises(UnsupportedTableError, match=r"write\.wap\.enabled=true.*wap\.id"):
        append(table, 2)
    assert ids(table) == [10, 11, 12]
    assert files_under(table.location()) == referenced_files(table)


def test_a_wap_id_stages_the_snapshot(table: Table) -> None:
    set_property(table, write__wap__enabled="true")
    main = table.current_snapshot().snapshot_id
    result = append(table, 2, snapshot_properties={"wap.id": "audit-1"})
    assert table.current_snapshot().snapshot_id == main
    staged = table.metadata.snapshot_by_id(result.snapshot_id)
    assert staged.summary["wap.id"] == "audit-1"
    assert staged.parent_snapshot_id == main
    assert ids(table, snapshot_id=result.snapshot_id) == [10, 11, 12, 20, 21, 22]
    # A second staged snapshot gets a sequence number of its own.
    second = append(table, 3, snapshot_properties={"wap.id": "audit-2"})
    numbers = [table.metadata.snapshot_by_id(each.snapshot_id).sequence_number for each in (result, second)]
    assert numbers == [2, 3]


def test_an_audited_table_can_be_written_on_a_branch(table: Table) -> None:
    set_property(table, write__wap__enabled="true")
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    append(table, 2, branch="audit")
    assert ids(table) == [10, 11, 12]


def test_a_wap_id_is_never_ignored(table: Table) -> None:
    with pytest.raises(ConfigError, match=r"wap\.id was given, but .* does not have write\.wap\.enabled"):
        append(table, 2, snapshot_properties={"wap.id": "a"})
    set_property(table, write__wap__enabled="true")
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    with pytest.raises(ConfigError, match=r"Both wap\.id and the branch 'audit'"):
        append(table, 2, branch="audit", snapshot_properties={"wap.id": "a"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("commit.retry.num-retries", "-1"),
        ("commit.retry.min-wait-ms", "soon"),
        ("commit.manifest.target-size-bytes", "8MB"),
        ("commit.manifest-merge.enabled", "maybe"),
        ("write.wap.enabled", "yes"),
        ("write.manifest.compression-level", "high"),
    ],
)
def test_a_property_that_cannot_be_meant_is_named(table: Table, name: str, value: str) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({name: value})
    with pytest.raises(ConfigError, match=value):
        append(table, 2)
    assert files_under(table.location()) == referenced_files(table)
