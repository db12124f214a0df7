"""Files opened for reading: local ones mapped into memory, others through the table's FileIO."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO

from lakeshift.locations import canonical_location


@contextmanager
def opened(location: str, io: FileIO) -> Iterator[Any]:
    """An open file that pyarrow can read from."""
    path = canonical_location(location)
    # A FileIO opens the same file, but takes longer about it than a small file takes to read.
    with pa.memory_map(path) if path.startswith("/") else io.new_input(location).open() as source:
        yield source
