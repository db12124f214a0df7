"""Races with Iceberg Java and PyIceberg as the other committer: plan, let them commit, validate."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.table.snapshots import IsolationLevel

from lakeshift.errors import CommitConflictError
from lakeshift.iceberg.commit.dangling import dangling_deletes
from lakeshift.iceberg.commit.history import Start
from lakeshift.iceberg.commit.validation import OverwriteValidation, RewriteValidation, RowDeltaValidation
from lakeshift.iceberg.deletes import DATA_COLUMNS, DELETE_COLUMNS
from lakeshift.iceberg.ledger import read_ledger
from tests.peer_iceberg import PeerTable

pytestmark = pytest.mark.once_last  # what it shows is of the catalog and the files, not of a Spark line

EU = EqualTo("region", "eu")
_numbers = itertools.count()


@dataclass(frozen=True)
class Planned:
    file_path: str
    spec_id: int
    manifest_path: str | None


@dataclass
class Race:
    """A table in which region 'eu' has one file, and operations on that file which were planned at the start."""

    spark: Any
    name: str
    catalog_name: str
    catalog: SqlCatalog
    start: Start
    eu: list[Planned]

    @property
    def table(self) -> Table:
        return self.catalog.load_table(self.name)

    def sql(self, text: str) -> list[Any]:
        rows: list[Any] = self.spark.sql(text.format(table=f"{self.catalog_name}.{self.name}")).collect()
        return rows

    def peer(self) -> PeerTable:
        return PeerTable(self.spark, f"{self.catalog_name}.{self.name}")

    def outcomes(self, isolation: IsolationLevel = IsolationLevel.SERIALIZABLE) -> dict[str, str]:
        """What each operation would be told now: nothing, or the conflict."""
        operations: dict[str, Callable[..., None]] = {
            "delete": RowDeltaValidation(self.start, EU, self.eu, moves_rows=False, isolation=isolation),
            "update": RowDeltaValidation(self.start, EU, self.eu, moves_rows=True, isolation=isolation),
            "copy-on-write": OverwriteValidation(self.start, EU, self.eu, isolation=isolation),
            "compact": RewriteValidation(self.start, in_place=self.eu),
            "upgrade": RewriteValidation(self.start, moved=self.eu),
        }
        table, found = self.table, {}
        for name, validation in operations.items():
            try:
                validation(table.metadata, table.io)
            except CommitConflictError as error:
                found[name] = str(error)
        return found

    def head(self) -> int:
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id


@pytest.fixture(scope="module")
def warehouse(
    spark: Any, java_catalog: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, SqlCatalog]:
    folder = tmp_path_factory.mktemp("races")
    name = java_catalog(folder)
    spark.sql(f"CREATE NAMESPACE {name}.db")
    return name, SqlCatalog(name, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


@pytest.fixture
def race(spark: Any, warehouse: tuple[str, SqlCatalog]) -> Race:
    catalog_name, catalog = warehouse
    name = f"db.race_{next(_numbers)}"
    spark.sql(
        f"CREATE TABLE {catalog_name}.{name} (id BIGINT, region STRING) USING iceberg PARTITIONED BY (region) "
        "TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    spark.sql(
        f"INSERT INTO {catalog_name}.{name} SELECT /*+ COALESCE(1) */ id, IF(id % 2 = 0, 'eu', 'us') FROM range(10)"
    )
    table = catalog.load_table(name)
    rows = read_ledger(table.metadata, table.io, columns=["file_path", "spec_id", "manifest_path", "partition"]).data[0]
    eu = [
        Planned(row["file_path"], row["spec_id"], row["manifest_path"])
        for row in rows.to_pylist()
        if row["partition"]["region"] == "eu"
    ]
    assert len(eu) == 1
    return Race(spark, name, catalog_name, catalog, Start.of(table.metadata), eu)


def test_commits_of_java_elsewhere_disturb_nobody(race: Race) -> None:
    race.sql("INSERT INTO {table} VALUES (100, 'us')")
    race.sql("DELETE FROM {table} WHERE id = 1")
    race.peer().delete_equal("id", rows={"id": 3})
    assert race.outcomes() == {}


def test_a_position_delete_by_java_stops_all_but_a_delete(race: Race) -> None:
    race.sql("DELETE FROM {table} WHERE id = 2")
    found = race.outcomes()
    assert found.keys() == {"update", "copy-on-write", "compact", "upgrade"}
    assert all(f"snapshot {race.head()}" in message and race.eu[0].file_path in message for message in found.values())


def test_an_equality_delete_by_java_in_the_same_partition_stops_what_would_lose_it(race: Race) -> None:
    race.peer().delete_equal("id", rows={"id": 2})
    assert race.outcomes().keys() == {"update", "copy-on-write", "upgrade"}


def test_a_global_equality_delete_by_java_stops_what_would_lose_it(race: Race) -> None:
    race.sql("ALTER TABLE {table} DROP PARTITION FIELD region")
    race.peer().delete_equal("id", rows={"id": 2})
    found = race.outcomes()
    assert found.keys() == {"update", "copy-on-write", "upgrade"}
    assert all(f"snapshot {race.head()}" in message for message in found.values())


def test_rows_that_java_adds_under_a_new_spec_are_seen_when_serializable(race: Race) -> None:
    race.sql("ALTER TABLE {table} REPLACE PARTITION FIELD region WITH bucket(4, id)")
    race.sql("INSERT INTO {table} VALUES (101, 'us')")  # the bounds of its file say that it is elsewhere
    assert race.outcomes() == {}
    race.sql("INSERT INTO {table} VALUES (102, 'eu')")
    found = race.outcomes()
    assert found.keys() == {"delete", "update", "copy-on-write"}
    assert all(f"snapshot {race.head()} (append)" in message for message in found.values())
    assert race.outcomes(IsolationLevel.SNAPSHOT) == {}


def test_a_compaction_by_java_stops_everybody(race: Race) -> None:
    race.sql(
        f"CALL {race.catalog_name}.system.rewrite_data_files("
        f"table => '{race.name}', options => map('rewrite-all', 'true'))"
    )
    found = race.outcomes(IsolationLevel.SNAPSHOT)
    assert found.keys() == {"delete", "update", "copy-on-write", "compact", "upgrade"}
    assert all(f"snapshot {race.head()} (replace)" in message for message in found.values())


def test_a_copy_on_write_delete_by_pyiceberg_stops_everybody(race: Race) -> None:
    with pytest.warns(UserWarning, match="copy-on-write"):
        race.table.delete(EqualTo("id", 2))
    found = race.outcomes(IsolationLevel.SNAPSHOT)
    assert found.keys() == {"delete", "update", "copy-on-write", "compact", "upgrade"}
    assert all(race.eu[0].file_path in message for message in found.values())


def test_a_rollback_by_java_stops_everybody(race: Race) -> None:
    before = race.head()
    race.sql("INSERT INTO {table} VALUES (100, 'us')")
    race.start = Start.of(race.table.metadata)
    race.sql(f"CALL {race.catalog_name}.system.rollback_to_snapshot('{race.name}', {before})")
    found = race.outcomes()
    assert len(found) == 5
    assert all("no longer an ancestor" in message for message in found.values())


def test_a_table_that_java_dropped_and_created_again_is_another(race: Race) -> None:
    race.sql("DROP TABLE {table}")
    race.sql("CREATE TABLE {table} (id BIGINT, region STRING) USING iceberg PARTITIONED BY (region)")
    table = race.table
    with pytest.raises(CommitConflictError, match=str(race.start.table_uuid)) as raised:
        RewriteValidation(race.start, in_place=race.eu)(table.metadata, table.io)
    assert not raised.value.retryable


def test_a_branch_that_java_writes_to_is_not_main(race: Race) -> None:
    race.sql("ALTER TABLE {table} CREATE BRANCH audit")
    race.sql("INSERT INTO {table}.branch_audit VALUES (100, 'eu')")
    table = race.table
    assert race.outcomes() == {}
    with pytest.raises(CommitConflictError, match="'audit'"):
        RowDeltaValidation(race.start, EU, race.eu, moves_rows=False, branch="audit")(table.metadata, table.io)


def test_deletes_of_java_dangle_only_when_all_they_refer_to_is_gone(race: Race) -> None:
    """One position delete file by Java for two data files, and equality deletes of both scopes."""
    race.sql("ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.granularity'='partition')")
    race.sql("INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'eu' FROM range(20, 30)")
    race.sql("DELETE FROM {table} WHERE id IN (2, 22)")
    race.peer().delete_equal("id", rows={"id": 4})
    race.sql("ALTER TABLE {table} DROP PARTITION FIELD region")
    race.peer().delete_equal("id", rows={"id": 6})
    table = race.table
    ledger = read_ledger(table.metadata, table.io, columns=sorted({*DATA_COLUMNS, *DELETE_COLUMNS}))
    rows = ledger.data[0].to_pylist()
    eu = [row["file_path"] for row in rows if row["partition"]["region"] == "eu"]
    everything = [row["file_path"] for row in rows]
    assert (len(eu), len(everything)) == (2, 3)

    def kinds(removed: list[str]) -> list[tuple[int, int]]:
        found = dangling_deletes(ledger, table.io, removed_data=removed)
        return sorted((spec, content) for spec, rows in found.items() for content in rows.column("content").to_pylist())

    assert kinds(eu[:1]) == []
    assert kinds(eu) == [(0, 1), (0, 2)]
    assert kinds(everything) == [(0, 1), (0, 2), (1, 2)]
