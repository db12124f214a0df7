"""A report from a table to a file: facts, advice, page."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from lakeshift.errors import ConfigError
from lakeshift.report.advice import Advisor, Step
from lakeshift.report.facts import TableFacts, gather_facts
from lakeshift.report.page import render_page


@dataclass(frozen=True)
class Report:
    """What a report says: the facts, and what to do next."""

    facts: TableFacts
    steps: tuple[Step, ...]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values that JSON can hold."""
        return {**self.facts.to_dict(), "next_steps": [step.to_dict() for step in self.steps]}

    def page(self) -> str:
        """The report as one HTML page."""
        return render_page(self.facts, self.steps)

    def write(self, path: str | Path) -> Path:
        """Write the page to a file, whole or not at all; one that is there is replaced."""
        return write_page(self.page(), path)


def make_report(
    name: str, table: Table, *, branch: str | None = None, snapshot_id: int | None = None, arguments: Sequence[str] = ()
) -> Report:
    """The report of a table as it is loaded. ``arguments`` are added to commands, to say which lake they are for."""
    facts = gather_facts(name, table.metadata, table.io, branch=branch, snapshot_id=snapshot_id)
    return Report(facts, Advisor(facts, table.metadata, table.io, tuple(arguments)).steps())


def check_path(path: str | Path) -> Path:
    """Where a page can be written to; else an error, before the table is read."""
    target = Path(path)
    if target.is_dir():
        raise ConfigError(f"{target} is a folder; name the file that the report should be, such as report.html in it.")
    if target.exists() and not target.is_file():
        # A page takes the place of what is there; of /dev/stdout or a pipe it must not.
        raise ConfigError(f"{target} is not a file that a report could replace; name one, such as report.html.")
    if not target.parent.is_dir():
        raise ConfigError(f"There is no folder {target.parent} for the report {target.name}; create it first.")
    return target


def write_page(page: str, path: str | Path) -> Path:
    target = check_path(path)
    # A half of a lone surrogate pair, which a hostile name may hold, cannot be written as UTF-8.
    data = page.encode("utf-8", "xmlcharrefreplace")
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:50]}.", dir=target.parent)
    except OSError as error:
        raise ConfigError(
            f"The report cannot be written to {target}: {error.strerror}. Check who may write to {target.parent}."
        ) from error
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)  # temporary files are for their owner's eyes only
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target
