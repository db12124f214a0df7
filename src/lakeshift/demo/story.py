"""The chapters in order, and what each is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lakeshift.errors import LakeshiftError

if TYPE_CHECKING:
    from lakeshift.lake import Lake


@dataclass(frozen=True)
class Stage:
    """Where a chapter plays: a folder with the pipeline files, a lake in it, and a way to speak and to show a table."""

    folder: Path
    lake: Lake
    say: Callable[[str], None]
    show: Callable[[list[str], list[list[object]]], None]

    def check(self, what: str, found: object, expected: object) -> None:
        """Compare what lakeshift did with an independent read; a difference ends the tour."""
        if found != expected:
            raise LakeshiftError(f"The demo's check failed: {what}: found {found!r}, expected {expected!r}.")
        self.say(f"checked: {what} = {found}")

    def check_rows(self, what: str, found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> None:
        """The same for values by key, of which only the number is told."""
        wrong = [key for key in {*found, *expected} if key not in found or found[key] != expected.get(key)]
        if wrong:
            raise LakeshiftError(f"The demo's check failed: {what}: {len(wrong)} differ, among them {wrong[0]!r}.")
        self.say(f"checked: {what}: all {len(expected)} as they were delivered")


Chapter: TypeAlias = Callable[[Stage], None]


def chapters(formats: Sequence[str]) -> list[tuple[str, Chapter]]:
    """Title and function of every chapter that a stack with these formats can play."""
    from lakeshift.demo import arrival, deletion_request, landing, layout, refunds

    arrivals: tuple[str, Chapter] = (
        ("Trips arrive in two Hudi tables", arrival.arrive)
        if "hudi" in formats
        else ("Trips arrive as files: this Spark has no Hudi", arrival.arrive_as_files)
    )
    return [
        arrivals,
        ("They land in Delta and are merged into an Iceberg table", landing.first_day),
        ("The next day has a new column, and the Iceberg table other partitions", landing.second_day),
        ("The day after needs a wider type, and the partitions change again", landing.third_day),
        ("Changes that are refused", landing.refused),
        ("Refunds, appended under an old and a new partitioning", refunds.append_refunds),
        ("A deletion request", deletion_request.forget_a_rider),
        ("Compaction, and a part of the table moved to its newest partitions", layout.tidy),
        ("The report", layout.report),
    ]
