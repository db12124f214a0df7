"""Schema evolution: after each change of the schema, both paths read the same, old files and new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakeshift.hudi.reader import HudiTable
from tests.conftest import FULL
from tests.integration.hudi.conftest import VECTORIZED
from tests.integration.hudi.plans import V1_SCAN, V2_SCAN, scans
from tests.integration.hudi.tables import QUICK

_SESSION = {
    **QUICK,
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    "hoodie.spark.sql.insert.into.operation": "upsert",
}


@pytest.fixture
def evolving(spark: Any) -> Iterator[Callable[[str], str]]:
    """Makes a table with rows that know nothing of the changes to come."""
    made: list[str] = []
    for key, value in _SESSION.items():
        spark.conf.set(key, value)

    def make(kind: str) -> str:
        table = f"evolving_{kind}"
        spark.sql(
            f"CREATE TABLE {table} (id BIGINT, small INT, ratio FLOAT, old STRING, gone STRING,"
            " info STRUCT<city: STRING, code: INT>, region STRING) USING hudi PARTITIONED BY (region)"
            f" TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'id')"
        )
        made.append(table)
        spark.sql(
            f"INSERT INTO {table} SELECT id, CAST(id AS INT) AS small, CAST(id / 2 AS FLOAT) AS ratio,"
            " concat('o', id) AS old, 'gone' AS gone, named_struct('city', concat('c', id), 'code', 7) AS info,"
            " concat('r', id % 2) AS region FROM range(8)"
        )
        return table

    yield make
    for table in made:
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    for key in _SESSION:
        spark.conf.unset(key)


def both(spark: Any, table: str, query: str = "*") -> list[Any]:
    """The rows by V2, which V1 must give as well."""
    reader = HudiTable(spark, table)
    ours, theirs = (
        reader.read(dsv2=dsv2, options=_SESSION).drop("_hoodie_commit_seqno").selectExpr(query).orderBy("id")
        for dsv2 in (True, False)
    )
    assert (scans(ours), scans(theirs)) == ([V2_SCAN], [V1_SCAN])
    assert ours.schema == theirs.schema
    found = ours.collect()
    assert found == theirs.collect()
    return found


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_reads_follow_the_schema(spark: Any, evolving: Callable[[str], str], kind: str) -> None:
    table = evolving(kind)

    def alter(change: str) -> None:
        """Changes the schema; the long form compares the paths after each change, and not only after several."""
        spark.sql(f"ALTER TABLE {table} {change}")
        if FULL:
            both(spark, table)

    alter("ADD COLUMNS (added STRING)")
    alter("RENAME COLUMN old TO renamed")
    alter("DROP COLUMN gone")
    alter("ALTER COLUMN small TYPE BIGINT")
    alter("ALTER COLUMN ratio TYPE DOUBLE")
    flat = both(spark, table)
    assert "gone" not in flat[0].asDict()
    assert [(row.added, row.renamed, row.small, row.ratio) for row in flat] == [
        (None, f"o{i}", i, i / 2) for i in range(8)
    ]

    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (info.zip STRING)")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN info.city TO town")
    # Hudi reads nested columns that changed only row by row; it says so itself, on either path.
    assert spark.conf.get(VECTORIZED) == "true"
    for dsv2 in (True, False) if kind == "cow" else ():
        with pytest.raises(Exception, match="cannot be read in vectorized mode"):
            HudiTable(spark, table).read(dsv2=dsv2, options=_SESSION).collect()
    spark.conf.set(VECTORIZED, "false")
    alter("ALTER COLUMN added AFTER id")
    nested = both(spark, table)
    assert [(row["info"].town, row["info"].zip) for row in nested] == [(f"c{i}", None) for i in range(8)]
    columns = [name for name in nested[0].asDict() if not name.startswith("_hoodie")]
    assert columns == ["id", "added", "small", "ratio", "renamed", "info", "region"]

    # New rows, and a change to an old one, under the new schema beside files of the old.
    spark.sql(
        f"INSERT INTO {table} SELECT id, 'new' AS added, 5000000000 + id AS small, 0.1D AS ratio, 'o' AS renamed,"
        " named_struct('town', 't', 'code', 8, 'zip', 'z') AS info, concat('r', id % 2) AS region FROM range(7, 10)"
    )
    mixed = both(spark, table)
    assert [row.small for row in mixed] == [*range(7), 5000000007, 5000000008, 5000000009]
    assert [row["info"].zip for row in mixed] == [None] * 7 + ["z"] * 3
    assert [row.added for row in mixed] == [None] * 7 + ["new"] * 3

    # Filters and nested columns on evolved columns, where a wrong name would lose rows.
    reader = HudiTable(spark, table)
    ours, theirs = (reader.read(dsv2=dsv2, options=_SESSION) for dsv2 in (True, False))
    for condition in ("small > 4000000000", "renamed = 'o3'", "info.town = 'c2'", "added IS NULL", "ratio < 1.0"):
        found = sorted(row.id for row in ours.where(condition).select("id").collect())
        assert found == sorted(row.id for row in theirs.where(condition).select("id").collect())
        assert found, condition
    assert reader.read(options=_SESSION).selectExpr("min(small)", "max(small)", "count(renamed)").first() == (
        0,
        5000000009,
        10,
    )
