"""Chapter: rows appended under the old and the new partitioning of a table, and a bad one set aside."""

from __future__ import annotations

import pyarrow.parquet as pq

from lakeshift.demo.story import Stage


def append_refunds(stage: Stage) -> None:
    refunds = stage.lake.create_iceberg_table(
        "demo.refunds", "trip bigint not null, city string, amount double", ["city"]
    )
    refunds.evolve_partitions(add=["bucket(4, trip)"])
    spark = stage.lake.spark
    old = spark.range(0, 40, 1, 2).selectExpr("id AS trip", "concat('c', id % 2) AS city", "0.5D * id AS amount")
    # One of the new ones came without the trip that it is for.
    new = spark.range(40, 80, 1, 2).selectExpr(
        "nullif(id, 60) AS trip", "concat('c', id % 2) AS city", "0.5D * id AS amount"
    )
    late = refunds.append(old, spec_id=0)
    aside = stage.folder / "refunds-to-look-at"
    today = refunds.append(new, on_bad_rows="quarantine", quarantine=aside)
    stage.show(
        ["Appended", "Spec", "Rows", "Set aside"],
        [
            ["refunds that came late", ", ".join(map(str, late.by_spec)), late.rows_written, late.rows_quarantined],
            ["today's", ", ".join(map(str, today.by_spec)), today.rows_written, today.rows_quarantined],
        ],
    )
    stage.say(f"late refunds went under spec 0 by choice, today's under the newest; one without a trip is in {aside}")
    found = refunds.table.refresh().scan().to_arrow().to_pylist()
    amounts = {trip: 0.5 * trip for trip in range(80) if trip != 60}
    stage.check_rows("refunds that PyIceberg reads", {row["trip"]: row["amount"] for row in found}, amounts)
    stage.check("the amount set aside", pq.read_table(aside).column("amount").to_pylist(), [30.0])
