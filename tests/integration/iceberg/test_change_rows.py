"""DELETE, UPDATE and MERGE on tables with a history of specs, read back by Iceberg Java, PyIceberg and lakeshift."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent

import lakeshift
from tests.integration.iceberg.changed_tables import Changed, evolved, new_table, row
from tests.tables import files_under, local_catalog, referenced_files

MODES = [
    pytest.param("merge-on-read", marks=pytest.mark.once_first),
    pytest.param("copy-on-write", marks=pytest.mark.once_last),
]

New = Callable[..., Changed]


@pytest.fixture(scope="module")
def new(spark: Any, java_catalog: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> New:
    folder = tmp_path_factory.mktemp("changed")
    name = java_catalog(folder)
    catalog = local_catalog(folder, name)

    def make(**options: Any) -> Changed:
        return new_table(spark, name, Path(folder), catalog, **options)

    return make


@pytest.mark.parametrize("mode", MODES)
def test_rows_change_under_every_spec_after_a_partition_source_was_dropped(new: New, spark: Any, mode: str) -> None:
    changed = evolved(new(partition_by=["region"]))
    ours = changed.ours

    result = ours.delete("amount IN (3, 13, 23, 33)", mode)
    assert result.rows_deleted == changed.delete(lambda r: r["amount"] in (3, 13, 23, 33)) == 4
    changed.check()
    if mode == "merge-on-read":
        assert result.removed_data_files == 0
        assert set(result.by_spec) == {0, 1, 2}
        assert changed.specs_of(DataFileContent.POSITION_DELETES) == {0, 1, 2}
    else:
        assert changed.specs_of(DataFileContent.POSITION_DELETES) == set()
        assert result.removed_data_files == 4

    result = ours.delete("id % 10 = 4", mode)  # not expressible: rows flow through Spark
    assert result.rows_deleted == changed.delete(lambda r: r["id"] % 10 == 4) == 4

    result = ours.update({"amount": "amount + 1000", "ts": "timestampadd(DAY, 1, ts)"}, "amount % 10 = 5", mode)
    assert result.rows_deleted == 4
    changed.update(
        lambda r: r["amount"] % 10 == 5,
        amount=lambda r: r["amount"] + 1000,
        ts=lambda r: r["ts"].replace(day=r["ts"].day + 1),
    )
    # Rows that changed take the default spec.
    assert 3 in changed.specs_of(DataFileContent.DATA)

    source = spark.sql(
        "SELECT id, ts, amount FROM VALUES (1L, timestamp_ntz'2026-02-01 00:00:00', -1L), "
        "(11L, timestamp_ntz'2026-02-01 00:00:00', -11L), (22L, null, -22L), (99L, null, 99L), (98L, null, -98L) "
        "AS t(id, ts, amount)"
    )
    result = (
        ours.merge(source, "target.id = source.id", mode)
        .when_matched_delete("source.amount = -22")
        .when_matched_update({"amount": "target.amount + source.amount"}, "target.id = 1")
        .when_matched_update()
        .when_not_matched_insert({"id": "source.id", "amount": "7"}, "source.amount < 0")
        .when_not_matched_insert()
        .when_not_matched_by_source_update({"amount": "0"}, "target.id = 36")
        .when_not_matched_by_source_delete("target.id = 37")
        .execute()
    )
    assert result.rows_deleted == 5
    changed.delete(lambda r: r["id"] in (22, 37))
    changed.update(lambda r: r["id"] in (1, 36), amount=lambda r: 0)
    from datetime import datetime

    changed.update(lambda r: r["id"] == 11, amount=lambda r: -11, ts=lambda r: datetime(2026, 2, 1))
    changed.model[99] = {"id": 99, "ts": None, "amount": 99}
    changed.model[98] = {"id": 98, "ts": None, "amount": 7}
    changed.check()

    # Nothing that no snapshot refers to is left: neither scratch marks nor files of lost attempts.
    assert files_under(changed.table.location()) == referenced_files(changed.table)

    # The others write to it.
    spark.sql(f"INSERT INTO {changed.java_name} VALUES (200, null, 200)")
    changed.model[200] = {"id": 200, "ts": None, "amount": 200}
    table = changed.table
    table.append(pa.Table.from_pylist([{"id": 201, "amount": 201}], schema=table.schema().as_arrow()))
    changed.model[201] = {"id": 201, "ts": None, "amount": 201}
    changed.check()
    assert ours.delete("id >= 200", mode).rows_deleted == changed.delete(lambda r: r["id"] >= 200) == 2
    changed.check("java", "lakeshift")


def test_files_that_match_wholly_are_dropped_unread_and_nothing_commits_nothing(new: New, spark: Any) -> None:
    changed = new(partition_by=["region"])
    changed.put([row(n) for n in range(5)], [row(n, region="us") for n in range(5, 10)])
    ours = changed.ours
    before = changed.table.current_snapshot().snapshot_id
    nothing = ours.delete("region = 'nowhere'")
    assert nothing.snapshot_id is None
    assert nothing.rows_deleted == 0
    assert ours.update({"amount": "1"}, "id = 77").snapshot_id is None
    assert changed.table.current_snapshot().snapshot_id == before

    # Whoever opened the file would fail.
    for path, entry in _entries(changed).items():
        if entry.data_file.partition[0] == "us":
            Path(path.removeprefix("file://")).write_bytes(b"not Parquet")
    result = ours.delete("region = 'us'", "merge-on-read")
    assert (result.removed_data_files, result.added_delete_files, result.rows_deleted) == (1, 0, 5)
    changed.delete(lambda r: r["region"] == "us")
    changed.check()


def test_a_table_that_java_made_and_evolved_is_updated_and_read_by_java(new: New, spark: Any) -> None:
    changed = new()
    table = f"{changed.catalog_name}.db.made_by_java"
    spark.sql(
        f"CREATE TABLE {table} (id bigint, ts timestamp, region string, amount int) USING iceberg "
        "PARTITIONED BY (days(ts)) TBLPROPERTIES ('write.update.mode'='merge-on-read', 'format-version'='2')"
    )
    spark.sql(f"INSERT INTO {table} SELECT id, timestamp'2026-01-01 12:00:00', 'eu', int(id) FROM range(0, 10)")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD region")
    spark.sql(f"INSERT INTO {table} SELECT id, timestamp'2026-01-02 12:00:00', 'us', int(id) FROM range(10, 20)")
    ours = lakeshift.connect(changed.catalog_name, spark=spark).iceberg("db.made_by_java")
    result = ours.update({"amount": "amount + 100", "region": "'moved'"}, "id % 10 = 3")
    assert (result.rows_deleted, result.rows_written) == (2, 2)
    rows = spark.sql(f"SELECT id, region, amount FROM {table} WHERE amount >= 100 ORDER BY id").collect()
    assert [tuple(found) for found in rows] == [(3, "moved", 103), (13, "moved", 113)]
    assert spark.table(table).count() == 20
    # Deletes inherit the spec of their data, new data takes the default; one manifest for each spec and content.
    manifests = spark.sql(
        f"SELECT content, partition_spec_id FROM {table}.manifests WHERE added_snapshot_id = {result.snapshot_id} "
        "ORDER BY 1, 2"
    ).collect()
    assert [tuple(found) for found in manifests] == [(0, 1), (1, 0), (1, 1)]
    files = spark.sql(f"SELECT content, spec_id FROM {table}.all_delete_files ORDER BY spec_id").collect()
    assert [tuple(found) for found in files] == [(1, 0), (1, 1)]
    # Java changes it further: its rows and ours meet.
    spark.sql(f"UPDATE {table} SET amount = -1 WHERE region = 'moved'")
    assert sorted(row.id for row in ours.read(where="amount = -1").collect()) == [3, 13]


def _entries(changed: Changed) -> dict[str, Any]:
    from tests.tables import live_entries

    return live_entries(changed.table)
