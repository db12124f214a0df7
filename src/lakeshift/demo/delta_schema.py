"""Chapter: a Delta table gains a column, widens a type, and refuses what does not fit."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from lakeshift.delta.open_table import TypeWideningWarning
from lakeshift.delta.sink import DeltaSink
from lakeshift.demo.story import Stage
from lakeshift.errors import SchemaMismatchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def evolve_delta_schema(stage: Stage) -> None:
    spark, table = stage.lake.spark, stage.folder / "lakehouse" / "orders"
    first = spark.sql("SELECT id, cast(id AS short) AS amount FROM range(100)")
    with_city = spark.sql("SELECT id + 100 AS id, cast(id AS short) AS amount, 'Oslo' AS city FROM range(50)")
    wider = spark.sql("SELECT id + 150 AS id, cast(40000 + id AS int) AS amount, 'Lima' AS city FROM range(50)")
    broken = spark.sql("SELECT id, 'a lot' AS amount, null AS note FROM range(10)")

    with DeltaSink(spark, table) as frozen:
        frozen.write_batch(first)
        stage.say("created the Delta table orders with 100 rows; the sink is frozen unless asked")
        _refused(stage, frozen, with_city)

    with DeltaSink(spark, table, {"columns": "evolve"}) as sink:
        for line in sink.explain(with_city).lines():
            stage.say(line)
        result = sink.write_batch(with_city)
    stage.say(f"version {result.version}: the column and {result.rows_written} rows came in one commit")

    with DeltaSink(spark, table, True, enable_type_widening=True) as sink, warnings.catch_warnings():
        warnings.simplefilter("ignore", TypeWideningWarning)  # the plan has said it
        for line in sink.explain(wider).lines():
            stage.say(line)
        result = sink.write_batch(wider)
        stage.say(f"version {result.version}: amount is now an int, and no old file was rewritten")
        _refused(stage, sink, broken)

    rows = spark.read.format("delta").load(str(table))
    stage.check("rows in orders", rows.count(), 200)
    stage.check("old rows without a city", rows.where("city IS NULL").count(), 100)
    stage.check("largest amount", rows.selectExpr("max(amount)").collect()[0][0], 40049)
    actions = [json.loads(line) for file in _log(table) for line in file.read_text().splitlines()]
    stage.check("files removed from the log", sum("remove" in action for action in actions), 0)


def _refused(stage: Stage, sink: DeltaSink, batch: DataFrame) -> None:
    try:
        sink.write_batch(batch)
    except SchemaMismatchError as error:
        for line in str(error).splitlines():
            stage.say(line)
        return
    stage.check("batches that were refused", 0, 1)


def _log(table: Path) -> list[Path]:
    return sorted((table / "_delta_log").glob("*.json"))
