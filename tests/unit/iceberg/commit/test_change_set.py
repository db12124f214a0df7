"""Change sets refuse what cannot be committed rightly, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import DayTransform

from lakeshift.errors import ConfigError, LakeshiftError, UnknownSpecError, UnsupportedTableError
from lakeshift.iceberg.commit.change_set import (
    ChangeSet,
    RemovedFile,
    append_change,
    overwrite_change,
    replace_change,
    row_delta_change,
)
from tests.tables import EVENTS, data_file, equality_deletes, events, local_catalog, position_deletes

BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three specs; the default one is 2."""
    table = local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=BY_DAY)
    with table.update_spec() as update:
        update.add_identity("region")
    with table.update_spec() as update:
        update.remove_field("ts_day")
    assert sorted(table.specs()) == [0, 1, 2]
    return table


def with_spec(file: DataFile, spec_id: int) -> DataFile:
    file.spec_id = spec_id
    return file


def test_validate_accepts_any_valid_spec(table: Table) -> None:
    files = [data_file(table, events(1), spec_id=spec_id) for spec_id in (1, 0, 2)]
    assert append_change(table.metadata, files).added_data_files == tuple(files)


def test_validate_rejects_unknown_spec(table: Table) -> None:
    with pytest.raises(UnknownSpecError):
        append_change(table.metadata, [with_spec(data_file(table, events(1)), 99)])


def test_validate_rejects_unknown_spec_with_clear_message(table: Table) -> None:
    file = with_spec(data_file(table, events(1)), 99)
    with pytest.raises(UnknownSpecError, match=r"partition spec 99.*it has 0, 1, 2") as raised:
        append_change(table.metadata, [file])
    assert file.file_path in str(raised.value)


def test_an_unknown_spec_of_a_delete_file_or_of_a_removed_one_is_rejected_too(table: Table) -> None:
    deletes = with_spec(position_deletes(table, data_file(table, events(1)), [0]), 99)
    with pytest.raises(UnknownSpecError, match="99"):
        row_delta_change(table.metadata, [], [deletes])
    with pytest.raises(UnknownSpecError, match="98"):
        overwrite_change(table.metadata, [], [RemovedFile("file:///x.parquet", 98)])


def without_spec(file: DataFile) -> DataFile:
    return DataFile(*file._data)


def test_a_file_without_a_spec_counts_as_zero_in_v1_only(tmp_path: Path, table: Table) -> None:
    with pytest.raises(UnknownSpecError, match="does not say which partition spec"):
        append_change(table.metadata, [without_spec(data_file(table, events(1), spec_id=0))])
    v1 = local_catalog(tmp_path / "v1").create_table("db.old", EVENTS, properties={"format-version": "1"})
    assert append_change(v1.metadata, [without_spec(data_file(v1, events(1)))]).format_version == 1


def test_a_partition_of_another_spec_is_rejected(table: Table) -> None:
    file = data_file(table, events(1), spec_id=0)
    with pytest.raises(LakeshiftError, match=r"1 partition values.*2 fields \(ts_day, region\)"):
        append_change(table.metadata, [with_spec(file, 1)])
    with pytest.raises(LakeshiftError, match=r"for partition field 'region' of type string"):
        append_change(table.metadata, [with_spec(file, 2)])


def test_a_date_where_days_are_stored_is_rejected(table: Table) -> None:
    file = data_file(table, events(1), spec_id=0, partition=[date(2026, 1, 1)])
    with pytest.raises(LakeshiftError, match="counts since 1970"):
        append_change(table.metadata, [file])


def test_v1_has_no_delete_files(tmp_path: Path) -> None:
    v1 = local_catalog(tmp_path).create_table("db.old", EVENTS, properties={"format-version": "1"})
    file = data_file(v1, events(1))
    with pytest.raises(UnsupportedTableError, match="format-version=2"):
        row_delta_change(v1.metadata, [], [position_deletes(v1, file, [0])])
    with pytest.raises(ConfigError, match="sequence number 3"):
        replace_change(v1.metadata, [file], [], data_sequence_number=3)


def test_v3_is_refused() -> None:
    v3 = new_table_metadata(EVENTS, BY_DAY, UNSORTED_SORT_ORDER, "file:///lake/new", {"format-version": "3"})
    with pytest.raises(UnsupportedTableError, match=r"format version 3.*Nothing was written"):
        append_change(v3, [])


def test_a_delete_file_is_no_data_file(table: Table) -> None:
    file = data_file(table, events(1))
    with pytest.raises(ConfigError, match="POSITION_DELETES, where a data file is expected"):
        append_change(table.metadata, [position_deletes(table, file, [0])])
    with pytest.raises(ConfigError, match="DATA, where a delete file is expected"):
        row_delta_change(table.metadata, [], [file])


def test_an_equality_delete_names_its_columns(table: Table) -> None:
    deletes = equality_deletes(table, events(1), ["id"])
    deletes._data[14] = None
    with pytest.raises(ConfigError, match="names no equality columns"):
        row_delta_change(table.metadata, [], [deletes])


def test_a_file_comes_once_and_does_not_come_and_go(table: Table) -> None:
    file = data_file(table, events(1))
    with pytest.raises(ConfigError, match="added twice"):
        append_change(table.metadata, [file, file])
    spelled_otherwise = RemovedFile(file.file_path.replace("file:///", "file:/"), 2)
    with pytest.raises(ConfigError, match="both added and removed"):
        overwrite_change(table.metadata, [file], [spelled_otherwise])


GONE = RemovedFile("file:///gone.parquet", 0)


@pytest.mark.parametrize(
    ("make", "recorded"),
    [
        (lambda m, data, deletes: append_change(m, [data]), Operation.APPEND),
        (lambda m, data, deletes: overwrite_change(m, [data], [GONE]), Operation.OVERWRITE),
        (lambda m, data, deletes: overwrite_change(m, [], [GONE]), Operation.DELETE),
        (lambda m, data, deletes: overwrite_change(m, [data], []), Operation.APPEND),
        (lambda m, data, deletes: row_delta_change(m, [], [deletes]), Operation.DELETE),
        (lambda m, data, deletes: row_delta_change(m, [data], [deletes]), Operation.OVERWRITE),
        (lambda m, data, deletes: row_delta_change(m, [data], []), Operation.APPEND),
        (lambda m, data, deletes: row_delta_change(m, [data], [], removed=[GONE]), Operation.OVERWRITE),
        (lambda m, data, deletes: replace_change(m, [data], [GONE]), Operation.REPLACE),
    ],
)
def test_the_recorded_operation_is_the_one_java_records(
    table: Table, make: Callable[..., ChangeSet], recorded: Operation
) -> None:
    data = data_file(table, events(1))
    assert make(table.metadata, data, position_deletes(table, data, [0])).operation is recorded


def test_a_change_set_does_not_change(table: Table) -> None:
    change = append_change(table.metadata, [data_file(table, events(1))])
    with pytest.raises(AttributeError):
        change.data_sequence_number = 3  # type: ignore[misc]
