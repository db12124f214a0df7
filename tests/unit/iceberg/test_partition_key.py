"""PartitionKey: never the tuple alone, and equal where Iceberg says so."""

from __future__ import annotations

import pickle

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.typedef import Record

from lakeshift.iceberg.partition_key import PartitionKey

SPEC = PartitionSpec(
    PartitionField(1, 1000, IdentityTransform(), "a"), PartitionField(2, 1001, IdentityTransform(), "b"), spec_id=3
)
NAN = float("nan")


def test_equal_values_of_two_specs_are_two_keys() -> None:
    assert PartitionKey(0, ("eu",)) != PartitionKey(1, ("eu",))
    assert PartitionKey(0, ("eu",)) == PartitionKey(0, ("eu",))


def test_the_same_key_from_a_record_a_mapping_and_a_tuple() -> None:
    keys = {
        PartitionKey.of(SPEC, Record(1, None)),
        PartitionKey.of(SPEC, {"b": None, "a": 1}),
        PartitionKey.of(SPEC, (1, None)),
    }
    assert keys == {PartitionKey(3, (1, None))}


@pytest.mark.parametrize(
    "spec", [PartitionSpec(spec_id=5), PartitionSpec(PartitionField(1, 1000, VoidTransform(), "a"), spec_id=5)]
)
def test_empty_and_all_void_specs_are_unpartitioned(spec: PartitionSpec) -> None:
    assert PartitionKey.of(spec, Record(*[None] * len(spec.fields))) == PartitionKey(5, None)


def test_nan_equals_nan_also_after_a_journey() -> None:
    key = PartitionKey(0, (float("nan"),))
    assert {key: "found"}[pickle.loads(pickle.dumps(PartitionKey(0, (NAN,))))] == "found"


def test_zeros_of_both_signs_are_different() -> None:
    assert PartitionKey(0, (0.0,)) != PartitionKey(0, (-0.0,))


def test_no_partition_is_not_a_partition_of_null() -> None:
    assert PartitionKey(0, None) != PartitionKey(0, ())
    with pytest.raises(ValueError, match="Spec 3 is partitioned"):
        PartitionKey.of(SPEC, None)


def test_a_tuple_of_the_wrong_length_names_the_spec() -> None:
    with pytest.raises(ValueError, match="Spec 3 has 2 fields"):
        PartitionKey.of(SPEC, (1,))
