"""Appending Spark frames: what is refused before a byte is written, what happens to bad rows, how files lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform

import lakeshift
from lakeshift.errors import (
    BadRowsError,
    ConfigError,
    LakeshiftError,
    SchemaMismatchError,
    SpecNotWritableError,
    UnknownSpecError,
    UnsupportedTableError,
)
from lakeshift.iceberg.table import IcebergTable
from lakeshift.iceberg.write import OPERATION_ID

NewTable = Callable[..., IcebergTable]


@pytest.fixture
def new_table(tmp_path: Path, spark: Any) -> NewTable:
    lake = lakeshift.connect(warehouse=tmp_path / "lake", spark=spark)

    def create(schema: str, partition_by: tuple[str, ...] = (), **properties: str) -> IcebergTable:
        return lake.create_iceberg_table(
            f"db.t{len(list((tmp_path / 'lake').glob('db/*')))}", schema, partition_by, properties
        )

    return create


def data_files(table: IcebergTable) -> list[Path]:
    return sorted(Path(table.table.location().removeprefix("file://")).rglob("*.parquet"))


def test_what_can_be_known_is_refused_before_a_byte_is_written(new_table: NewTable, spark: Any) -> None:
    table = new_table("id bigint not null, ts timestamp, region string", ("day(ts)",))
    table.evolve_partitions(add=["region"], drop=["ts_day"])
    table.evolve_partitions(add=["bucket(4, id)"], drop=["region"])
    with table.table.update_schema() as update:
        update.delete_column("region")
    frame = spark.sql("SELECT 1L AS id, current_timestamp() AS ts")

    with pytest.raises(UnknownSpecError, match="no partition spec 7; it has 0, 1, 2"):
        table.append(frame, spec_id=7)
    with pytest.raises(SpecNotWritableError, match=r"Partition spec 1 .*'region'.*was dropped"):
        table.append(frame, spec_id=1)
    with pytest.raises(SchemaMismatchError, match="(?s)'id'.*missing.*'extra'.*'when'"):
        table.append(spark.sql("SELECT current_timestamp() AS ts, 1 AS extra, 2 AS `when`"))
    with pytest.raises(SchemaMismatchError, match="duration"):
        table.append(spark.sql("SELECT 1L AS id, INTERVAL 1 DAY AS ts"))
    with pytest.raises(ConfigError, match="on_bad_rows is 'skip'"):
        table.append(frame, on_bad_rows="skip")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs quarantine=<path>"):
        table.append(frame, on_bad_rows="quarantine")
    with pytest.raises(ConfigError, match="on_bad_rows is 'fail'"):
        table.append(frame, quarantine="somewhere")
    with pytest.raises(ConfigError, match="nosuch"):
        table.append(frame, branch="nosuch")
    with table.table.transaction() as change:
        change.set_properties({"write.format.default": "orc"})
    with pytest.raises(UnsupportedTableError, match="write.format.default is 'orc'"):
        table.append(frame)
    assert data_files(table) == []
    assert table.refresh().table.current_snapshot() is None


@pytest.mark.once_first
def test_columns_match_by_name_and_safe_casts_happen(new_table: NewTable, spark: Any) -> None:
    table = new_table("id bigint not null, amount decimal(12,2), place struct<city: string, zip: int>, note string")
    table.append(spark.sql("SELECT named_struct('ZIP', 7S, 'city', 'Oslo') AS PLACE, 1.5BD AS amount, 3 AS Id"))
    assert [row.asDict(recursive=True) for row in table.read().collect()] == [
        {"id": 3, "amount": pytest.approx(1.5), "place": {"city": "Oslo", "zip": 7}, "note": None}
    ]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(SchemaMismatchError, match="differs from 'id' in case only"):
            table.append(spark.sql("SELECT 3 AS Id"))
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


BAD = """SELECT * FROM VALUES
    (1L, 10L, 'a'), (2L, 3000000000L, 'b'), (CAST(NULL AS BIGINT), 30L, 'c'), (4L, -3000000000L, 'd'), (5L, 50L, 'a')
    AS t(id, n, region)"""


@pytest.mark.once_first
def test_bad_rows_stop_the_write_and_are_told_by_reason_and_column(new_table: NewTable, spark: Any) -> None:
    table = new_table("id bigint not null, n int, region string", ("region",))
    with pytest.raises(BadRowsError) as raised:
        table.append(spark.sql(BAD))
    told = str(raised.value)
    assert "3 rows cannot be written" in told
    assert "2 in n: overflow" in told
    assert "1 in id: required value missing" in told
    assert "3000000000" in told
    assert "on_bad_rows='quarantine'" in told
    assert data_files(table) == []
    assert table.refresh().table.current_snapshot() is None


def test_bad_rows_go_into_quarantine_as_they_came(new_table: NewTable, spark: Any, tmp_path: Path) -> None:
    table = new_table("id bigint not null, n int, region string", ("region",))
    first = table.append(spark.sql("SELECT 0L AS id, 0 AS n, 'z' AS region"))
    result = table.append(spark.sql(BAD), on_bad_rows="quarantine", quarantine=tmp_path / "bad")
    assert (result.rows_written, result.rows_quarantined) == (2, 3)
    assert sorted(row.id for row in table.read().collect()) == [0, 1, 5]
    kept = pq.read_table(tmp_path / "bad").to_pylist()
    assert sorted((row["id"] or 0, row["n"], row["region"], row["_reason"], row["_column"]) for row in kept) == [
        (0, 30, "c", "required value missing", "id"),
        (2, 3_000_000_000, "b", "overflow", "n"),
        (4, -3_000_000_000, "d", "overflow", "n"),
    ]
    assert {row["_snapshot"] for row in kept} == {first.snapshot_id}
    summary = table.table.current_snapshot().summary.additional_properties
    assert {row["_operation"] for row in kept} == {summary[OPERATION_ID]}


@pytest.mark.once_first
def test_files_are_sorted_as_the_table_says(new_table: NewTable, spark: Any) -> None:
    table = new_table("id bigint, region string, amount double", ("region",))
    order = SortOrder(
        SortField(3, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST),
        SortField(1, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST),
    )
    with table.table.update_sort_order() as update:
        for field in order.fields:
            name = table.table.schema().find_column_name(field.source_id)
            getattr(update, "asc" if field.direction is SortDirection.ASC else "desc")(
                name, IdentityTransform(), field.null_order
            )
    frame = spark.range(0, 1000, 1, 4).selectExpr(
        "id", "concat('r', pmod(id, 3)) AS region", "IF(id % 10 = 0, NULL, CAST(pmod(hash(id), 5) AS DOUBLE)) AS amount"
    )
    for mode in ("none", "hash", "range"):
        with table.table.transaction() as change:
            change.set_properties({"write.distribution-mode": mode})
        before = set(data_files(table))
        result = table.append(frame)
        assert result.rows_written == 1000
        fresh = [path for path in data_files(table) if path not in before]
        if mode == "hash":
            assert len(fresh) == 3
        for path in fresh:
            rows = [(row["amount"], row["id"]) for row in pq.ParquetFile(path).read().to_pylist()]
            assert rows == sorted(rows, key=lambda row: (row[0] is None, -(row[0] or 0), row[1])), mode
    orders = {file.sort_order_id for file in _files(table)}
    assert orders == {table.table.sort_order().order_id}


def _files(table: IcebergTable) -> list[Any]:
    return [task.file for task in table.refresh().table.scan().plan_files()]


HOSTILE = ["../up", "a/b", "100%", "k=v", "tab\there", "null", "", "x" * 500, "line\nend", "é~*+ ?#", "\x01\x7f"]


def test_hostile_partition_values_are_safe_and_round_trip(new_table: NewTable, spark: Any) -> None:
    table = new_table("id int, name string", ("name",))
    frame = spark.createDataFrame([*enumerate(HOSTILE), (99, None)], "id int, name string")
    table.append(frame)
    root = Path(table.table.location().removeprefix("file://")).resolve()
    assert all(path.resolve().is_relative_to(root / "data") for path in data_files(table))
    assert len(data_files(table)) == len(HOSTILE) + 1
    for number, name in enumerate(HOSTILE):
        scan = table.table.scan(EqualTo("name", name))
        assert len(list(scan.plan_files())) == 1
        assert scan.to_arrow().column("id").to_pylist() == [number], name
    assert [row.id for row in table.read(where="name IS NULL").collect()] == [99]


def test_a_failing_task_late_in_the_job_commits_nothing(new_table: NewTable, spark: Any) -> None:
    table = new_table("id bigint, region string", ("region",), **{"write.distribution-mode": "none"})
    frame = spark.range(0, 40_000, 1, 4).selectExpr(
        "IF(id = 39999, CAST(raise_error('late') AS BIGINT), id) AS id", "concat('r', pmod(id, 5)) AS region"
    )
    with pytest.raises(LakeshiftError, match="late"):
        table.append(frame)
    assert table.refresh().table.current_snapshot() is None


@pytest.mark.once_first
def test_an_append_goes_to_a_branch_with_its_properties(new_table: NewTable, spark: Any) -> None:
    table = new_table("id bigint")
    first = table.append(spark.range(3))
    table.table.manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    second = table.append(spark.range(2), branch="audit", snapshot_properties={"reason": "test"})
    assert table.read().count() == 3
    assert table.read(snapshot_id=second.snapshot_id).count() == 5
    snapshot = table.table.metadata.snapshot_by_id(second.snapshot_id)
    assert snapshot.summary["reason"] == "test"


def test_an_empty_frame_commits_nothing(new_table: NewTable, spark: Any) -> None:
    table = new_table("id bigint")
    assert table.append(spark.range(0)).snapshot_id is None
