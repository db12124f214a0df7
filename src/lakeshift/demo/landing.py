"""Chapters: trips land in Delta while their schema grows, and are merged into a repartitioned Iceberg table."""

from __future__ import annotations

import json

import pyarrow.parquet as pq

from lakeshift.demo.arrival import next_arrival
from lakeshift.demo.deliveries import DELIVERIES, fares_after, meters_landed
from lakeshift.demo.pipelines import mend, opened, run
from lakeshift.demo.story import Stage
from lakeshift.errors import SchemaMismatchError


def first_day(stage: Stage) -> None:
    _land(stage, 0)
    _check_landing(stage, 0, meters="short")
    _check_trips(stage, 0)


def second_day(stage: Stage) -> None:
    next_arrival(stage, 1)
    stage.lake.iceberg("demo.trips").evolve_partitions(drop=["day(started_at)"], add=["month(started_at)"])
    stage.say("demo.trips: a file a day is too small; from now on by month(started_at)")
    _plan(stage, 1)
    _land(stage, 1)
    _check_landing(stage, 1, meters="short", columns=("tip",))
    _check_trips(stage, 1)


def third_day(stage: Stage) -> None:
    next_arrival(stage, 2)
    stage.lake.iceberg("demo.trips").evolve_partitions(add=["city"])
    stage.say("demo.trips: from now on by month(started_at) and city")
    stage.say("the trips of this day are longer than a smallint can tell, so the landing's type is mended:")
    mend(stage, "land", "types: {meters: smallint}", "types: {meters: int}")
    _plan(stage, 2)
    _land(stage, 2)
    _check_landing(stage, 2, meters="integer", columns=("tip",))
    _check_trips(stage, 2)
    layout = stage.lake.iceberg("demo.trips").layout()
    stage.show(
        ["Spec", "Partitioned by", "Data files", "Rows"],
        [[spec.spec_id, ", ".join(spec.fields), spec.data_files, spec.rows] for spec in layout],
    )


def refused(stage: Stage) -> None:
    """Fares as text are refused everywhere; meters as bigint only where Delta cannot widen so far."""
    before = _commits(stage)
    mend(stage, "land", "types: {meters: int}", "types: {meters: bigint, fare: string}")
    stage.say(f"$ DAY={DELIVERIES[2].day} lakeshift run land.yaml")
    try:
        opened(stage, "land", DELIVERIES[2].day).run()
    except SchemaMismatchError as error:
        for line in str(error).splitlines():
            stage.say(line)
    else:
        stage.check("runs that were refused", 0, 1)
    mend(stage, "land", "types: {meters: bigint, fare: string}", "types: {meters: int}")
    stage.check("commits that the refused run made", _commits(stage) - before, 0)


def _land(stage: Stage, number: int) -> None:
    run(stage, "land", DELIVERIES[number].day)


def _plan(stage: Stage, number: int) -> None:
    """What the run that comes would do, as --plan shows it."""
    day = DELIVERIES[number].day
    stage.say(f"$ DAY={day} lakeshift run land.yaml --plan")
    for step in opened(stage, "land", day).plan().steps:
        for line in step["lines"]:
            stage.say(f"{step['step']}: {line}")


def _check_landing(stage: Stage, number: int, *, meters: str, columns: tuple[str, ...] = ()) -> None:
    """Read the Delta table by its log and its Parquet files alone, without Delta."""
    table = stage.folder / "lakehouse" / "landing"
    log = sorted((table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for file in log for line in file.read_text(encoding="utf-8").splitlines()]
    schema = json.loads([action["metaData"] for action in actions if "metaData" in action][-1]["schemaString"])
    types = {field["name"]: field["type"] for field in schema["fields"]}
    stage.check("type of meters in the Delta log", types["meters"], meters)
    for column in columns:
        stage.check(f"column {column} in the Delta log", column in types, True)
    stage.check("files that schema changes rewrote", sum("remove" in action for action in actions), 0)
    files = [table / action["add"]["path"] for action in actions if "add" in action]
    found = sorted(value for file in files for value in pq.read_table(file, columns=["meters"])["meters"].to_pylist())
    day = DELIVERIES[number].day
    stage.check_rows("meters in its files", dict(enumerate(found)), dict(enumerate(meters_landed(day))))


def _check_trips(stage: Stage, number: int) -> None:
    rows = stage.lake.iceberg("demo.trips").table.scan(selected_fields=("id", "fare")).to_arrow().to_pylist()
    found = {row["id"]: row["fare"] for row in rows}
    stage.check("rows of demo.trips that PyIceberg reads", len(rows), len(found))
    stage.check_rows("fares of demo.trips that PyIceberg reads", found, fares_after(DELIVERIES[number].day))


def _commits(stage: Stage) -> int:
    """All versions of the Delta table and snapshots of the Iceberg table."""
    versions = (stage.folder / "lakehouse" / "landing" / "_delta_log").glob("*.json")
    return len(list(versions)) + len(stage.lake.iceberg("demo.trips").table.metadata.snapshots)
