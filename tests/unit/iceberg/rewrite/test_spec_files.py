"""Partitions numbered and ordered on whole columns agree with keys one by one."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform, VoidTransform

from lakeshift.iceberg.partition_key import PartitionKey
from lakeshift.iceberg.rewrite.spec_files import Partitions

NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [NAN, None, 1.5, -1.5, 0.0]),
        (pa.string(), ["b", "a", None, "", "ä", "Z"]),
        (pa.date32(), [date(2026, 1, 10), date(1969, 12, 31), None]),
        (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-1.50"), None]),
        (pa.binary(2), [b"ab", b"aa", None]),
        (pa.bool_(), [True, None, False]),
    ],
)
def test_partitions_are_ordered_as_their_keys(kind: pa.DataType, values: list[Any]) -> None:
    chance = random.Random(1)
    rows = [{"a": chance.choice(values), "b": chance.choice([3, None, 10])} for _ in range(200)]
    column = pa.chunked_array([pa.array(rows[:50], pa.struct([("a", kind), ("b", pa.int32())])), *_chunk(rows, kind)])
    spec = PartitionSpec(
        PartitionField(1, 1000, IdentityTransform(), "a"), PartitionField(2, 1001, IdentityTransform(), "b"), spec_id=1
    )
    found = Partitions.of(spec, column)
    keys = [PartitionKey.of(spec, row) for row in found.values.to_pylist()]
    assert keys == sorted(set(keys), key=PartitionKey.sort_key)
    assert [keys[number] for number in found.numbers] == [PartitionKey.of(spec, row) for row in column.to_pylist()]


def _chunk(rows: list[dict[str, Any]], kind: pa.DataType) -> list[pa.Array]:
    return [pa.array(rows[50:], pa.struct([("a", kind), ("b", pa.int32())]))]


@pytest.mark.parametrize(
    "spec", [PartitionSpec(spec_id=0), PartitionSpec(PartitionField(1, 1000, VoidTransform(), "a"), spec_id=0)]
)
def test_files_of_an_unpartitioned_spec_have_one_partition(spec: PartitionSpec) -> None:
    kind = pa.struct([(field.name, pa.string()) for field in spec.fields])
    column = pa.chunked_array([pa.array([dict.fromkeys(kind.names)] * 3, kind)])
    found = Partitions.of(spec, column)
    assert (len(found), found.numbers.tolist()) == (1, [0, 0, 0])
