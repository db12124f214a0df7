"""The sink on a real table: what it writes, what the log then says, and what it refuses."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeshift.delta import open_table
from lakeshift.delta.log import DeltaLog
from lakeshift.delta.open_table import TypeWideningWarning
from lakeshift.delta.schema_diff import Identical, Mixed, NewColumns, TypeWidening
from lakeshift.delta.sink import DeltaSink
from lakeshift.errors import BadRowsError, ConfigError, InvalidStateError, SchemaMismatchError, UnsupportedTableError
from lakeshift.stack import Capability, Stack
from tests.integration.delta.conftest import Log


def rows(spark: Any, table: Path) -> list[dict[str, Any]]:
    frame = spark.read.format("delta").load(str(table))
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=str)


def create(spark: Any, table: Path, query: str, **options: str) -> None:
    spark.sql(query).write.format("delta").options(**options).save(str(table))


WIDENING = {"delta.enableTypeWidening": "true"}


def test_evolve_add_column(spark: Any, table: Path, log: Log) -> None:
    create(spark, table, "SELECT 1 AS a")
    with DeltaSink(spark, table, {"columns": "evolve"}) as sink:
        result = sink.write_batch(spark.sql("SELECT 2 AS a, 'x' AS b, named_struct('c', 1) AS s"))
    assert isinstance(result.diff, NewColumns)
    assert (result.version, result.evolved, result.rows_written, result.files_added) == (1, True, 1, 1)
    assert log.versions() == [0, 1]
    assert sorted(log.kinds(1)) == ["add", "commitInfo", "metaData"]
    assert list(log.columns(1)) == ["a", "b", "s"]
    recorded = json.loads(log.action(1, "commitInfo")["userMetadata"])["lakeshift"]["evolution"]
    assert recorded == result.diff.to_dict()
    assert rows(spark, table) == [{"a": 1, "b": None, "s": None}, {"a": 2, "b": "x", "s": {"c": 1}}]


def test_evolve_widen_type(spark: Any, table: Path, log: Log) -> None:
    create(spark, table, "SELECT cast(1 AS byte) AS a, cast(2 AS short) AS b", **WIDENING)
    with DeltaSink(spark, table, {"types": "evolve"}) as sink:
        result = sink.write_batch(spark.sql("SELECT cast(300 AS short) AS a, 70000 AS b"))
    assert isinstance(result.diff, TypeWidening)
    assert log.columns(1) == {"a": "short", "b": "integer"}
    assert "remove" not in log.kinds(1)
    assert rows(spark, table) == [{"a": 1, "b": 2}, {"a": 300, "b": 70000}]


@pytest.mark.parametrize(("before", "after"), [("int", "long"), ("float", "double"), ("byte", "long")])
def test_widenings_beyond_int_work_or_are_refused_by_the_stack_s_name(
    spark: Any, stack: Stack, table: Path, log: Log, before: str, after: str
) -> None:
    create(spark, table, f"SELECT cast(1 AS {before}) AS a", **WIDENING)
    batch = spark.sql(f"SELECT cast(2 AS {after}) AS a")
    with DeltaSink(spark, table, True) as sink:
        if stack.can(Capability.DELTA_WIDEN_ALL):
            assert isinstance(sink.write_batch(batch).diff, TypeWidening)
            assert log.columns(1) == {"a": after}
            assert sorted(row["a"] for row in rows(spark, table)) == [1, 2]
        else:
            with pytest.raises(SchemaMismatchError, match=f"{before} to {after} needs Delta 4 .* this is Delta 3.3"):
                sink.write_batch(batch)
            assert log.versions() == [0]


def test_new_columns_and_wider_types_come_in_one_commit(spark: Any, table: Path, log: Log) -> None:
    create(spark, table, "SELECT cast(1 AS short) AS a, named_struct('x', cast(1 AS byte)) AS s", **WIDENING)
    with DeltaSink(spark, table, True) as sink:
        result = sink.write_batch(spark.sql("SELECT 2 AS a, named_struct('x', 3, 'y', 'n') AS s, true AS b"))
    assert isinstance(result.diff, Mixed)
    assert log.versions() == [0, 1]
    assert rows(spark, table) == [
        {"a": 1, "b": None, "s": {"x": 1, "y": None}},
        {"a": 2, "b": True, "s": {"x": 3, "y": "n"}},
    ]


def test_an_empty_batch_evolves_by_metadata_alone(spark: Any, table: Path, log: Log) -> None:
    create(spark, table, "SELECT 1 AS a")
    with DeltaSink(spark, table, True) as sink:
        sink.write_batch(spark.sql("SELECT 1 AS a, 2 AS b WHERE false"))
    assert sorted(log.kinds(1)) == ["commitInfo", "metaData"]


def test_old_files_readable_after_evolution_and_never_rewritten(spark: Any, table: Path, log: Log) -> None:
    create(spark, table, "SELECT cast(id AS short) AS a FROM range(3)", **WIDENING)
    files = {file.name: file.read_bytes() for file in table.glob("*.parquet")}
    with DeltaSink(spark, table, True) as sink:
        sink.write_batch(spark.sql("SELECT 10 AS a, 'new' AS b"))
        sink.write_batch(spark.sql("SELECT 11 AS a, 'new' AS b, 1.5D AS c"))
        sink.write_batch(spark.sql("SELECT 12 AS a, 'new' AS b, 1.5D AS c"))
    assert log.versions() == [0, 1, 2, 3]
    assert ["metaData" in log.kinds(version) for version in log.versions()] == [True, True, True, False]
    assert all("remove" not in log.kinds(version) for version in log.versions())
    assert all((table / name).read_bytes() == content for name, content in files.items())
    assert [row["a"] for row in rows(spark, table) if row["b"] is None] == [0, 1, 2]


@pytest.mark.once_first
def test_a_frozen_sink_refuses_and_writes_nothing(spark: Any, table: Path, log: Log) -> None:
    create(spark, table, "SELECT 1 AS a")
    files = set(table.iterdir())
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    try:
        with DeltaSink(spark, table) as sink, pytest.raises(SchemaMismatchError, match='"columns": "evolve"'):
            sink.write_batch(spark.sql("SELECT 2 AS a, 'x' AS b"))
        with DeltaSink(spark, table) as sink:
            assert sink.write_batch(spark.sql("SELECT 2 AS a")).version == 1
    finally:
        spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    assert len(set(table.iterdir()) - files) == 2  # one data file and its checksum
    assert log.kinds(1) == ["commitInfo", "add"]


@pytest.mark.once_first
def test_incompatible_columns_are_all_named_and_nothing_is_written(spark: Any, table: Path, log: Log) -> None:
    create(spark, table, "SELECT 1L AS a, 'x' AS b, 1.5D AS c")
    with DeltaSink(spark, table, True) as sink, pytest.raises(SchemaMismatchError) as error:
        sink.write_batch(spark.sql("SELECT 'one' AS a, 2 AS b, 3 AS c, null AS d"))
    for expected in (
        "a: the table has long, the input string",
        "b: the table has string, the input int",
        "d: it has no",
    ):
        assert expected in str(error.value)
    assert log.versions() == [0]


@pytest.mark.once_first
def test_the_switch_turns_type_widening_on_once_and_warns(spark: Any, table: Path, log: Log) -> None:
    create(spark, table, "SELECT cast(1 AS short) AS a, cast(1 AS byte) AS b")
    with DeltaSink(spark, table, True) as sink, pytest.raises(SchemaMismatchError, match="enable_type_widening=True"):
        sink.write_batch(spark.sql("SELECT 2 AS a"))
    assert log.versions() == [0]
    with DeltaSink(spark, table, True, enable_type_widening=True) as sink:
        sink.write_batch(spark.sql("SELECT cast(2 AS short) AS a"))
        assert "metaData" not in log.kinds(1)  # not before it is needed
        with pytest.warns(TypeWideningWarning, match="delta-rs"):
            sink.write_batch(spark.sql("SELECT 70000 AS a"))
        assert sorted(log.kinds(2)) == ["commitInfo", "metaData", "protocol"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sink.write_batch(spark.sql("SELECT cast(3 AS short) AS a, cast(4 AS short) AS b"))
    assert log.columns(4) == {"a": "integer", "b": "short"}
    assert sorted(row["a"] for row in rows(spark, table)) == [1, 2, 3, 70000]


@pytest.mark.once_first
def test_narrower_columns_are_cast_up_at_every_depth(spark: Any, table: Path, log: Log) -> None:
    create(
        spark,
        table,
        "SELECT 1L AS a, array(named_struct('x', 1L, 'y', 'q')) AS t, map(cast(1 AS short), 1.0D) AS m, "
        "named_struct('p', 1L, 'q', named_struct('r', 2L)) AS s",
    )
    with DeltaSink(spark, table) as sink:
        result = sink.write_batch(
            spark.sql(
                "SELECT map(cast(2 AS byte), cast(0.5 AS float)) AS m, cast(2 AS byte) AS A, "
                "array(named_struct('y', 'z', 'X', 5), null) AS t, "
                "named_struct('q', named_struct('r', 7), 'p', 8) AS s"
            )
        )
    assert isinstance(result.diff, Identical)
    assert log.kinds(1) == ["commitInfo", "add"]
    assert rows(spark, table)[1] == {
        "a": 2,
        "t": [{"x": 5, "y": "z"}, None],
        "m": {2: 0.5},
        "s": {"p": 8, "q": {"r": 7}},
    }


@pytest.mark.once_last
def test_null_structs_stay_null_when_they_are_rebuilt(spark: Any, table: Path) -> None:
    create(spark, table, "SELECT 1 AS k, named_struct('x', 1L) AS s")
    with DeltaSink(spark, table) as sink:
        sink.write_batch(spark.sql("SELECT 2 AS k, cast(null AS struct<x: int>) AS s"))
    assert rows(spark, table)[1] == {"k": 2, "s": None}


@pytest.mark.once_last
def test_missing_columns_are_null_also_in_partitions(spark: Any, table: Path) -> None:
    spark.sql("SELECT 1 AS a, 2 AS b, 'x' AS p").write.format("delta").partitionBy("p").save(str(table))
    with DeltaSink(spark, table) as sink:
        sink.write_batch(spark.sql("SELECT 5 AS b"))
    assert rows(spark, table)[1] == {"a": None, "b": 5, "p": None}


@pytest.mark.once_first
def test_the_sink_creates_a_partitioned_table_with_properties(spark: Any, table: Path, log: Log) -> None:
    options: dict[str, Any] = {"partition_by": ["p"], "properties": {"delta.appendOnly": "true"}}
    with DeltaSink(spark, table, **options) as sink:
        assert sink.explain(spark.range(1).selectExpr("id", "'x' AS p")).action == "create"
        assert not table.exists()
        result = sink.write_batch(spark.range(3).selectExpr("id", "'x' AS p"))
        sink.write_batch(spark.range(2).selectExpr("id", "'y' AS p"))
    assert result.version == 0
    assert log.action(0, "metaData")["partitionColumns"] == ["p"]
    assert log.action(0, "metaData")["configuration"] == {"delta.appendOnly": "true"}
    with DeltaSink(spark, table, **options) as sink:  # the same options again are fine
        sink.write_batch(spark.range(1).selectExpr("id", "'z' AS p"))
    assert len(rows(spark, table)) == 6
    with pytest.raises(ConfigError, match="partitioned by p"):
        DeltaSink(spark, table, partition_by=["id"]).open()
    with pytest.raises(ConfigError, match="create is False"):
        DeltaSink(spark, table.with_name("other"), create=False).open()


@pytest.mark.once_last
def test_a_table_name_works_as_well_as_a_path(spark: Any, delta_sql: Any) -> None:
    delta_sql.sql("DROP TABLE IF EXISTS sink_orders")
    with DeltaSink(spark, "sink_orders", True, partition_by=["p"]) as sink:
        assert sink.write_batch(spark.sql("SELECT 1L AS a, 'x' AS p")).rows_written == 1
        assert sink.write_batch(spark.sql("SELECT 2L AS a, 'x' AS p, 'new' AS b")).evolved
    with DeltaSink(spark, "default.sink_orders") as sink:
        assert sink.write_batch(spark.sql("SELECT 3 AS a")).rows_written == 1
    found = delta_sql.table("sink_orders").orderBy("a").collect()
    assert [(row.a, row.b, row.p) for row in found] == [(1, None, "x"), (2, "new", "x"), (3, None, None)]
    delta_sql.sql("DROP TABLE sink_orders")


@pytest.mark.once_last
def test_a_name_of_another_format_or_of_nothing_is_refused(spark: Any) -> None:
    spark.sql("DROP TABLE IF EXISTS sink_parquet")
    spark.sql("CREATE TABLE sink_parquet USING parquet AS SELECT 1 AS a")
    with pytest.raises(UnsupportedTableError, match="parquet table"):
        DeltaSink(spark, "sink_parquet").open()
    spark.sql("DROP TABLE sink_parquet")
    with pytest.raises(ConfigError, match=r"write \./orders"):
        DeltaSink(spark, "my orders")


@pytest.mark.once_last
def test_writing_before_open_or_after_close_is_an_invalid_state(spark: Any, table: Path) -> None:
    sink = DeltaSink(spark, table)
    with pytest.raises(InvalidStateError, match="call open"):
        sink.write_batch(spark.range(1))
    sink.open()
    assert sink.open() is sink
    sink.close()
    sink.close()
    for call in (lambda: sink.write_batch(spark.range(1)), lambda: sink.explain(spark.range(1)), sink.open):
        with pytest.raises(InvalidStateError, match="closed"):
            call()


@pytest.mark.once_last
def test_a_table_that_was_replaced_is_not_written_to(spark: Any, table: Path) -> None:
    create(spark, table, "SELECT 1 AS a")
    with DeltaSink(spark, table, True) as sink:
        shutil.rmtree(table)
        create(spark, table, "SELECT 'other' AS z")
        with pytest.raises(InvalidStateError, match="dropped or replaced"):
            sink.write_batch(spark.sql("SELECT 1 AS a, 2 AS b"))
    assert rows(spark, table) == [{"z": "other"}]


@pytest.mark.once_last
def test_arrow_tables_batches_and_iterators_are_accepted(spark: Any, table: Path) -> None:
    first = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "name": pa.array(["a", None], pa.large_string()),
            "tags": pa.array([["x"], None], pa.large_list(pa.string())),
            "at": pa.array([0, 1], pa.timestamp("ms", "UTC")),
            "kind": pa.array(["k", "k"]).dictionary_encode(),
        }
    )
    with DeltaSink(spark, table, {"columns": "evolve"}) as sink:
        assert sink.write_batch(first).rows_written == 2
        batch = pa.record_batch({"id": pa.array([3], pa.int32()), "price": pa.array([1.5])})
        assert sink.write_batch(iter([batch, batch])).rows_written == 2
        assert sink.write_batch(batch).rows_written == 1
        assert sink.write_batch(first.to_reader()).rows_written == 2
        with pytest.raises(SchemaMismatchError, match="Cast it to int64"):
            sink.write_batch(pa.table({"id": pa.array([1], pa.uint32())}))
        with pytest.raises(ConfigError, match="dict"):
            sink.write_batch({"id": 1})  # type: ignore[arg-type]
    found = rows(spark, table)
    assert len(found) == 7
    assert [r["price"] for r in found if r["id"] == 3] == [1.5, 1.5, 1.5]


@pytest.mark.once_last
def test_what_explain_says_is_what_the_write_does(spark: Any, table: Path, log: Log) -> None:
    create(spark, table, "SELECT 1L AS a, 'x' AS b", **WIDENING)
    batch = spark.sql("SELECT 2 AS a, true AS c")
    with DeltaSink(spark, table, True) as sink:
        plan = sink.explain(batch)
        assert log.versions() == [0]
        result = sink.write_batch(batch)
        assert not sink.explain(batch).diff.new_columns
    assert plan.diff == result.diff
    assert list(log.columns(1)) == [field.name for field in plan.target.fields]
    with DeltaSink(spark, table) as sink:
        assert sink.explain(spark.sql("SELECT 'no' AS a")).refused


@pytest.mark.once_last
def test_rows_that_break_a_rule_of_the_table_are_bad_rows(spark: Any, delta_sql: Any, table: Path, log: Log) -> None:
    delta_sql.sql(f"CREATE TABLE delta.`{table}` (a INT NOT NULL, d SHORT) USING delta")
    delta_sql.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT positive CHECK (d IS NULL OR d > 0)")
    with DeltaSink(spark, table) as sink:
        with pytest.raises(BadRowsError, match=r"positive.* -1"):
            sink.write_batch(spark.sql("SELECT 1 AS a, cast(-1 AS short) AS d"))
        with pytest.raises(BadRowsError, match="NOT NULL"):
            sink.write_batch(spark.sql("SELECT cast(null AS int) AS a"))
        with pytest.raises(SchemaMismatchError, match="Add it to the input"):
            sink.write_batch(spark.sql("SELECT cast(1 AS short) AS d"))
        assert sink.write_batch(spark.sql("SELECT 1 AS a")).rows_written == 1
    assert log.versions() == [0, 1, 2]


@pytest.mark.once_last
def test_a_column_under_a_check_is_not_widened(spark: Any, delta_sql: Any, table: Path, log: Log) -> None:
    properties = "'delta.enableTypeWidening' = 'true'"
    delta_sql.sql(f"CREATE TABLE delta.`{table}` (a SHORT, d SHORT) USING delta TBLPROPERTIES ({properties})")
    delta_sql.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT positive CHECK (d > 0)")
    with DeltaSink(spark, table, True) as sink:
        with pytest.raises(SchemaMismatchError, match="d cannot be widened while the CHECK constraint positive reads"):
            sink.write_batch(spark.sql("SELECT 1 AS a, 2 AS d"))
        assert log.versions() == [0, 1]
        assert sink.write_batch(spark.sql("SELECT 1 AS a, cast(2 AS short) AS d")).evolved


@pytest.mark.once_last
def test_generated_columns_are_computed_checked_and_never_widened(
    spark: Any, delta_sql: Any, table: Path, log: Log
) -> None:
    delta = spark._jvm.io.delta.tables.DeltaTable
    generated = (
        delta.columnBuilder(delta_sql._jsparkSession, "b").dataType("SHORT").generatedAlwaysAs("cast(a + 1 AS short)")
    )
    (
        delta.create(delta_sql._jsparkSession)
        .location(str(table))
        .addColumn("a", "SHORT")
        .addColumn(generated.build())
        .property("delta.enableTypeWidening", "true")
        .execute()
    )
    with DeltaSink(spark, table, True) as sink:
        sink.write_batch(spark.sql("SELECT cast(1 AS byte) AS a"))
        sink.write_batch(spark.sql("SELECT cast(2 AS short) AS a, cast(3 AS byte) AS b"))
        with pytest.raises(BadRowsError, match="Generated Column"):
            sink.write_batch(spark.sql("SELECT cast(2 AS short) AS a, cast(9 AS short) AS b"))
        with pytest.raises(SchemaMismatchError, match="a cannot be widened while the generated column b reads it"):
            sink.write_batch(spark.sql("SELECT 70000 AS a"))
        with pytest.raises(SchemaMismatchError, match="b is generated as"):
            sink.write_batch(spark.sql("SELECT cast(1 AS short) AS a, 2 AS b"))
    assert rows(spark, table) == [{"a": 1, "b": 2}, {"a": 2, "b": 3}]


@pytest.mark.once_last
def test_defaults_are_written_for_missing_columns(spark: Any, delta_sql: Any, table: Path) -> None:
    delta_sql.sql(
        f"CREATE TABLE delta.`{table}` (a INT, c SHORT NOT NULL DEFAULT 7) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    with DeltaSink(spark, table, True) as sink:
        sink.write_batch(spark.sql("SELECT 1 AS a"))
        sink.write_batch(spark.sql("SELECT 2 AS a, cast(8 AS short) AS c, 'x' AS n"))
    assert rows(spark, table) == [{"a": 1, "c": 7, "n": None}, {"a": 2, "c": 8, "n": "x"}]


@pytest.mark.once_last
def test_column_mapping_holds_any_name(spark: Any, table: Path) -> None:
    with DeltaSink(spark, table, True, properties={"delta.columnMapping.mode": "name"}) as sink:
        sink.write_batch(spark.sql("SELECT 1 AS `a b`"))
        sink.write_batch(spark.sql("SELECT cast(2 AS short) AS `A B`, 3 AS `c,d`, named_struct('e;', 1) AS s"))
    assert rows(spark, table) == [
        {"a b": 1, "c,d": None, "s": None},
        {"a b": 2, "c,d": 3, "s": {"e;": 1}},
    ]
    plain = table.with_name("plain")
    with DeltaSink(spark, plain, True) as sink, pytest.raises(SchemaMismatchError, match="column mapping"):
        sink.write_batch(spark.sql("SELECT 1 AS `a b`"))
    assert not plain.exists()


@pytest.mark.once_first
def test_partition_columns_widen_without_touching_old_files(spark: Any, table: Path, log: Log) -> None:
    query = spark.sql("SELECT cast(1 AS short) AS p, 'x' AS v")
    query.write.format("delta").partitionBy("p").options(**WIDENING).save(str(table))
    with DeltaSink(spark, table, True) as sink:
        sink.write_batch(spark.sql("SELECT 70000 AS p, 'y' AS v"))
    assert rows(spark, table) == [{"p": 1, "v": "x"}, {"p": 70000, "v": "y"}]
    assert "remove" not in log.kinds(1)


@pytest.mark.once_first
def test_names_that_clash_by_case_and_types_without_a_feature_are_refused(spark: Any, table: Path, log: Log) -> None:
    create(spark, table, "SELECT 1 AS a")
    with DeltaSink(spark, table, True) as sink:
        with pytest.raises(SchemaMismatchError, match="by case"):
            sink.write_batch(spark.sql("SELECT 1 AS a, 2 AS A"))
        with pytest.raises(SchemaMismatchError, match="timestampNtz"):
            sink.write_batch(spark.sql("SELECT 1 AS a, timestamp_ntz'2026-01-01 00:00:00' AS t"))
        with pytest.raises(SchemaMismatchError, match="Delta has no type interval"):
            sink.write_batch(spark.sql("SELECT 1 AS a, interval '1' day AS i"))
    assert log.versions() == [0]


def test_a_new_table_takes_timestamps_without_zone_and_reopens_with_its_features(spark: Any, table: Path) -> None:
    batch = spark.sql("SELECT 1 AS a, timestamp_ntz'2026-01-01 00:00:00' AS t")
    properties = {"delta.feature.timestampNtz": "supported"}
    for _ in range(2):
        with DeltaSink(spark, table, properties=properties) as sink:
            assert sink.write_batch(batch).rows_written == 1
    assert len(rows(spark, table)) == 2


@pytest.mark.once_last
def test_steady_batches_neither_read_the_table_again_nor_plan_again(
    spark: Any, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    refresh, plan = DeltaLog.refresh, open_table.plan_write

    def counted_refresh(self: DeltaLog) -> Any:
        reads.append("table")
        return refresh(self)

    def counted_plan(*arguments: Any) -> Any:
        reads.append("plan")
        return plan(*arguments)

    monkeypatch.setattr(DeltaLog, "refresh", counted_refresh)
    monkeypatch.setattr(open_table, "plan_write", counted_plan)
    with DeltaSink(spark, table, True, txn_app_id="steady") as sink:
        for version in range(2):
            sink.write_batch(spark.sql("SELECT 1 AS a, 'x' AS b"), txn_version=version)
        reads.clear()
        for version in range(2, 5):
            sink.write_batch(spark.sql("SELECT 1 AS a, 'x' AS b"), txn_version=version)
        assert reads == []
        sink.write_batch(spark.sql("SELECT 1 AS a, 'x' AS b, 2 AS c"), txn_version=5)
        assert reads == ["plan", "table"]
