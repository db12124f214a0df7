"""What the sink wrote, read by DuckDB: a reader that shares no code with Spark's Delta."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import pytest

from lakeshift.delta.sink import DeltaSink
from lakeshift.stack import Capability, Stack


@pytest.fixture(scope="module")
def duck() -> Any:
    """DuckDB with its Delta extension from the installed package; it downloads nothing."""
    package = Path(duckdb_extension_delta.__file__).parent
    extension = package / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    connection.execute(f"LOAD '{extension}'")
    yield connection
    connection.close()


def read(duck: Any, table: Path, columns: str) -> list[tuple[Any, ...]]:
    return list(duck.execute(f"SELECT {columns} FROM delta_scan('{table}') ORDER BY 1").fetchall())


def test_new_columns_are_null_in_old_rows(spark: Any, duck: Any, tmp_path: Path) -> None:
    table = tmp_path / "t"
    with DeltaSink(spark, table, True, partition_by=["p"]) as sink:
        sink.write_batch(spark.sql("SELECT 1 AS a, 'x' AS p"))
        sink.write_batch(spark.sql("SELECT 2 AS a, 'y' AS p, 'new' AS b, array(named_struct('n', 1)) AS t"))
        sink.write_batch(spark.sql("SELECT 3 AS a, array(named_struct('n', 2, 'm', 'deep')) AS t"))
    assert read(duck, table, "a, p, b, t") == [
        (1, "x", None, None),
        (2, "y", "new", [{"n": 1, "m": None}]),
        (3, None, None, [{"n": 2, "m": "deep"}]),
    ]
    rows = spark.read.format("delta").load(str(table)).orderBy("a").select("a", "p", "b").collect()
    assert [tuple(row) for row in rows] == read(duck, table, "a, p, b")


def test_old_rows_read_as_the_wider_type(spark: Any, stack: Stack, duck: Any, tmp_path: Path) -> None:
    table = tmp_path / "t"
    chain = ["byte", "short", "int"] + (["long"] if stack.can(Capability.DELTA_WIDEN_ALL) else [])
    properties = {"delta.enableTypeWidening": "true"}
    with DeltaSink(spark, table, True, properties=properties) as sink:
        for n, kind in enumerate(chain):
            sink.write_batch(spark.sql(f"SELECT cast({n} AS {kind}) AS a, named_struct('x', cast({n} AS {kind})) AS s"))
        if stack.can(Capability.DELTA_WIDEN_ALL):
            sink.write_batch(spark.sql("SELECT 10L AS a, cast(0.5 AS float) AS f"))
            sink.write_batch(spark.sql("SELECT 11L AS a, 0.1D AS f"))
    found = read(duck, table, "a, s.x")
    assert found[: len(chain)] == [(n, n) for n in range(len(chain))]
    kind = duck.execute(f"SELECT typeof(a) FROM delta_scan('{table}') LIMIT 1").fetchone()
    assert kind == ("BIGINT",) if "long" in chain else ("INTEGER",)
    if stack.can(Capability.DELTA_WIDEN_ALL):
        assert read(duck, table, "a, f")[-2:] == [(10, 0.5), (11, 0.1)]
    rows = spark.read.format("delta").load(str(table)).orderBy("a").selectExpr("a", "s.x").collect()
    assert [tuple(row) for row in rows] == found
