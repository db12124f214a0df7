"""The gate: who may open it, who wins, and that turning it takes effect at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakeshift.hudi.reader import GATE, read_paths
from tests.integration.hudi.plans import V1_SCAN, V2_SCAN, scans
from tests.integration.hudi.tables import HudiFixture

RULE = "org.apache.spark.sql.lakeshift.hudi.ReplaceHudiReads"
Gate = Callable[[bool | None], None]


@pytest.fixture
def name(spark: Any, hudi_table: Callable[..., HudiFixture]) -> Iterator[str]:
    """A catalog table over the shared files."""
    spark.sql(f"CREATE TABLE gated USING hudi LOCATION '{hudi_table('cow').path}'")
    yield "gated"
    spark.sql("DROP TABLE gated")


def by_path(spark: Any, table: HudiFixture, **options: str) -> Any:
    return spark.read.format("hudi").options(**options).load(table.path)


def test_a_catalog_read_is_v2_with_the_gate_and_v1_without(spark: Any, name: str, gate: Gate) -> None:
    assert scans(spark.sql(f"SELECT * FROM {name}")) == [V1_SCAN]
    gate(True)
    assert scans(spark.sql(f"SELECT * FROM {name}")) == [V2_SCAN]
    gate(False)
    assert scans(spark.sql(f"SELECT * FROM {name}")) == [V1_SCAN]


def test_a_path_read_is_v2_with_the_gate_and_v1_without(
    spark: Any, hudi_table: Callable[..., HudiFixture], gate: Gate
) -> None:
    table = hudi_table("cow")
    assert scans(by_path(spark, table)) == [V1_SCAN]
    gate(True)
    assert scans(by_path(spark, table)) == [V2_SCAN]


def test_the_option_of_a_read_wins_over_the_session(
    spark: Any, hudi_table: Callable[..., HudiFixture], gate: Gate
) -> None:
    table = hudi_table("cow")
    assert scans(by_path(spark, table, **{GATE: "true"})) == [V2_SCAN]
    gate(False)
    assert scans(by_path(spark, table, **{GATE: "true"})) == [V2_SCAN]
    gate(True)
    assert scans(by_path(spark, table, **{GATE: "false"})) == [V1_SCAN]


def test_the_session_wins_over_the_table_property(spark: Any, name: str, gate: Gate) -> None:
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{GATE}' = 'true')")
    assert scans(spark.table(name)) == [V2_SCAN]
    gate(False)
    assert scans(spark.table(name)) == [V1_SCAN]
    gate(None)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{GATE}' = 'false')")
    assert scans(spark.table(name)) == [V1_SCAN]


def test_an_option_on_a_catalog_read_does_not_leak_into_the_next(spark: Any, name: str) -> None:
    spark.sql(f"REFRESH TABLE {name}")
    assert scans(spark.read.option(GATE, "true").table(name)) == [V2_SCAN]
    assert scans(spark.table(name)) == [V1_SCAN]


@pytest.mark.parametrize("closed", [False, None], ids=["false", "unset"])
def test_turning_the_gate_reaches_frames_and_relations_made_before(
    spark: Any, name: str, hudi_table: Callable[..., HudiFixture], gate: Gate, closed: bool | None
) -> None:
    before = by_path(spark, hudi_table("cow"))
    gate(True)
    during = by_path(spark, hudi_table("cow"))
    assert scans(before.select("id")) == scans(during.select("id")) == scans(spark.table(name)) == [V2_SCAN]
    gate(closed)
    assert scans(before.select("name")) == scans(during.select("name")) == scans(spark.table(name)) == [V1_SCAN]


def test_with_the_gate_closed_plans_are_hudis_own(spark: Any, name: str, gate: Gate) -> None:
    query = f"SELECT region, count(*) FROM {name} WHERE region = 'r1' AND id > 3 GROUP BY region"
    gate(False)
    ours = spark.sql(query)._jdf.queryExecution().optimizedPlan()
    spark.conf.set("spark.sql.optimizer.excludedRules", RULE)
    try:
        without_rule = spark.sql(query)._jdf.queryExecution().optimizedPlan()
    finally:
        spark.conf.unset("spark.sql.optimizer.excludedRules")
    assert ours.sameResult(without_rule)
    assert "RelationV2" not in ours.toString()


def test_a_value_that_is_no_boolean_is_named(spark: Any, hudi_table: Callable[..., HudiFixture]) -> None:
    with pytest.raises(Exception, match=rf"{GATE} is 'perhaps' by an option of this read; set it to true or false"):
        by_path(spark, hudi_table("cow"), **{GATE: "perhaps"}).collect()


def test_read_paths_says_who_decided(spark: Any, name: str, hudi_table: Callable[..., HudiFixture], gate: Gate) -> None:
    gate(True)
    joined = spark.table(name).join(by_path(spark, hudi_table("cow"), **{GATE: "false"}), "id")
    by_name, by_option = read_paths(joined)
    assert (by_name.uses_v2, by_name.reason) == (True, f"{GATE} is true by the session")
    assert (by_option.uses_v2, by_option.reason) == (False, f"{GATE} is false by an option of this read")
    assert by_name.table.endswith(name)
    assert "V2 (BatchScan)" in str(by_name)
