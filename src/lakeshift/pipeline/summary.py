"""What a step did, as one line for people: the few facts that tell most. No Spark here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COUNTS = {
    "rows_written": ("row", "written"),
    "rows_deleted": ("row", "deleted"),
    "rows_quarantined": ("row", "quarantined"),
    "rewritten_data_files": ("file", "rewritten"),
    "added_data_files": ("file", "added"),
    "removed_delete_files": ("delete file", "removed"),
}
_MARKS = {"snapshot_id": "snapshot", "version": "version", "instant": "instant"}


def count(number: int, thing: str) -> str:
    """So many of a thing, as people say it."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def summarize(details: Mapping[str, Any]) -> str:
    """The details of a step's result, or of its record, in a line."""
    told = []
    for key, (thing, done) in _COUNTS.items():
        if number := details.get(key):
            told.append(f"{count(number, thing)} {done}")
    if details.get("evolved"):
        told.append("schema changed")
    told += [f"{word} {details[key]}" for key, word in _MARKS.items() if details.get(key) is not None]
    return ", ".join(told) or "nothing to do"
