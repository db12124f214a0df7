"""Chapter: an Iceberg table is written under each of its specs while its partitioning changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from lakeshift.demo.story import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 200


def evolve_partitions(stage: Stage) -> None:
    lake = stage.lake
    trips = lake.create_iceberg_table(
        "demo.trips",
        "id bigint not null, started timestamp, city string, distance double",
        partition_by=["month(started)"],
    )
    trips.append(_trips(stage, 0))
    stage.say(f"created demo.trips by month(started) and appended {ROWS} rows")

    trips.evolve_partitions(add=["city"])
    trips.append(_trips(stage, 1))
    stage.say(f"added city to its partitioning; {ROWS} more rows")

    trips.evolve_partitions(drop=["month(started)"], add=["day(started)"])
    trips.append(_trips(stage, 2))
    stage.say(f"replaced month(started) by day(started); {ROWS} more rows")

    trips.append(_trips(stage, 3), spec_id=0)
    stage.say(f"{ROWS} more rows under the first spec, which still can be written")

    bad = _trips(stage, 4).selectExpr("IF(id % 50 = 0, NULL, id) AS id", "started", "city", "distance")
    quarantine = stage.folder / "quarantine"
    result = trips.append(bad, on_bad_rows="quarantine", quarantine=quarantine)
    stage.say(f"{ROWS} more, {result.rows_quarantined} of them without an id: these wait in {quarantine}")

    layout = trips.layout()
    stage.show(
        ["Spec", "Partitioned by", "Data files", "Rows"],
        [[spec.spec_id, ", ".join(spec.fields), spec.data_files, spec.rows] for spec in layout],
    )
    stage.check("rows that PyIceberg scans", trips.table.scan().count(), sum(spec.rows for spec in layout))
    stage.check("rows in quarantine", pq.read_table(quarantine).num_rows, result.rows_quarantined)
    where = "city = 'Oslo' AND started < TIMESTAMP '2026-02-01'"
    stage.check(
        f"rows where {where}, read on executors and by PyIceberg",
        trips.read(columns=["id"], where=where).count(),
        trips.table.scan("city = 'Oslo' and started < '2026-02-01T00:00:00+00:00'").count(),
    )


def _trips(stage: Stage, part: int) -> DataFrame:
    numbers = stage.lake.spark.range(part * ROWS, (part + 1) * ROWS, 1, 2)
    return numbers.selectExpr(
        "id",
        f"TIMESTAMP '2026-01-30 00:00:00' + make_interval(0, 0, 0, 0, 0, 37 * (id % {ROWS})) AS started",
        "element_at(array('Oslo', 'Lima', 'Pune'), CAST(id % 3 AS INT) + 1) AS city",
        "id % 17 / 2 AS distance",
    )
