"""Which deletes apply: each rule by itself, and random tables against a plain restatement of the rules."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from lakeshift.iceberg.deletes import DATA_COLUMNS, DELETE_COLUMNS, match_deletes
from lakeshift.iceberg.ledger import read_ledger
from tests.handmade import HandmadeTable

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "weight", DoubleType()), NestedField(3, "region", StringType())
)
BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"), spec_id=0)
BY_WEIGHT = PartitionSpec(
    PartitionField(2, 1001, IdentityTransform(), "weight"),
    PartitionField(3, 1002, IdentityTransform(), "place"),
    spec_id=1,
)
UNPARTITIONED = PartitionSpec(spec_id=2)
ALL_VOID = PartitionSpec(PartitionField(3, 1003, VoidTransform(), "nothing"), spec_id=3)
ALSO_BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"), spec_id=4)


@pytest.fixture
def table(tmp_path: Path) -> HandmadeTable:
    return HandmadeTable(tmp_path, SCHEMA, BY_REGION, BY_WEIGHT, UNPARTITIONED, ALL_VOID, ALSO_BY_REGION)


def applied(table: HandmadeTable) -> set[tuple[str, str]]:
    """Pairs of data file and delete file, by the last part of their paths."""
    ledger = read_ledger(table.metadata, table.io, columns=sorted({*DATA_COLUMNS, *DELETE_COLUMNS}))
    found = set()
    for spec_id, matched in match_deletes(ledger).items():
        paths = ledger.data[spec_id].column("file_path")
        pairs = matched.pairs().to_pylist()
        assert sorted(matched.counts.to_pylist()) == sorted(
            sum(pair["data_row"] == row for pair in pairs) for row in range(len(paths))
        )
        assert matched.distinct == len({(pair["delete_spec_id"], pair["delete_row"]) for pair in pairs})
        half = len(paths) // 2
        assert matched.slice(half, len(paths) - half).counts == matched.counts[half:]
        backwards = pa.array(range(len(paths) - 1, -1, -1), pa.int64())
        assert matched.take(backwards).counts == matched.counts.take(backwards)
        for pair in pairs:
            deletes = ledger.deletes[pair["delete_spec_id"]].column("file_path")
            found.add((paths[pair["data_row"]].as_py(), deletes[pair["delete_row"]].as_py()))
        assert len(found) >= len(pairs)
    return {(Path(data).name, Path(delete).name) for data, delete in found}


def test_a_table_without_deletes_has_none_that_apply(table: HandmadeTable) -> None:
    table.commit(table.data_file(0, "eu"), table.data_file(2))
    assert applied(table) == set()


def test_position_deletes_apply_from_their_own_sequence_number_on_backwards(table: HandmadeTable) -> None:
    table.commit(table.data_file(0, "eu", path="old"))
    table.commit(table.data_file(0, "eu", path="same"), table.position_deletes(["a", "b"], 0, "eu", path="d"))
    table.commit(table.data_file(0, "eu", path="new"))
    assert applied(table) == {("old", "d"), ("same", "d")}


def test_equality_deletes_apply_to_older_files_only(table: HandmadeTable) -> None:
    table.commit(table.data_file(0, "eu", path="old"))
    table.commit(table.data_file(0, "eu", path="same"), table.equality_deletes(0, "eu", path="d"))
    assert applied(table) == {("old", "d")}


def test_partition_scoped_deletes_stay_in_their_partition_and_spec(table: HandmadeTable) -> None:
    table.commit(
        table.data_file(0, "eu", path="eu"),
        table.data_file(0, "us", path="us"),
        table.data_file(4, "eu", path="eu of another spec"),
    )
    table.commit(table.equality_deletes(0, "eu", path="e"), table.position_deletes(["a", "b"], 0, "eu", path="p"))
    assert applied(table) == {("eu", "e"), ("eu", "p")}


def test_null_and_nan_partitions_equal_themselves(table: HandmadeTable) -> None:
    nan = float("nan")
    table.commit(
        table.data_file(1, None, None, path="nulls"),
        table.data_file(1, nan, None, path="nan"),
        table.data_file(1, 0.0, "eu", path="zero"),
        table.data_file(1, -0.0, "eu", path="minus zero"),
    )
    table.commit(
        table.equality_deletes(1, None, None, path="e-nulls"),
        table.equality_deletes(1, nan, None, path="e-nan"),
        table.equality_deletes(1, 0.0, "eu", path="e-zero"),
    )
    assert applied(table) == {("nulls", "e-nulls"), ("nan", "e-nan"), ("zero", "e-zero")}


@pytest.mark.parametrize(("spec_id", "partition"), [(2, []), (3, [None])])
def test_equality_deletes_of_an_unpartitioned_spec_apply_to_every_spec(
    table: HandmadeTable, spec_id: int, partition: list[Any]
) -> None:
    table.commit(
        table.data_file(0, "eu", path="a"),
        table.data_file(1, 1.0, None, path="b"),
        table.data_file(2, path="c"),
        table.data_file(3, None, path="d"),
    )
    table.commit(table.equality_deletes(spec_id, *partition, path="global"), table.data_file(0, "eu", path="same"))
    assert applied(table) == {(name, "global") for name in "abcd"}


def test_position_deletes_of_an_unpartitioned_spec_stay_in_it(table: HandmadeTable) -> None:
    table.commit(table.data_file(0, "eu", path="a"), table.data_file(2, path="b"), table.data_file(3, None, path="c"))
    table.commit(table.position_deletes(["b", "x"], 2, path="p"))
    assert applied(table) == {("b", "p")}


def test_file_scoped_position_deletes_apply_to_that_file_however_it_is_spelled(table: HandmadeTable) -> None:
    table.commit(
        table.data_file(0, "eu", path="file:/lake/one"),
        table.data_file(0, "eu", path="file:/lake/two"),
        table.data_file(0, "eu", path="s3a://bucket/three"),
    )
    table.commit(
        table.position_deletes(["file:///lake/one"], 0, "eu", path="p1"),
        table.position_deletes(["S3://bucket/three"], 0, "eu", path="p3"),
    )
    assert applied(table) == {("one", "p1"), ("three", "p3")}


def test_a_file_scoped_delete_older_than_the_file_does_not_apply(table: HandmadeTable) -> None:
    """A compaction may keep a path's deletes while the path is written anew by a table restored from elsewhere."""
    table.commit(table.position_deletes(["/lake/one"], 0, "eu", path="p1"))
    table.commit(table.data_file(0, "eu", path="/lake/one"))
    assert applied(table) == set()


