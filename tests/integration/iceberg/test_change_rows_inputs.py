"""What DELETE, UPDATE and MERGE refuse, and the shapes of tables, conditions and sources that they must take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.manifest import DataFileContent

import lakeshift
from lakeshift.errors import (
    BadRowsError,
    ConfigError,
    LakeshiftError,
    MergeCardinalityError,
    SchemaMismatchError,
    UnsupportedTableError,
)
from lakeshift.iceberg.commit.change_set import row_delta_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.dml import run
from tests.integration.iceberg.changed_tables import Changed, new_table, row
from tests.tables import equality_deletes, files_under, local_catalog, referenced_files

pytestmark = pytest.mark.once_last

MOR, COW = "merge-on-read", "copy-on-write"
New = Callable[..., Changed]


@pytest.fixture(scope="module")
def new(spark: Any, java_catalog: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> New:
    folder = tmp_path_factory.mktemp("inputs")
    name = java_catalog(folder)
    catalog = local_catalog(folder, name)
    return lambda **options: new_table(spark, name, folder, catalog, **options)


@pytest.fixture(scope="module")
def small(new: New) -> Changed:
    """A table that no test of bad input may change."""
    changed = new(schema="id bigint not null, region string, amount int, price decimal(6,2), day date")
    changed.spark.sql(
        f"INSERT INTO {changed.java_name} VALUES (1, 'eu', 10, 1.50, null), (2, 'us', 20, 2.50, null), "
        "(3, null, 30, null, null)"
    )
    changed.ours.refresh()
    return changed


BAD: list[tuple[str, Callable[[Changed], Any], type[LakeshiftError], str]] = [
    ("an unknown column", lambda c: c.ours.delete("nope = 1"), ConfigError, "nope"),
    ("an unknown column for Spark", lambda c: c.ours.delete("length(nope) = 1"), ConfigError, "nope"),
    ("no condition", lambda c: c.ours.delete(""), ConfigError, "condition"),
    ("a condition by chance", lambda c: c.ours.delete("rand() < 0.5"), ConfigError, "not deterministic"),
    ("an unknown mode", lambda c: c.ours.delete("id = 1", mode="fast"), ConfigError, "fast"),
    ("an unknown branch", lambda c: c.ours.delete("id = 1", branch="dev"), ConfigError, "dev"),
    ("SET of an unknown column", lambda c: c.ours.update({"nope": "1"}), ConfigError, "nope"),
    ("SET twice", lambda c: c.ours.update({"amount": "1", "AMOUNT": "2"}), ConfigError, "twice"),
    ("SET of nothing", lambda c: c.ours.update({}), ConfigError, "must map columns"),
    ("SET of a text to a number", lambda c: c.ours.update({"amount": "region"}), SchemaMismatchError, "amount"),
    ("SET by an unknown column", lambda c: c.ours.update({"amount": "nope + 1"}), ConfigError, "nope"),
    ("no text for a condition", lambda c: c.ours.delete(None), ConfigError, "is None, of type NoneType"),
    ("no text for a value", lambda c: c.ours.update({"amount": 5}), ConfigError, "'amount' is 5, of type int"),
    ("no text for a join", lambda c: _merge(c, on=["id"]).when_matched_delete().execute(), ConfigError, "MERGE is"),
    ("an aggregate over all rows", lambda c: c.ours.update(_constants(c, "max(amount)")), ConfigError, "row alone"),
    ("a value for each of several", lambda c: c.ours.update({"amount": "explode(array(1, 2))"}), ConfigError, "alone"),
    (
        "an insert of several rows",
        lambda c: _merge(c).when_not_matched_insert({"id": "explode(array(source.id, 7))"}).execute(),
        ConfigError,
        "row alone",
    ),
    ("a lossy value", lambda c: c.ours.update({"amount": "amount * 1.05"}), BadRowsError, "without loss"),
    ("a required null", lambda c: c.ours.update({"id": "null"}), BadRowsError, "required"),
    ("a merge without clauses", lambda c: _merge(c, "id = 1").execute(), ConfigError, "at least one clause"),
    (
        "an ambiguous name",
        lambda c: _merge(c, "id = 1").when_matched_delete().execute(),
        ConfigError,
        "(?i)ambiguous",
    ),
    (
        "a required column left out",
        lambda c: _merge(c).when_not_matched_insert({"amount": "1"}).execute(),
        SchemaMismatchError,
        "leaves out id",
    ),
    (
        "a column that the source has not",
        lambda c: _merge(c).when_matched_update().execute(),
        SchemaMismatchError,
        "no region, price, day",
    ),
    (
        "an insert that looks at the target",
        lambda c: _merge(c).when_not_matched_insert({"id": "target.id"}).execute(),
        ConfigError,
        "target",
    ),
    (
        "a join by chance",
        lambda c: _merge(c, "target.id = source.id AND rand() < 1").when_matched_delete().execute(),
        ConfigError,
        "(?i)deterministic",
    ),
    (
        "several source rows for one target row",
        lambda c: _merge(c, rows=[(1, 1), (1, 2)]).when_matched_update({"amount": "source.amount"}).execute(),
        MergeCardinalityError,
        "dropDuplicates",
    ),
]


def _constants(changed: Changed, amount: str) -> dict[str, str]:
    """Nothing of the row itself in any column, so that Spark would take an aggregate for one over all rows."""
    return {name: "1" if name == "id" else "null" for name in changed.columns} | {"amount": amount}


def _merge(changed: Changed, on: Any = "target.id = source.id", rows: Any = ((1, 5), (9, 9))) -> Any:
    return changed.ours.merge(changed.spark.createDataFrame(list(rows), "id long, amount int"), on)


@pytest.mark.parametrize(("what", "call", "error", "match"), BAD, ids=[case[0] for case in BAD])
def test_bad_input_is_refused_and_nothing_is_left(
    small: Changed, what: str, call: Callable[[Changed], Any], error: type[LakeshiftError], match: str
) -> None:
    before, files = small.table.metadata.current_snapshot_id, files_under(small.table.location())
    with pytest.raises(error, match=match):
        call(small)
    assert small.table.metadata.current_snapshot_id == before
    assert files_under(small.table.location()) == files


@pytest.mark.parametrize("mode", [MOR, COW])
def test_files_are_removed_when_no_change_can_be_made_of_them(
    small: Changed, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_change(*_: Any) -> Any:
        raise OSError("the disk said no")

    before = files_under(small.table.location())
    monkeypatch.setattr(run, "_change", no_change)
    with pytest.raises(OSError, match="the disk said no"):
        small.ours.update({"region": "'x'"}, mode=mode)
    assert files_under(small.table.location()) == before


def test_version_3_is_refused_before_anything_is_written(small: Changed, spark: Any) -> None:
    # PyIceberg cannot make one.
    spark.sql(f"CREATE TABLE {small.catalog_name}.db.v3 (id bigint) USING iceberg TBLPROPERTIES ('format-version'='3')")
    ours = lakeshift.connect(small.catalog_name, spark=spark).iceberg("db.v3")
    for change in (lambda: ours.delete("id = 1"), lambda: ours.update({"id": "1"})):
        with pytest.raises(UnsupportedTableError, match="version 3"):
            change()


def test_sources_that_sql_allows(new: New, spark: Any) -> None:
    changed = new(partition_by=["region"])
    changed.put([row(n) for n in range(6)], [row(n, region="us") for n in range(6, 9)])
    ours = changed.ours
    # Null keys match nothing and are inserted; the source is what the table holds itself.
    own = ours.read(columns=["id", "amount"]).selectExpr("if(id < 3, id, null) as id", "amount + 100 as amount")
    result = (
        ours.merge(own.filter("amount < 104"), "target.id = source.id", MOR)
        .when_matched_update({"amount": "source.amount"})
        .when_not_matched_insert({"id": "1000 + source.amount", "amount": "source.amount"}, "source.id is null")
        .execute()
    )
    assert (result.rows_deleted, result.rows_written) == (3, 4)
    changed.update(lambda r: r["id"] < 3, amount=lambda r: r["amount"] + 100)
    changed.model[1103] = {"id": 1103, "ts": None, "region": None, "amount": 103}
    # An empty source: nothing matches, so that everything is not matched by it.
    empty = spark.createDataFrame([], "id long, amount long")
    nothing = (
        ours.merge(empty, "target.id = source.id").when_matched_delete().when_not_matched_insert({"id": "source.id"})
    )
    assert nothing.execute().snapshot_id is None
    by_source = ours.merge(empty, "target.id = source.id", COW).when_not_matched_by_source_delete("target.id = 5")
    assert by_source.execute().rows_deleted == changed.delete(lambda r: r["id"] == 5)
    # Several matches of one row are no matter if all it can suffer is deletion.
    twice = spark.createDataFrame([(4,), (4,), (77,)], "id long")
    assert ours.merge(twice, "target.id = source.id", MOR).when_matched_delete().execute().rows_deleted == 1
    changed.delete(lambda r: r["id"] == 4)
    # A source too large to send around, by a smaller limit.
    large = spark.range(2000, 2600).selectExpr("id", "id as amount")
    from lakeshift.iceberg.dml import merging

    limit, merging.BROADCAST_BYTES = merging.BROADCAST_BYTES, 1
    try:
        changes = (
            ours.merge(large.union(spark.sql("SELECT 7L, -7L")), "target.id = source.id", MOR)
            .when_matched_update({"amount": "source.amount", "region": "'moved'"})
            .when_not_matched_insert({"id": "source.id", "amount": "source.amount", "region": "'new'"})
            .execute()
        )
    finally:
        merging.BROADCAST_BYTES = limit
    assert (changes.rows_deleted, changes.rows_written) == (1, 601)
    changed.update(lambda r: r["id"] == 7, amount=lambda r: -7, region=lambda r: "moved")
    for n in range(2000, 2600):
        changed.model[n] = {"id": n, "ts": None, "region": "new", "amount": n}
    changed.check()
    assert files_under(changed.table.location()) == referenced_files(changed.table)


def test_rows_under_equality_deletes_are_not_resurrected(new: New) -> None:
    changed = new(partition_by=["region"], properties={"write.delete.granularity": "partition"})
    changed.put([row(n) for n in range(4)], [row(n) for n in range(4, 8)])
    table = changed.table
    gone = equality_deletes(table, [{"id": 1, "region": "eu"}], ["id"], partition=("eu",))
    commit(table, row_delta_change(table.metadata, [], [gone]))
    changed.delete(lambda r: r["id"] == 1)
    result = changed.ours.update({"amount": "amount + 10"}, "id IN (0, 1, 5)", MOR)
    assert (result.rows_deleted, result.added_delete_files) == (2, 1)  # both files lie in one partition
    changed.update(lambda r: r["id"] in (0, 5), amount=lambda r: r["amount"] + 10)
    changed.check("java", "lakeshift")  # PyIceberg does not read equality deletes
    copied = changed.ours.update({"amount": "0"}, "id < 4", COW)
    assert copied.rows_deleted == changed.update(lambda r: r["id"] < 4, amount=lambda r: 0) == 3
    changed.check("java", "lakeshift")


def test_rows_move_between_partitions_of_nested_sources_and_version_1_keeps_void(new: New, spark: Any) -> None:
    nested = new(schema="id bigint, place struct<city: string, code: int>", partition_by=["place.city"])
    spark.sql(
        f"INSERT INTO {nested.java_name} VALUES (1, named_struct('city', 'Oslo', 'code', 1)), "
        "(2, named_struct('city', 'Lima', 'code', 2)), (3, null)"
    )
    moved = nested.ours.update({"place": "named_struct('city', 'Pune', 'code', 9)"}, "place.city = 'Oslo'", MOR)
    assert moved.rows_deleted == moved.rows_written == 1
    assert nested.ours.delete("place.city = 'Lima'", COW).removed_data_files == 1
    rows = spark.table(nested.java_name).orderBy("id").selectExpr("id", "place.city").collect()
    assert [tuple(found) for found in rows] == [(1, "Pune"), (3, None)]
    assert [r.city for r in spark.sql(f"SELECT partition.`place.city` AS city FROM {nested.java_name}.files").collect()]

    old = new(partition_by=["region"], properties={"format-version": "1"})
    old.put([row(n) for n in range(3)], [row(n, region="us") for n in range(3, 6)])
    old.ours.evolve_partitions(drop=["region"], add=["bucket(2, id)"])
    assert str(old.table.spec().fields[0].transform) == "void"
    assert old.ours.delete("id = 1").rows_deleted == old.delete(lambda r: r["id"] == 1)
    changes = old.ours.update({"region": "'moved'"}, "id >= 4")
    assert changes.rows_deleted == old.update(lambda r: r["id"] >= 4, region=lambda r: "moved") == 2
    old.check()
    assert old.specs_of(DataFileContent.DATA) == {1}  # every file had a row that changed, and took the default spec


def test_overwriting_by_a_condition_replaces_those_rows_alone(new: New, spark: Any) -> None:
    changed = new(partition_by=["region"])
    changed.put([row(n) for n in range(4)], [row(n, region="us") for n in range(4, 8)])
    changed.ours.evolve_partitions(drop=["region"])
    frame = spark.createDataFrame([(50, "eu", 50), (51, "us", 51)], "id long, region string, amount long")
    result = changed.ours.overwrite(frame, "region = 'eu' OR amount = 7")
    assert (result.rows_written, result.rows_deleted) == (2, 5)
    changed.delete(lambda r: r["region"] == "eu" or r["amount"] == 7)
    for number, region in ((50, "eu"), (51, "us")):
        changed.model[number] = {"id": number, "ts": None, "region": region, "amount": number}
    changed.check()
    with pytest.raises(ConfigError, match="dynamic"):
        changed.ours.overwrite(frame, "id = 1", dynamic=True)
    assert files_under(changed.table.location()) == referenced_files(changed.table)
