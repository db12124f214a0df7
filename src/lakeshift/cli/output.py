"""How results are shown: tables and colour on a terminal, tab-separated when piped, JSON when asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from lakeshift.cli.options import settings

if TYPE_CHECKING:
    from rich.console import Console


def on_terminal() -> bool:
    """Whether people look at the output; else it is piped, and plain."""
    return sys.stdout.isatty()


@cache
def console() -> Console:
    """Where people are drawn to; made only on a terminal, since a pipe needs nothing of it."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> NoReturn:
            raise BrokenPipeError  # The command ends in one way, whoever noticed.

    return Terminal(highlight=False, soft_wrap=True)


def emit(data: Any, show: Callable[[], None]) -> None:
    """Print ``data`` as JSON where that was asked for; otherwise let ``show`` print it for people."""
    if settings.json:
        sys.stdout.write(json.dumps(data, indent=2, default=str) + "\n")
    else:
        show()


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Rows as a table on a terminal, as tab-separated lines under a header when piped."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not on_terminal():
        for line in [[column.lower() for column in columns], *texts]:
            # A tab or a line end inside a value would begin another cell or row.
            sys.stdout.write("\t".join(visible(cell.replace("\\", "\\\\"), "") for cell in line) + "\n")
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(visible(title)) or None, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in texts:
        table.add_row(*(escape(visible(cell)) for cell in line))
    console().print(table)


def say(text: str, style: str = "") -> None:
    """One line for people: plain when piped."""
    if not on_terminal():
        sys.stdout.write(f"{text}\n")
        return
    from rich.markup import escape

    console().print(escape(visible(text)), style=style or None)


def visible(text: str, kept: str = "\n\t") -> str:
    """Text in which what cannot be seen is written as in Python, but for ``kept``.

    Names and values of tables are others' work: on a terminal they must not move the cursor or change its title.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode() for each in text
    )
