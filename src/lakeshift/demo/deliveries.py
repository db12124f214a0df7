"""The story's trips: what arrives on each day, and what every table should hold after it. No Spark here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

CITIES = ("Oslo", "Lima", "Pune", "Kyoto")
RIDERS = 40


@dataclass(frozen=True)
class Delivery:
    """One day's files: trips that are new, and fares that are new or have changed."""

    day: str
    trips: tuple[dict[str, Any], ...]
    fares: tuple[dict[str, Any], ...]

    def write(self, folder: Path) -> None:
        """Put the files where ``arrive.yaml`` looks for them."""
        target = folder / "in" / self.day
        target.mkdir(parents=True)
        for name, rows in (("trips", self.trips), ("fares", self.fares)):
            (target / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _trip(number: int, started: datetime, meters: int) -> dict[str, Any]:
    return {
        "id": number,
        "rider": f"r{number % RIDERS}",
        "city": CITIES[number % len(CITIES)],
        "started_at": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "meters": meters,
    }


def _january() -> Delivery:
    """All trips of five weeks; their meters fit a smallint."""
    first = datetime(2026, 1, 5, tzinfo=UTC)
    day = "2026-02-10"
    trips = tuple(_trip(n, first + timedelta(hours=2.4 * n), 500 + 7919 * n % 30_000) for n in range(360))
    fares = tuple({"trip": trip["id"], "fare": trip["meters"] / 500, "changed_on": day} for trip in trips)
    return Delivery(day, trips, fares)


def _with_tips() -> Delivery:
    """One more day of trips, corrected fares of older ones, and a column that is new."""
    first = datetime(2026, 2, 10, tzinfo=UTC)
    day = "2026-02-11"
    trips = tuple(_trip(n, first + timedelta(minutes=12 * (n - 360)), 500 + 7919 * n % 30_000) for n in range(360, 480))
    fares = [{"trip": trip["id"], "fare": trip["meters"] / 500, "tip": 1.5, "changed_on": day} for trip in trips]
    fares += [{"trip": n, "fare": 5.0, "tip": 0.5, "changed_on": day} for n in range(0, 360, 9)]
    return Delivery(day, trips, tuple(fares))


def _long_trips() -> Delivery:
    """Trips whose meters do not fit a smallint, and corrected fares again."""
    first = datetime(2026, 2, 11, tzinfo=UTC)
    day = "2026-02-12"
    trips = tuple(_trip(n, first + timedelta(minutes=12 * (n - 480)), 33_000 + 40 * n) for n in range(480, 600))
    fares = [{"trip": trip["id"], "fare": trip["meters"] / 500, "tip": 2.0, "changed_on": day} for trip in trips]
    fares += [{"trip": n, "fare": 7.0, "tip": 0.0, "changed_on": day} for n in range(360, 480, 6)]
    return Delivery(day, trips, tuple(fares))


DELIVERIES = (_january(), _with_tips(), _long_trips())


def fares_after(day: str) -> dict[int, float]:
    """The fare of every trip once the deliveries up to a day are in."""
    return {row["trip"]: row["fare"] for delivery in _until(day) for row in delivery.fares}


def meters_landed(day: str) -> list[int]:
    """The meters of every row that has landed by then: a trip lands again whenever its fare changes."""
    meters = {trip["id"]: trip["meters"] for delivery in _until(day) for trip in delivery.trips}
    return sorted(meters[row["trip"]] for delivery in _until(day) for row in delivery.fares)


def _until(day: str) -> list[Delivery]:
    return [delivery for delivery in DELIVERIES if delivery.day <= day]
