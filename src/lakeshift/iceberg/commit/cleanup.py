"""Removing the files of a commit that did not happen, or of an attempt that another one replaced."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.io import FileIO

logger = logging.getLogger(__name__)

_THREADS = 16


def remove_files(io: FileIO, locations: Iterable[str]) -> list[str]:
    """Remove files, and return those that could not be removed; a file that is not there is no failure.

    A failure here never hides the error that led to it: it is logged, and the file is an orphan.
    """
    names = list(dict.fromkeys(locations))
    if not names:
        return []
    with ThreadPoolExecutor(min(_THREADS, len(names)), thread_name_prefix="lakeshift-cleanup") as pool:
        removed = list(pool.map(lambda name: _remove(io, name), names))
    return [name for name, done in zip(names, removed, strict=True) if not done]


def _remove(io: FileIO, location: str) -> bool:
    try:
        io.delete(location)
    except FileNotFoundError:
        return True
    except Exception as error:  # every file system has errors of its own
        logger.warning("Could not remove %s: %s. It is an orphan now.", location, error)
        return False
    return True
