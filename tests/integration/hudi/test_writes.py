"""Writes stay Hudi's own: every statement and every save mode does with the gate what it does without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as f

from lakeshift.hudi.reader import HudiTable
from tests.conftest import FULL
from tests.integration.hudi.plans import V2_SCAN, scans
from tests.integration.hudi.tables import QUICK, options_of, rows, write

# What Hudi says where a table is in the way; its "ignore" leaves the table alone and then says that too.
REFUSALS = ("already exist", "Failed to write")
V2_WRITES = ("AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "CreateTableAsSelect")


@pytest.fixture(autouse=True)
def _quick_sql_writes(spark: Any) -> Iterator[None]:
    settings = {**QUICK, "hoodie.schema.on.read.enable": "false"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key in settings:
        spark.conf.unset(key)


def content(spark: Any, table: str) -> dict[int, tuple[str, str]]:
    """What the table holds, by V1 and so without any of our code."""
    frame = HudiTable(spark, table).read(dsv2=False)
    return {row.id: (row.name, row.region) for row in frame.collect()}


# Under a gate that is closed this is Hudi alone, and the path of a statement is the same for both kinds of table; the
# long run shows that too.
@pytest.mark.parametrize("on", [True, False] if FULL else [True], ids=lambda on: f"gate_{on}")
@pytest.mark.parametrize("kind", ["cow", "mor"] if FULL else ["cow"])
def test_sql_statements_write_through_v1(spark: Any, gate: Callable[[bool | None], None], kind: str, on: bool) -> None:
    gate(on)
    table = f"written_{kind}_{on}".lower()

    def run(statement: str) -> None:
        if not statement.startswith(("ALTER", "TRUNCATE")):
            plan = spark.sql(f"EXPLAIN EXTENDED {statement}").first()[0]
            planned = plan.split("== Analyzed Logical Plan ==")[1]
            assert not any(node in planned for node in V2_WRITES), plan
        spark.sql(statement)

    try:
        run(
            f"CREATE TABLE {table} USING hudi"
            f" TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'id') PARTITIONED BY (region)"
            " AS SELECT id, concat('n', id) AS name, concat('r', id % 2) AS region FROM range(4)"
        )
        held = {i: (f"n{i}", f"r{i % 2}") for i in range(4)}
        assert content(spark, table) == held

        run(f"INSERT INTO {table} SELECT id + 10, concat(name, '+'), region FROM {table} WHERE id < 2")
        held |= {10: ("n0+", "r0"), 11: ("n1+", "r1")}
        assert content(spark, table) == held

        run(f"UPDATE {table} SET name = concat(name, '!') WHERE region = 'r0' AND id < 3")
        held |= {0: ("n0!", "r0"), 2: ("n2!", "r0")}
        assert content(spark, table) == held

        run(f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE id >= 10)")
        held = {i: row for i, row in held.items() if i < 10}
        assert content(spark, table) == held

        run(
            f"MERGE INTO {table} t USING (SELECT * FROM VALUES (2L, 'm2', 'r0'), (7L, 'm7', 'r1')"
            " AS source(id, name, region)) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        held |= {2: ("m2", "r0"), 7: ("m7", "r1")}
        assert content(spark, table) == held
        if kind == "mor" and not FULL:
            return  # what follows writes no log files, and does on this table what it does on the other

        run(f"INSERT INTO {table} VALUES (4, 'n4', 'r0'), (5, 'n5', 'r1')")
        # A statement of its own: of a conditional DELETE beside an UPDATE Hudi's own MERGE ignores the DELETE.
        run(
            f"MERGE INTO {table} t USING (SELECT * FROM VALUES (5L, 'm5', 'r1') AS source(id, name, region)) s"
            " ON t.id = s.id WHEN MATCHED THEN DELETE"
        )
        held |= {4: ("n4", "r0")}
        assert content(spark, table) == held

        run(f"INSERT OVERWRITE {table} PARTITION (region = 'r1') SELECT id, 'o' FROM {table} WHERE id = 3")
        held = {i: row for i, row in held.items() if row[1] == "r0"} | {3: ("o", "r1")}
        assert content(spark, table) == held

        run(f"ALTER TABLE {table} ADD COLUMNS (extra STRING)")
        assert content(spark, table) == held
        assert "extra" in HudiTable(spark, table).read(dsv2=on).columns

        run(f"INSERT OVERWRITE TABLE {table} SELECT id, name, extra, region FROM {table} WHERE id = 4")
        assert content(spark, table) == {4: ("n4", "r0")}

        run(f"TRUNCATE TABLE {table}")
        assert content(spark, table) == {}
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def test_save_modes_on_new_and_existing_tables(spark: Any, gate: Callable[[bool | None], None], tmp_path: Path) -> None:
    def outcomes(on: bool) -> list[tuple[str, str, set[int]]]:
        """What each mode does to a new path and to one with rows 0 to 3, and which rows are there afterwards."""
        gate(on)
        found = []
        for mode in ("errorifexists", "ignore", "append", "overwrite"):
            path = tmp_path / f"{mode}_{on}"
            for start in (0, 4):
                try:
                    write(rows(spark, start, start + 4), path, "insert", mode=mode, **options_of("cow", "hive_style"))
                    told = "written"
                except Exception as error:
                    told = next((said for said in REFUSALS if said in str(error)), str(error))
                ids = {row.id for row in HudiTable(spark, str(path)).read(dsv2=on).collect()}
                found.append((mode, told, ids))
        return found

    with_gate = outcomes(True)
    if FULL:
        assert with_gate == outcomes(False)
    refused = [(mode, told) for mode, told, _ in with_gate if told != "written"]
    assert refused == list(zip(("errorifexists", "ignore"), REFUSALS, strict=True))
    first, second = set(range(4)), set(range(4, 8))
    assert [ids for _, _, ids in with_gate] == [first, first, first, first, first, first | second, first, second]


def test_reads_and_writes_take_turns(spark: Any, gate: Callable[[bool | None], None], tmp_path: Path) -> None:
    """Each V2 read sees what the write before it committed, also a write of what V2 has just read."""
    gate(True)
    path = tmp_path / "turns"
    options = options_of("mor", "hive_style")
    write(rows(spark, 0, 8), path, "bulk_insert", **options)
    first = spark.read.format("hudi").load(str(path))
    assert scans(first) == [V2_SCAN]
    assert first.count() == 8
    again = first.drop(*[c for c in first.columns if c.startswith("_hoodie")])
    write(again.where("id < 2").withColumn("name", f.lit("again")), path, "upsert", **options)
    second = spark.read.format("hudi").load(str(path))
    assert scans(second) == [V2_SCAN]
    assert {row.id for row in second.where("name = 'again'").collect()} == {0, 1}
    assert second.count() == 8
