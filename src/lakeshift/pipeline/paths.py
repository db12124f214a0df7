"""Paths of the pipeline file. Nothing else comes in here."""

from __future__ import annotations

import re
from pathlib import Path

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")


def resolve(base: Path, place: str) -> str:
    """A path of the pipeline file: relative ones are relative to the file's folder."""
    return place if _SCHEME.match(place) else str(base / place)
