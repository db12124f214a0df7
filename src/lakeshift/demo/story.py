"""The chapters in order, and what each is given."""

from __future__ import annotations

from collections.abc import Callable
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


def chapters() -> list[tuple[str, Chapter]]:
    """Title and function of every chapter."""
    from lakeshift.demo.partitions import evolve_partitions

    return [("A table whose partitioning changes", evolve_partitions)]
