"""The chapters in order, and what each is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lakeshift.errors import LakeshiftError

if TYPE_CHECKING:
    from lakeshift.lake import Lake


@dataclass(frozen=True)
class Stage:
    """Where a chapter plays: an empty folder, a lake in it, and a way to speak and to show a table."""

    folder: Path
    lake: Lake
    say: Callable[[str], None]
    show: Callable[[list[str], list[list[object]]], None]

    def check(self, what: str, found: object, expected: object) -> None:
        """Compare what lakeshift did with an independent read; a difference ends the tour."""
        if found != expected:
            raise LakeshiftError(f"The demo's check failed: {what}: found {found!r}, expected {expected!r}.")
        self.say(f"checked: {what} = {found}")


Chapter: TypeAlias = Callable[[Stage], None]


def chapters(formats: Sequence[str]) -> list[tuple[str, Chapter]]:
    """Title and function of every chapter that a stack with these formats can play."""
    from lakeshift.demo.compaction import compact
    from lakeshift.demo.deletion_request import delete_a_customer
    from lakeshift.demo.delta_schema import evolve_delta_schema
    from lakeshift.demo.hudi import read_hudi
    from lakeshift.demo.partitions import evolve_partitions

    told: list[tuple[str, Chapter]] = [
        ("A Delta table whose schema grows when asked to", evolve_delta_schema),
        ("An Iceberg table whose partitioning changes", evolve_partitions),
        ("A deletion request over three partition specs", delete_a_customer),
        ("Small files of two specs, compacted", compact),
    ]
    return [("A Hudi table read through DataSource V2", read_hudi), *told] if "hudi" in formats else told
