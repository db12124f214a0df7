"""Races of DELETE, UPDATE and MERGE with other committers, ours and Java's: we mark, they commit, we commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakeshift
from lakeshift.errors import CommitConflictError
from lakeshift.iceberg.commit.result import CommitResult
from lakeshift.iceberg.dml import delete, update
from lakeshift.iceberg.dml.run import apply
from tests.integration.iceberg.changed_tables import Changed, new_table, row
from tests.tables import files_under, local_catalog, referenced_files

Commit = Callable[[], CommitResult]

pytestmark = pytest.mark.once_last


@pytest.fixture(scope="module")
def new(
    spark: Any, java_catalog: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Changed]:
    folder = tmp_path_factory.mktemp("races")
    name = java_catalog(folder)
    catalog = local_catalog(folder, name)

    def make(isolation: str = "serializable") -> Changed:
        levels = {f"write.{operation}.isolation-level": isolation for operation in ("delete", "update", "merge")}
        changed = new_table(
            spark,
            name,
            folder,
            catalog,
            partition_by=["region"],
            properties={**levels, "commit.retry.num-retries": "1"},
        )
        changed.put([row(n) for n in range(4)], [row(n, region="us") for n in range(4, 8)])
        return changed

    return make


def begin_delete(changed: Changed, mode: str) -> Commit:
    run = changed.ours.begin("delete", mode)
    condition, target = delete.plan_delete(run, "id = 1")
    marks = delete.mark(run, target, condition)
    return lambda: apply(run, target, marks, where=condition.pushed)


def begin_update(changed: Changed, mode: str) -> Commit:
    run = changed.ours.begin("update", mode)
    case, condition, target = update.plan_update(run, {"amount": "-1"}, "region = 'eu' AND id <= 1")
    marks = delete.mark(run, target, condition)
    rows = update.updated_rows(run, target, marks, case)
    return lambda: apply(run, target, marks, rows, where=condition.pushed, moves_rows=True)


def begin_merge(changed: Changed, mode: str) -> Commit:
    source = changed.spark.createDataFrame([(1, "merged")], "id long, region string")
    merging = (
        changed.ours.merge(source, "target.id = source.id AND target.region = 'eu'", mode)
        .when_matched_update({"amount": "-7"})
        .begin()
    )
    met = merging.meet()
    rows = merging.new_rows(met)
    return lambda: apply(merging.run, met.target, met.marks, rows, where=met.where, moves_rows=True)


def java(text: str) -> Callable[[Changed], Any]:
    return lambda changed: changed.spark.sql(
        text.format(table=changed.java_name, catalog=changed.catalog_name, name=changed.ours.name)
    ).collect()


INSERT = java("INSERT INTO {table} VALUES (1, null, 'eu', 100)")
INSERT_ELSEWHERE = java("INSERT INTO {table} VALUES (99, null, 'us', 99)")
REWRITE = java("CALL {catalog}.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")


def java_delete(changed: Changed) -> None:
    changed.spark.sql(f"ALTER TABLE {changed.java_name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    changed.spark.sql(f"DELETE FROM {changed.java_name} WHERE id = 0")


def our_delete(changed: Changed) -> None:
    changed.ours.delete("id = 0", "merge-on-read")


def our_copy(changed: Changed) -> None:
    changed.ours.delete("id = 0", "copy-on-write")


def evolve(changed: Changed) -> None:
    other = lakeshift.connect(changed.catalog_name, spark=changed.spark).iceberg(changed.ours.name)
    other.evolve_partitions(drop=["region"], add=["bucket(2, id)"])


MOR, COW = "merge-on-read", "copy-on-write"
RACES: list[Any] = [
    ("an insert that matches", begin_update, MOR, INSERT, "serializable", False),
    ("an insert that matches", begin_update, MOR, INSERT, "snapshot", True),
    ("an insert into what a merge looked at", begin_merge, MOR, INSERT, "serializable", False),
    ("an insert elsewhere", begin_merge, COW, INSERT_ELSEWHERE, "serializable", True),
    ("a compaction", begin_delete, MOR, REWRITE, "snapshot", False),
    ("deletes on the same file", begin_delete, MOR, java_delete, "serializable", True),
    ("deletes on a file whose rows move", begin_update, MOR, java_delete, "snapshot", False),
    ("deletes on a file that is copied", begin_delete, COW, our_delete, "snapshot", False),
    ("a new default spec", begin_update, MOR, evolve, "serializable", True),
]
MORE: list[Any] = [
    ("an insert that matches", begin_delete, COW, INSERT, "serializable", False),
    ("an insert elsewhere", begin_update, COW, INSERT_ELSEWHERE, "serializable", True),
    ("a compaction", begin_update, MOR, REWRITE, "snapshot", False),
    ("a compaction", begin_merge, COW, REWRITE, "snapshot", False),
    ("a copy-on-write of ours", begin_merge, MOR, our_copy, "snapshot", False),
    ("deletes of ours on the same file", begin_delete, MOR, our_delete, "serializable", True),
    ("deletes of ours on a file whose rows move", begin_merge, MOR, our_delete, "snapshot", False),
]


ALL = [*RACES, *(pytest.param(*race, marks=pytest.mark.full) for race in MORE)]


@pytest.mark.parametrize(("what", "begin", "mode", "other", "isolation", "lands"), ALL)
def test_races(
    new: Callable[..., Changed],
    what: str,
    begin: Callable[[Changed, str], Commit],
    mode: str,
    other: Callable[[Changed], Any],
    isolation: str,
    lands: bool,
) -> None:
    changed = new(isolation)
    finish = begin(changed, mode)
    other(changed)
    if lands:
        result = finish()
        assert result.rows_deleted == (2 if begin is begin_update else 1)
        assert changed.rows_by("java") == changed.rows_by("pyiceberg") == changed.rows_by("lakeshift")
    else:
        before = changed.table.current_snapshot().snapshot_id
        with pytest.raises(CommitConflictError, match="snapshot") as caught:
            finish()
        assert caught.value.retryable
        assert changed.table.current_snapshot().snapshot_id == before
    # The loser leaves nothing behind. Java's own leftovers are not ours.
    unknown = files_under(changed.table.location()) - referenced_files(changed.table)
    assert not [path for path in unknown if path.endswith((".parquet", ".avro"))]


def test_a_table_that_was_replaced_meanwhile_is_not_changed(new: Callable[..., Changed]) -> None:
    changed = new()
    finish = begin_delete(changed, MOR)
    changed.catalog.drop_table(changed.ours.name)
    changed.catalog.create_table(changed.ours.name, changed.ours.table.schema())
    with pytest.raises(CommitConflictError, match="dropped and created again") as caught:
        finish()
    assert not caught.value.retryable
