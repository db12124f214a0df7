"""Compaction of tables that Iceberg Java wrote, with Java as the reader, as the other committer, and as a judge."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lakeshift
from lakeshift.errors import CommitConflictError
from lakeshift.iceberg.rewrite.result import RewriteResult
from lakeshift.iceberg.rewrite.runner import run_rewrite
from lakeshift.iceberg.table import IcebergTable
from tests.peer_iceberg import PeerTable
from tests.tables import files_under, referenced_files

_numbers = itertools.count()


@dataclass
class Shared:
    """A table that Java and we see through one catalog."""

    spark: Any
    lake: lakeshift.Lake
    name: str

    @property
    def qualified(self) -> str:
        return f"{self.lake.name}.{self.name}"

    @property
    def ours(self) -> IcebergTable:
        return self.lake.iceberg(self.name)

    def sql(self, text: str) -> list[Any]:
        rows: list[Any] = self.spark.sql(text.format(table=self.qualified)).collect()
        return rows

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.sql("SELECT id, region, amount FROM {table}"))

    def count(self, metadata_table: str) -> int:
        return int(self.sql(f"SELECT count(*) FROM {{table}}.{metadata_table}")[0][0])

    def insert(self, first: int, count: int = 10, days: str = "0") -> None:
        self.sql(
            f"INSERT INTO {{table}} SELECT /*+ COALESCE(1) */ id, timestamp_ntz '2026-01-01' + make_interval(0, 0, 0, "
            f"{days}), IF(id % 2 = 0, 'eu', 'us'), id / 2 FROM range({first}, {first + count})"
        )

    def peer(self) -> PeerTable:
        return PeerTable(self.spark, self.qualified)


@pytest.fixture(scope="module")
def lake(spark: Any, java_catalog: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> lakeshift.Lake:
    name = java_catalog(tmp_path_factory.mktemp("rewrite"))
    spark.sql(f"CREATE NAMESPACE {name}.db")
    return lakeshift.connect(name, spark=spark)


@pytest.fixture
def table(spark: Any, lake: lakeshift.Lake) -> Shared:
    """Three small files of each region, by region."""
    made = Shared(spark, lake, f"db.t{next(_numbers)}")
    made.sql(
        "CREATE TABLE {table} (id BIGINT, ts TIMESTAMP_NTZ, region STRING, amount DOUBLE) USING iceberg "
        "PARTITIONED BY (region) TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read', "
        "'write.update.mode'='merge-on-read')"
    )
    for number in range(3):
        made.insert(10 * number)
    return made


@pytest.mark.once_first
def test_an_evolved_table_with_deletes_of_every_kind(spark: Any, lake: lakeshift.Lake) -> None:
    """Compacted in place, then moved to the default spec: Java reads the same rows, and finds nothing left to do."""
    table = Shared(spark, lake, f"db.t{next(_numbers)}")
    table.sql(
        "CREATE TABLE {table} (id BIGINT, ts TIMESTAMP_NTZ, region STRING, amount DOUBLE) USING iceberg "
        "PARTITIONED BY (days(ts)) TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    for number in range(5):
        table.insert(20 * number, 20, days="id % 2")
    table.sql("ALTER TABLE {table} REPLACE PARTITION FIELD days(ts) WITH region")
    for number in range(5, 9):
        table.insert(20 * number, 20)
    table.sql("DELETE FROM {table} WHERE id % 7 = 0")
    peer = table.peer()
    peer.delete_equal("id", rows={"id": 3}, spec_id=0)
    peer.delete_equal("region", rows={"region": "eu", "id": 102}, spec_id=1)
    table.insert(180, 20)
    table.sql("ALTER TABLE {table} DROP PARTITION FIELD region")
    table.peer().delete_equal("id", "region", rows={"id": 5})
    table.sql("ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id)")
    table.sql("ALTER TABLE {table} ADD COLUMN note STRING")
    table.sql("INSERT INTO {table} SELECT id, ts, region, amount, 'new' FROM {table} WHERE id = 11")
    before = table.rows()
    assert len(before) < 180
    assert table.count("delete_files") > 4

    result = table.ours.rewrite_data_files(min_input_files=2, delete_file_threshold=1)
    assert table.rows() == before
    assert table.count("delete_files") == 0
    assert result.removed_delete_files > 4
    assert result.rows_after < result.rows_before
    assert len(result.snapshot_ids) == 1
    # What was wrongly partitioned under no spec stays where it was; each file kept its spec.
    assert {group.output_spec_id for group in result.groups} == {0, 1}
    assert all(group.spec_ids == (group.output_spec_id,) for group in result.groups)
    assert table.ours.plan_rewrite(min_input_files=2, delete_file_threshold=1).groups == ()
    assert sorted(row.id for row in table.sql("SELECT id FROM {table} WHERE region = 'us' AND id < 40")) == sorted(
        row[0] for row in before if row[1] == "us" and row[0] < 40
    )

    default = table.ours.table.spec().spec_id
    moved = table.ours.rewrite_data_files(target_spec_id=default)
    assert table.rows() == before
    assert {row.spec_id for row in table.sql("SELECT DISTINCT spec_id FROM {table}.files")} == {default}
    assert moved.rows_after == moved.rows_before
    (left,) = table.sql(f"CALL {lake.name}.system.rewrite_data_files(table => '{table.name}')")
    assert left.rewritten_data_files_count == 0
    assert [row.note for row in table.sql("SELECT note FROM {table} WHERE id = 11 ORDER BY note NULLS FIRST")] == [
        None,
        "new",
    ]
    for number in (3, 5, 41, 102):
        found = table.sql(f"SELECT count(*) FROM {{table}} WHERE id = {number}")[0][0]
        assert found == sum(row[0] == number for row in before)
    live = referenced_files(table.ours.table)
    assert {name for name in files_under(table.ours.table.location()) if name.endswith(".parquet")} <= live


def planned_then(table: Shared, meanwhile: Callable[[], object], **arguments: Any) -> RewriteResult:
    """Plan, let somebody else commit, then run the plan."""
    ours = table.ours
    planned = ours.plan_rewrite(min_input_files=2, **arguments)
    meanwhile()
    return run_rewrite(table.spark, ours.table, planned)


@pytest.mark.once_last
def test_appends_never_conflict(table: Shared) -> None:
    result = planned_then(table, lambda: table.insert(100))
    assert (result.rewritten_data_files, result.added_data_files) == (6, 2)
    assert len(table.rows()) == 40


@pytest.mark.once_last
def test_a_delete_on_files_that_are_rewritten_is_a_conflict_and_leaves_nothing(table: Shared) -> None:
    before = files_under(table.ours.table.location())
    with pytest.raises(CommitConflictError, match="added deletes for") as raised:
        planned_then(table, lambda: table.sql("DELETE FROM {table} WHERE id = 4"))
    assert raised.value.retryable
    assert len(table.rows()) == 29
    left = files_under(table.ours.table.location()) - before
    assert {name for name in left if name.endswith(".parquet")} <= referenced_files(table.ours.table)
    assert table.ours.rewrite_data_files(min_input_files=2).rows_after == 29


@pytest.mark.once_last
def test_partial_progress_fails_only_the_group_that_a_delete_is_about(table: Shared) -> None:
    delete = "DELETE FROM {table} WHERE id = 4"
    result = planned_then(
        table, lambda: table.sql(delete), partial_progress_enabled=True, partial_progress_max_commits=1
    )
    outcomes = {group.partition: group for group in result.groups}
    assert "added deletes" in (outcomes["region=eu"].error or "")
    assert outcomes["region=us"].committed
    assert (result.rewritten_data_files, len(result.failed_groups), len(result.snapshot_ids)) == (3, 1, 1)
    assert len(table.rows()) == 29
    live = referenced_files(table.ours.table)
    assert {name for name in files_under(table.ours.table.location()) if name.endswith(".parquet")} <= live


@pytest.mark.once_last
def test_an_equality_delete_that_comes_meanwhile_still_applies(table: Shared) -> None:
    result = planned_then(table, lambda: table.peer().delete_equal("id", rows={"id": 4}))
    assert result.rewritten_data_files == 6
    assert [row[0] for row in table.rows()] == [number for number in range(30) if number != 4]


@pytest.mark.once_last
def test_an_equality_delete_that_comes_during_an_upgrade_is_a_conflict(table: Shared) -> None:
    table.sql("ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    with pytest.raises(CommitConflictError, match="added deletes for"):
        planned_then(table, lambda: table.peer().delete_equal("id", rows={"id": 4}, spec_id=0), target_spec_id=1)
    assert table.ours.rewrite_data_files(target_spec_id=1).rows_after == 29
    assert len(table.rows()) == 29


@pytest.mark.once_last
def test_a_rewrite_by_java_or_by_us_meanwhile_is_a_conflict(table: Shared) -> None:
    def java() -> None:
        (done,) = table.sql(
            f"CALL {table.lake.name}.system.rewrite_data_files(table => '{table.name}', "
            "options => map('rewrite-all', 'true'))"
        )
        assert done.rewritten_data_files_count == 6

    with pytest.raises(CommitConflictError, match="removed data files"):
        planned_then(table, java)
    assert len(table.rows()) == 30
    with pytest.raises(CommitConflictError, match="removed data files"):
        planned_then(table, lambda: table.ours.rewrite_data_files(rewrite_all=True), rewrite_all=True)
    assert len(table.rows()) == 30


@pytest.mark.once_last
def test_java_notices_our_rewrite(table: Shared) -> None:
    """Java's delete was planned on files that are gone: it must not commit deletes for them."""
    result = table.ours.rewrite_data_files(min_input_files=2)
    assert result.added_data_files == 2
    table.sql("UPDATE {table} SET amount = -1 WHERE id = 4")
    table.sql("DELETE FROM {table} WHERE id = 5")
    assert [row[2] for row in table.rows() if row[0] == 4] == [-1]
    assert len(table.rows()) == 29
