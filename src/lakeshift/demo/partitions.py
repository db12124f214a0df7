"""Chapter: an Iceberg table is created and evolved twice, and its files are counted on Spark's executors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from lakeshift.demo.story import Stage
from lakeshift.kernel import Attempt, new_operation_id
from lakeshift.spark.jobs import run_tasks

ROWS = 200


@dataclass(frozen=True)
class CountedFile:
    spec_id: int
    rows: int


def count_rows(task: tuple[int, str], _: Attempt, io: FileIO) -> Iterable[CountedFile]:
    """Count the rows of one data file from its footer, on an executor."""
    spec_id, location = task
    with io.new_input(location).open() as stream:
        yield CountedFile(spec_id, pq.read_metadata(stream).num_rows)


def evolve_partitions(stage: Stage) -> None:
    lake = stage.lake
    trips = lake.create_iceberg_table(
        "demo.trips", "id bigint, started timestamp, city string, distance double", partition_by=["month(started)"]
    )
    trips.table.append(_trips(0))
    stage.say(f"created demo.trips by month(started) and put {ROWS} rows into it")

    trips.evolve_partitions(add=["city"])
    trips.table.append(_trips(1))
    stage.say(f"added city to its partitioning; {ROWS} more rows")

    trips.evolve_partitions(drop=["month(started)"], add=["day(started)"])
    trips.table.append(_trips(2))
    stage.say(f"replaced month(started) by day(started); {ROWS} more rows")

    layout = trips.layout()
    stage.show(
        ["Spec", "Partitioned by", "Data files", "Rows"],
        [[spec.spec_id, ", ".join(spec.fields), spec.data_files, spec.rows] for spec in layout],
    )

    files = trips.table.inspect.data_files().select(["spec_id", "file_path"]).to_pylist()
    reports = run_tasks(
        lake.spark,
        partial(count_rows, io=trips.table.io),
        [(file["spec_id"], file["file_path"]) for file in files],
        CountedFile,
        operation_id=new_operation_id(),
        title="Count the rows of demo.trips",
        names=[file["file_path"] for file in files],
    )
    counted: dict[int, int] = {}
    for report in reports:
        for record in report.records:
            counted[record.spec_id] = counted.get(record.spec_id, 0) + record.rows
    stage.check(
        f"rows by spec, counted in {len(reports)} files on executors",
        dict(sorted(counted.items())),
        {spec.spec_id: spec.rows for spec in layout},
    )
    stage.check("rows that PyIceberg scans", trips.table.scan().count(), 3 * ROWS)


def _trips(part: int) -> pa.Table:
    start = datetime(2026, 1, 30, tzinfo=UTC)
    numbers = range(part * ROWS, (part + 1) * ROWS)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "started": pa.array(
                [start + timedelta(minutes=37 * (n % ROWS)) for n in numbers], pa.timestamp("us", "UTC")
            ),
            "city": pa.array([("Oslo", "Lima", "Pune")[n % 3] for n in numbers]),
            "distance": pa.array([n % 17 / 2 for n in numbers], pa.float64()),
        }
    )
