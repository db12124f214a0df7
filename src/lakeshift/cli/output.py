"""How results are shown: tables and colour on a terminal, tab-separated when piped, JSON when asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lakeshift.cli.options import settings

console = Console(highlight=False, soft_wrap=True)


def emit(data: Any, show: Callable[[], None]) -> None:
    """Print ``data`` as JSON where that was asked for; otherwise let ``show`` print it for people."""
    if settings.json:
        sys.stdout.write(json.dumps(data, indent=2, default=str) + "\n")
    else:
        show()


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Rows as a table on a terminal, as tab-separated lines under a header when piped."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        for line in [[column.lower() for column in columns], *texts]:
            # A tab or a line end inside a value would be read as another cell or row.
            sys.stdout.write("\t".join(cell.encode("unicode_escape").decode() for cell in line) + "\n")
        return
    table = Table(title=escape(title) or None, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in texts:
        table.add_row(*(escape(cell) for cell in line))
    console.print(table)


def say(text: str, style: str = "") -> None:
    """One line for people: plain when piped."""
    console.print(escape(text), style=style or None)