def test_deletes_without_path_bounds_apply_to_their_partition(table: HandmadeTable) -> None:
    table.commit(table.data_file(0, "eu", path="a"))
    table.commit(
        table.position_deletes(["a"], 0, "eu", path="p1", lower_bounds=None, upper_bounds={}),
        table.position_deletes(["a"], 0, "eu", path="p2", lower_bounds={5: b"a"}, upper_bounds={5: b"a"}),
    )
    assert applied(table) == {("a", "p1"), ("a", "p2")}


def _expected(files: list[tuple[DataFile, int]]) -> set[tuple[str, str]]:
    """The rules once more, one pair of files at a time."""
    pairs = set()
    for data, data_number in files:
        for delete, number in files:
            if data.content.value != 0 or delete.content.value == 0:
                continue
            same_key = (data.spec_id, repr(data.partition)) == (delete.spec_id, repr(delete.partition))
            if delete.content.value == 2:
                applies = number > data_number and (same_key or delete.spec_id in (2, 3))
            else:
                lower, upper = delete.lower_bounds.values(), delete.upper_bounds.values()
                scoped = list(lower) == list(upper)
                mine = next(iter(lower)).decode() == data.file_path if scoped else same_key
                applies = number >= data_number and mine
            if applies:
                pairs.add((Path(data.file_path).name, Path(delete.file_path).name))
    return pairs


@pytest.mark.parametrize("seed", range(6))
def test_random_tables_agree_with_the_rules(table: HandmadeTable, seed: int) -> None:
    chance = random.Random(seed)
    partitions: dict[int, list[tuple[Any, ...]]] = {
        0: [("eu",), ("us",), (None,)],
        1: [(1.0, "eu"), (1.0, None), (float("nan"), "eu"), (None, None), (2.0, "us")],
        2: [()],
        3: [(None,)],
        4: [("eu",), (None,)],
    }
    files: list[tuple[DataFile, int]] = []
    for number in range(1, 9):
        added = []
        for _ in range(chance.randint(1, 12)):
            spec_id = chance.choice(list(partitions))
            partition = chance.choice(partitions[spec_id])
            kind = chance.choice(["data", "data", "data", "one", "many", "equality"])
            data = [file.file_path for file, _ in files if file.content.value == 0] or ["/nowhere"]
            if kind == "data":
                added.append(table.data_file(spec_id, *partition))
            elif kind == "one":
                added.append(table.position_deletes([chance.choice(data)], spec_id, *partition))
            elif kind == "many":
                added.append(table.position_deletes(["/a", "/z"], spec_id, *partition))
            else:
                added.append(table.equality_deletes(spec_id, *partition))
        table.commit(*added)
        files += [(file, number) for file in added]
    expected = _expected(files)
    assert expected
    assert applied(table) == expected


def test_a_deletion_vector_replaces_position_deletes(table: HandmadeTable) -> None:
    """A vector holds all positions of its file, so that readers leave older position delete files aside."""
    table.commit(table.data_file(0, "eu", path="/a"), table.data_file(0, "eu", path="/b"))
    table.commit(
        table.position_deletes(["/a"], 0, "eu", path="p-a"),
        table.position_deletes(["/a", "/b"], 0, "eu", path="p-both"),
        table.equality_deletes(0, "eu", path="e"),
    )
    table.commit(table.position_deletes(["/a"], 0, "eu", path="v-a", file_format=FileFormat.PUFFIN))
    assert applied(table) == {("a", "v-a"), ("a", "e"), ("b", "p-both"), ("b", "e")}
