"""Files and entries by spec: the first thing that must be right before a manifest is written."""

from __future__ import annotations

import pickle

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.typedef import Record

from lakeshift.iceberg.commit.grouping import group_entries_by_spec, group_files_by_spec


def file_of(spec_id: int | None, name: str = "f") -> DataFile:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file:///lake/{name}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=10,
    )
    if spec_id is not None:
        file.spec_id = spec_id
    return file


def entry_of(spec_id: int, name: str = "f") -> ManifestEntry:
    return ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=1, data_file=file_of(spec_id, name))


def test_group_files_by_spec_empty() -> None:
    assert group_files_by_spec([]) == {}


def test_group_files_by_spec_single_spec() -> None:
    groups = group_files_by_spec([file_of(0), file_of(0)])
    assert {spec_id: len(files) for spec_id, files in groups.items()} == {0: 2}


def test_group_files_by_spec_multiple_specs() -> None:
    groups = group_files_by_spec([file_of(0, "a"), file_of(1, "b"), file_of(0, "c")])
    assert {spec_id: len(files) for spec_id, files in groups.items()} == {0: 2, 1: 1}
    assert [file.file_path for file in groups[0]] == ["file:///lake/a.parquet", "file:///lake/c.parquet"]


def test_group_files_by_spec_v1_defaults_to_zero() -> None:
    groups = group_files_by_spec([file_of(None), file_of(0)])
    assert {spec_id: len(files) for spec_id, files in groups.items()} == {0: 2}


def test_groups_come_in_the_order_of_spec_ids() -> None:
    assert list(group_files_by_spec([file_of(7), file_of(2), file_of(5), file_of(0)])) == [0, 2, 5, 7]
    assert list(group_entries_by_spec([entry_of(3), entry_of(1)])) == [1, 3]


def test_group_entries_by_spec_empty() -> None:
    assert group_entries_by_spec([]) == {}


def test_group_entries_by_spec_single_spec() -> None:
    groups = group_entries_by_spec([entry_of(4), entry_of(4)])
    assert {spec_id: len(entries) for spec_id, entries in groups.items()} == {4: 2}


def test_group_entries_by_spec_multiple_specs() -> None:
    groups = group_entries_by_spec([entry_of(1, "a"), entry_of(0, "b"), entry_of(1, "c")])
    assert {
        spec_id: [entry.data_file.file_path[-9:-8] for entry in entries] for spec_id, entries in groups.items()
    } == {
        0: ["b"],
        1: ["a", "c"],
    }


def test_the_spec_survives_the_way_from_an_executor() -> None:
    (returned,) = group_files_by_spec([pickle.loads(pickle.dumps(file_of(3)))])  # the key of the only group
    assert returned == 3
