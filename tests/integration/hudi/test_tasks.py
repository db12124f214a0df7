"""How file groups are shared out to tasks: by what it costs to read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from lakeshift.hudi.reader import HudiTable
from tests.integration.hudi.tables import REGIONS, HudiFixture
from tests.integration.hudi.test_statistics import settings


def test_file_groups_that_need_merging_do_not_share_one_task(
    spark: Any, hudi_table: Callable[..., HudiFixture]
) -> None:
    """All files of the table fit into one task by their size, and do so on V1."""
    reader = HudiTable(spark, hudi_table("mor_logs").path)
    one_task = {"spark__sql__files__openCostInBytes": "0", "spark__sql__files__minPartitionNum": "1"}
    with settings(spark, **one_task):
        merging, by_size = (reader.read(dsv2=dsv2).select("id", "name") for dsv2 in (True, False))
        assert (_tasks(merging), _tasks(by_size)) == (REGIONS, 1)
        assert sorted(merging.collect()) == sorted(by_size.collect())
        assert _tasks(reader.read(read_optimized=True)) == 1, "nothing to merge: packed by size"
    with settings(spark, **one_task, spark__sql__files__maxPartitionNum="1"):
        assert _tasks(reader.read().select("id")) == 1, "the session still bounds the tasks"


def _tasks(df: DataFrame) -> int:
    return int(df._jdf.queryExecution().toRdd().getNumPartitions())
