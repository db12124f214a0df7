"""Chapter: trips arrive in two Hudi tables, copy-on-write and merge-on-read, and are read through DataSource V2."""

from __future__ import annotations

from lakeshift.demo.deliveries import DELIVERIES, fares_after
from lakeshift.demo.pipelines import mend, run
from lakeshift.demo.story import Stage

# What land.yaml reads where there is no Hudi.
_HUDI_INPUTS = """\
  trips: {format: hudi, path: hudi/trips}
  fares: {format: hudi, path: hudi/fares}
"""
_FILE_INPUTS = """\
  trips:
    {format: json, path: in/*/trips.json,
     schema: "id bigint, rider string, city string, started_at timestamp, meters int"}
  fares: {format: json, path: in/*/fares.json}
"""


def arrive(stage: Stage) -> None:
    arrive_in_hudi(stage, 0)


def arrive_in_hudi(stage: Stage, number: int) -> None:
    """One day's files into the two tables; then both are read on both paths."""
    delivery = DELIVERIES[number]
    delivery.write(stage.folder)
    stage.say(f"{len(delivery.trips)} trips and {len(delivery.fares)} fares came on {delivery.day}")
    run(stage, "arrive", delivery.day)
    hudi = {name: stage.lake.hudi(stage.folder / "hudi" / name) for name in ("trips", "fares")}
    if number == 0:
        for table in hudi.values():
            stage.say(str(table.explain()))
    else:
        logs = [file for file in (stage.folder / "hudi" / "fares").glob(".*.log.*") if file.suffix != ".crc"]
        stage.say(
            f"hudi/fares has {len(logs)} {'log file' if len(logs) == 1 else 'log files'} now, which a read merges"
        )
    expected = fares_after(delivery.day)
    v2, v1 = ({row["trip"]: row["fare"] for row in hudi["fares"].read(dsv2=dsv2).collect()} for dsv2 in (True, False))
    stage.check_rows("fares read through DataSource V2", v2, expected)
    stage.check_rows("fares read through Hudi's own source", v1, expected)
    stage.check("trips read through DataSource V2", hudi["trips"].read().count(), len(expected))


def arrive_as_files(stage: Stage) -> None:
    """Without Hudi the files are read as they are."""
    mend(stage, "land", _HUDI_INPUTS, _FILE_INPUTS)
    files_arrive(stage, 0)


def files_arrive(stage: Stage, number: int) -> None:
    delivery = DELIVERIES[number]
    delivery.write(stage.folder)
    lines = sum(len(file.read_text().splitlines()) for file in stage.folder.glob("in/*/trips.json"))
    stage.check("trips in files", lines, len(fares_after(delivery.day)))


def next_arrival(stage: Stage, number: int) -> None:
    """The next day's files, where this stack takes them."""
    if "hudi" in stage.lake.stack.available_formats():
        arrive_in_hudi(stage, number)
    else:
        files_arrive(stage, number)
