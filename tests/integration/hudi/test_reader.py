"""``HudiTable``: by path and by name, its errors, and what it says about its reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeshift.errors import ConfigError
from lakeshift.hudi.reader import GATE, HudiTable
from tests.integration.hudi.plans import V2_SCAN, scans
from tests.integration.hudi.tables import ROWS, HudiFixture


def test_a_name_and_a_path_read_the_same_table(spark: Any, hudi_table: Callable[..., HudiFixture]) -> None:
    table = hudi_table("cow")
    spark.sql(f"CREATE TABLE named USING hudi LOCATION '{table.path}'")
    try:
        by_name = HudiTable(spark, "named").read()
        assert scans(by_name) == [V2_SCAN]
        assert by_name.count() == HudiTable(spark, table.path).read().count() == ROWS
        # By name as well, each read has its own options, whatever the catalog has cached.
        assert HudiTable(spark, "default.named").read(as_of=table.first_commit).where("name LIKE 'ch%'").count() == 0
        assert HudiTable(spark, "named").read().where("name LIKE 'ch%'").count() == 40
    finally:
        spark.sql("DROP TABLE named")


@pytest.mark.parametrize("nothing", ["", "  ", None])
def test_without_path_or_name_it_says_so(spark: Any, nothing: Any) -> None:
    with pytest.raises(ConfigError, match="needs a path or a table name"):
        HudiTable(spark, nothing)


def test_a_load_without_path_says_so_with_the_gate_too(spark: Any) -> None:
    with pytest.raises(Exception, match="'path'.* must be specified"):
        spark.read.format("hudi").option(GATE, "true").load()


def test_a_path_without_a_table_is_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is no Hudi table: there is no \.hoodie/hoodie\.properties"):
        HudiTable(spark, str(tmp_path))
    with pytest.raises(ConfigError, match="no table of that name"):
        HudiTable(spark, "nowhere")


def test_a_table_of_another_format_is_refused(spark: Any) -> None:
    spark.sql("CREATE TABLE plain (id INT) USING parquet")
    try:
        with pytest.raises(ConfigError, match="plain is parquet, not hudi"):
            HudiTable(spark, "plain")
    finally:
        spark.sql("DROP TABLE plain")


def test_explain_takes_the_arguments_of_read(spark: Any, hudi_table: Callable[..., HudiFixture]) -> None:
    table = hudi_table("mor_logs")
    reader = HudiTable(spark, table.path)
    assert reader.explain().to_dict() == {
        "table": table.path,
        "uses_v2": True,
        "reason": f"{GATE} is true by an option of this read",
    }
    assert reader.explain(read_optimized=True).uses_v2
    assert reader.explain(incremental_from=table.first_completion).uses_v2
    assert not reader.explain(dsv2=False).uses_v2


def test_further_options_reach_hudi(spark: Any, hudi_table: Callable[..., HudiFixture]) -> None:
    table = hudi_table("mor_logs")
    same = HudiTable(spark, table.path).read(options={"hoodie.datasource.query.type": "snapshot"})
    assert same.where("name LIKE 'changed%'").count() == 40
