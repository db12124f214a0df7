"""File locations as they should be compared: engines spell the same place in different ways.

Iceberg Java writes ``file:/lake/x``, PyIceberg ``file:///lake/x``; Hadoop says ``s3a://`` where others
say ``s3://``. A location that is *stored* is always copied verbatim; only comparisons use this form.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

_SAME_STORE = {"s3a": "s3", "s3n": "s3"}
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(/*)(.*)$", re.DOTALL)


def canonical_location(location: str) -> str:
    """The one spelling under which two names of the same place are equal."""
    match = _SCHEME.match(location)
    if match is None:
        return location
    scheme, _, rest = match.groups()
    scheme = scheme.lower()
    if scheme == "file":
        return "/" + rest
    return f"{_SAME_STORE.get(scheme, scheme)}://{rest}"


def absolute_location(place: str | Path) -> str:
    """A location that means the same on every machine that shares the storage: a path from here becomes absolute."""
    text = str(place)
    return text if _SCHEME.match(text) else Path(text).absolute().as_posix()


def canonical_locations(locations: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """`canonical_location` of many at once."""
    schemes = pc.struct_field(pc.extract_regex(locations, r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):"), ["scheme"])
    for scheme in pc.unique(schemes).to_pylist():
        if scheme is not None:
            prefix = canonical_location(f"{scheme}:")
            locations = pc.replace_substring_regex(locations, f"^{re.escape(scheme)}:/*", prefix)
    return locations
