"""Chapter: a rider asks to be forgotten, in a table that has rows under three partition specs."""

from __future__ import annotations

from lakeshift.demo.deliveries import DELIVERIES, RIDERS, fares_after
from lakeshift.demo.story import Stage

RIDER = 7


def fares_left() -> dict[int, float]:
    """The fares of everybody else."""
    return {trip: fare for trip, fare in fares_after(DELIVERIES[-1].day).items() if trip % RIDERS != RIDER}


def forget_a_rider(stage: Stage) -> None:
    trips = stage.lake.iceberg("demo.trips")
    result = trips.delete(f"rider = 'r{RIDER}'", mode="merge-on-read")
    stage.show(
        ["Spec", "Delete files added"],
        [[spec_id, found.added_delete_files] for spec_id, found in sorted(result.by_spec.items())],
    )
    stage.say(f"deleted {result.rows_deleted} trips of rider r{RIDER} in one commit, each marked under its own spec")
    rows = trips.table.refresh().scan(selected_fields=("id", "rider", "fare")).to_arrow().to_pylist()
    stage.check("trips of that rider that PyIceberg still finds", sum(r["rider"] == f"r{RIDER}" for r in rows), 0)
    stage.check_rows("fares of everybody else", {row["id"]: row["fare"] for row in rows}, fares_left())
