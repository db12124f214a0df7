"""Overwriting a whole table and whole partitions, over any number of specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakeshift
from lakeshift.errors import CommitConflictError, ConfigError
from lakeshift.iceberg import overwrite as room
from lakeshift.iceberg.commit.change_set import row_delta_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.table import IcebergTable
from tests.tables import position_deletes

COLUMNS = "id bigint, day date, region string"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> lakeshift.Lake:
    return lakeshift.connect(warehouse=tmp_path_factory.mktemp("overwrite"), spark=spark)


def rows(spark: Any, *values: tuple[int, int, str | None]) -> Any:
    listed = ", ".join(f"({n}L, {day}, {'NULL' if region is None else repr(region)})" for n, day, region in values)
    frame = spark.sql(f"SELECT * FROM VALUES {listed} AS t(id, d, region)")
    return frame.selectExpr("id", "date_add(DATE '2026-01-01', d) AS day", "CAST(region AS STRING) AS region")


def ids(table: IcebergTable) -> list[int]:
    ours = sorted(row.id for row in table.read(columns=["id"]).collect())
    assert ours == sorted(table.refresh().table.scan(selected_fields=("id",)).to_arrow().column("id").to_pylist())
    return ours


@pytest.mark.once_last
def test_the_whole_table_gives_way_with_its_deletes(lake: lakeshift.Lake, spark: Any) -> None:
    table = lake.create_iceberg_table("db.whole", COLUMNS, ["region"])
    table.append(rows(spark, (1, 0, "eu"), (2, 0, "eu"), (3, 0, "us")))
    table.evolve_partitions(drop=["region"])
    table.append(rows(spark, (4, 0, "us")))
    file = next(task.file for task in table.table.scan(row_filter="region = 'eu'").plan_files())
    table.refresh()
    commit(table.table, row_delta_change(table.table.metadata, [], [position_deletes(table.table, file, [0])]))
    assert len(ids(table)) == 3
    result = table.overwrite(rows(spark, (9, 1, "eu")))
    assert ids(table) == [9]
    assert (result.removed_data_files, result.removed_delete_files, result.rows_written) == (3, 1, 1)
    assert table.overwrite(rows(spark, (1, 1, "x")).limit(0)).removed_data_files == 1
    assert ids(table) == []


@pytest.mark.once_first
def test_partitions_that_rows_touch_give_way_in_files_of_every_spec(lake: lakeshift.Lake, spark: Any) -> None:
    table = lake.create_iceberg_table("db.dynamic", COLUMNS)
    # Spec 0 is unpartitioned: one file with rows of every region.
    table.append(rows(spark, (1, 0, "eu"), (2, 0, "us"), (3, 1, None)).coalesce(1))
    table.evolve_partitions(add=["day"])
    table.append(rows(spark, (11, 0, "eu"), (12, 0, "eu"), (13, 1, "us"), (14, 1, "asia")).coalesce(1))
    table.evolve_partitions(add=["region"], drop=["day"])
    table.append(rows(spark, (21, 0, "eu"), (22, 0, "us"), (23, 0, None)))
    result = table.overwrite(rows(spark, (91, 5, "eu"), (92, 5, None)), dynamic=True)
    # All rows of eu and of null are gone, wherever they lay; all others are there.
    assert ids(table) == [2, 13, 14, 22, 91, 92]
    assert (result.rows_written, result.rows_deleted) == (2, 6)
    assert {layout.spec_id: layout.rows for layout in table.layout()} == {0: 1, 1: 2, 2: 3}
    # The file of spec 1 that held no such row was not written again.
    assert result.by_spec[1].removed_data_files == 1
    assert result.by_spec[1].added_data_files == 0
    assert table.overwrite(rows(spark, (0, 0, "x")).limit(0), dynamic=True).snapshot_id is None
    # Under an old spec: all rows of that day, whatever their region.
    table.overwrite(rows(spark, (99, 5, "new")), dynamic=True, spec_id=1)
    assert ids(table) == [2, 13, 14, 22, 99]


@pytest.mark.once_last
def test_deleted_rows_do_not_return_from_files_that_are_written_again(lake: lakeshift.Lake, spark: Any) -> None:
    table = lake.create_iceberg_table("db.deleted", COLUMNS)
    table.append(rows(spark, (1, 0, "eu"), (2, 0, "us"), (3, 0, "us")).coalesce(1).sortWithinPartitions("id"))
    file = next(task.file for task in table.refresh().table.scan().plan_files())
    commit(table.table, row_delta_change(table.table.metadata, [], [position_deletes(table.table, file, [1])]))
    table.evolve_partitions(add=["region"])
    result = table.overwrite(rows(spark, (9, 0, "eu")), dynamic=True)
    assert ids(table) == [3, 9]
    assert result.removed_delete_files == 1


@pytest.mark.once_last
def test_rows_that_others_add_meanwhile_are_a_conflict_or_stay(
    lake: lakeshift.Lake, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_iceberg_table("db.race", COLUMNS, ["region"])
    table.append(rows(spark, (1, 0, "eu")))
    plain = room._replace_partitions

    def racing(*args: Any) -> Any:
        found = plain(*args)
        lake.iceberg("db.race").append(rows(spark, (2, 0, "eu"), (3, 0, "us")))
        return found

    monkeypatch.setattr(room, "_replace_partitions", racing)
    files = set(Path(table.table.location().removeprefix("file://")).rglob("*.parquet"))
    with pytest.raises(CommitConflictError, match="added data files") as raised:
        table.overwrite(rows(spark, (9, 0, "eu")), dynamic=True)
    assert raised.value.retryable
    assert ids(table) == [1, 2, 3]
    left = set(Path(table.table.location().removeprefix("file://")).rglob("*.parquet")) - files
    assert len(left) == 2, "only what the other writer added"
    monkeypatch.setattr(room, "_replace_partitions", racing)
    table.overwrite(rows(spark, (9, 0, "eu")), dynamic=True, isolation="snapshot")
    assert ids(table) == [2, 3, 3, 9]
    with pytest.raises(ConfigError, match="isolation is 'none'; it must be 'serializable' or 'snapshot'"):
        table.overwrite(rows(spark, (9, 0, "eu")), isolation="none")
