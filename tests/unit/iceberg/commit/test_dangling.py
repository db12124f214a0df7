"""Dangling deletes: what may go with a change, and above all what must not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

from lakeshift.iceberg.commit.dangling import dangling_deletes, rows_to_be
from lakeshift.iceberg.ledger import read_ledger
from tests.handmade import HandmadeTable

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "ts", TimestampType()), NestedField(3, "region", StringType())
)
BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"), spec_id=0)
UNPARTITIONED = PartitionSpec(spec_id=1)
BY_DAY = PartitionSpec(PartitionField(2, 1001, DayTransform(), "day"), spec_id=2)


@pytest.fixture
def table(tmp_path: Path) -> HandmadeTable:
    return HandmadeTable(tmp_path, SCHEMA, BY_REGION, UNPARTITIONED, BY_DAY)


def dangling(table: HandmadeTable, *removed: DataFile, added: list[DataFile] | None = None, **options: Any) -> set[str]:
    number = options.pop("sequence_number", None)
    found = dangling_deletes(
        read_ledger(table.metadata, table.io),
        table.io,
        removed_data=[file.file_path for file in removed],
        added_data=rows_to_be(added or [], table.metadata, number),
        **options,
    )
    return {path for rows in found.values() for path in rows.column("file_path").to_pylist()}


def test_deletes_of_live_files_stay(table: HandmadeTable) -> None:
    eu, other = table.data_file(0, "eu"), table.data_file(0, "eu")
    table.commit(eu, other)
    table.commit(table.position_deletes([eu.file_path], 0, "eu"), table.equality_deletes(0, "eu"))
    assert dangling(table, other) == set()


def test_a_file_scoped_position_delete_goes_with_its_file(table: HandmadeTable) -> None:
    eu, us = table.data_file(0, "eu"), table.data_file(0, "us")
    table.commit(eu, us)
    delete, other = table.position_deletes([eu.file_path], 0, "eu"), table.position_deletes([us.file_path], 0, "us")
    table.commit(delete, other)
    assert dangling(table, eu) == {delete.file_path}


def test_an_equality_delete_stays_while_an_older_file_lives_in_its_partition(table: HandmadeTable) -> None:
    old, older = table.data_file(0, "eu"), table.data_file(0, "eu")
    table.commit(old, older, table.data_file(0, "us"))
    delete = table.equality_deletes(0, "eu")
    table.commit(delete, table.data_file(0, "eu"))
    assert dangling(table, old) == set()
    assert dangling(table, old, older) == {delete.file_path}


def test_a_global_equality_delete_stays_while_an_older_file_lives_in_any_spec(table: HandmadeTable) -> None:
    plain, day = table.data_file(1), table.data_file(2, 19000)
    table.commit(plain, day)
    delete = table.equality_deletes(1)
    table.commit(delete, table.data_file(1))
    assert dangling(table, plain) == set()
    assert dangling(table, plain, day) == {delete.file_path}


def test_compacted_files_that_keep_their_sequence_number_keep_their_equality_deletes(table: HandmadeTable) -> None:
    old = table.data_file(2, 19000)
    table.commit(old)
    delete = table.equality_deletes(2, 19000)
    table.commit(delete)
    compacted = table.data_file(2, 19000)
    assert dangling(table, old, added=[compacted], sequence_number=1) == set()
    assert dangling(table, old, added=[compacted]) == {delete.file_path}
    elsewhere = table.data_file(2, 19001)
    assert dangling(table, old, added=[elsewhere], sequence_number=1) == {delete.file_path}


def test_a_delete_that_is_removed_anyway_is_not_named_again(table: HandmadeTable) -> None:
    eu = table.data_file(0, "eu")
    table.commit(eu)
    delete = table.position_deletes([eu.file_path], 0, "eu")
    table.commit(delete)
    assert dangling(table, eu, removed_deletes=[delete.file_path]) == set()


def _write_positions(delete: DataFile, targets: list[str], file_format: FileFormat) -> None:
    path = Path(delete.file_path.removeprefix("file://"))
    path.parent.mkdir(exist_ok=True)
    rows = pa.table({"file_path": sorted(targets), "pos": pa.array(range(len(targets)), pa.int64())})
    if file_format == FileFormat.PARQUET:
        pq.write_table(rows, path)
    elif file_format == FileFormat.ORC:
        orc.write_table(rows, path)


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC])
def test_a_position_delete_of_several_files_is_read_and_goes_only_when_all_are_dead(
    table: HandmadeTable, file_format: FileFormat
) -> None:
    first, second = table.data_file(0, "eu"), table.data_file(0, "eu")
    table.commit(first, second, table.data_file(0, "eu"))
    targets = [first.file_path, second.file_path.replace("file://", "file:")]
    delete = table.position_deletes(targets, 0, "eu", file_format=file_format)
    _write_positions(delete, targets, file_format)
    table.commit(delete)
    assert dangling(table, first) == set()
    assert dangling(table, first, second) == {delete.file_path}


def test_a_position_delete_in_another_partition_is_not_even_opened(table: HandmadeTable) -> None:
    eu, us = table.data_file(0, "eu"), table.data_file(0, "us")
    table.commit(eu, us)
    table.commit(table.position_deletes(["/a", "/b"], 0, "us"))  # there is no such file to open
    assert dangling(table, eu) == set()
    with pytest.raises(FileNotFoundError):
        dangling(table, us)


def test_a_position_delete_of_an_unknown_format_stays(table: HandmadeTable) -> None:
    eu = table.data_file(0, "eu")
    table.commit(eu)
    table.commit(table.position_deletes(["/a", "/b"], 0, "eu", file_format=FileFormat.PUFFIN))
    assert dangling(table, eu) == set()


def test_null_partitions_are_partitions_too(table: HandmadeTable) -> None:
    nowhere = table.data_file(0, None)
    table.commit(nowhere, table.data_file(0, "eu"))
    delete = table.equality_deletes(0, None)
    table.commit(delete)
    assert dangling(table) == set()
    assert dangling(table, nowhere) == {delete.file_path}


def test_a_table_without_deletes_has_nothing_dangling(table: HandmadeTable) -> None:
    eu = table.data_file(0, "eu")
    table.commit(eu)
    assert dangling(table, eu) == set()
