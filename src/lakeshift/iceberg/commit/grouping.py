"""Files and manifest entries by partition spec: a manifest holds files of one spec only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from pyiceberg.manifest import DataFile, ManifestEntry

_T = TypeVar("_T")


def group_files_by_spec(files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
    """Files by spec id, in the order of the ids; a file without one is of a v1 table and counts as spec 0."""
    return _grouped(files, spec_id_of)


def group_entries_by_spec(entries: Iterable[ManifestEntry]) -> dict[int, list[ManifestEntry]]:
    """Manifest entries by the spec id of their file, in the order of the ids."""
    return _grouped(entries, lambda entry: spec_id_of(entry.data_file))


def spec_id_of(file: DataFile) -> int:
    """The spec a file was written for: 0 if it does not say."""
    pinned = pinned_spec_id(file)
    return 0 if pinned is None else pinned


def pinned_spec_id(file: DataFile) -> int | None:
    """The spec id that a file carries, None if nobody has set one."""
    # PyIceberg declares the attribute without a value: reading an unset one raises.
    return getattr(file, "_spec_id", None)


def _grouped(items: Iterable[_T], key: Callable[[_T], int]) -> dict[int, list[_T]]:
    groups: dict[int, list[_T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return {spec_id: groups[spec_id] for spec_id in sorted(groups)}
