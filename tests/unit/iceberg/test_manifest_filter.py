"""Manifests judged by the manifest list: never one too few, also with NaN, nulls and missing summaries."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import (
    BooleanExpression,
    EqualTo,
    GreaterThan,
    IsNaN,
    IsNull,
    LessThan,
    NotEqualTo,
    NotNull,
    StartsWith,
)
from pyiceberg.manifest import ManifestFile, PartitionFieldSummary
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from lakeshift.iceberg.manifest_filter import manifests_that_match
from lakeshift.iceberg.rewrite.partition_filter import PartitionFilterEvaluator
from tests.handmade import HandmadeTable

SCHEMA = Schema(
    NestedField(1, "ratio", DoubleType()), NestedField(2, "name", StringType()), NestedField(3, "count", LongType())
)
SPEC = PartitionSpec(
    PartitionField(1, 1000, IdentityTransform(), "ratio"),
    PartitionField(2, 1001, IdentityTransform(), "name"),
    PartitionField(3, 1002, IdentityTransform(), "count"),
    spec_id=0,
)


def manifest(*summaries: PartitionFieldSummary) -> ManifestFile:
    return ManifestFile.from_args(manifest_path="m", partition_spec_id=0, partitions=list(summaries) or None)


def summary(lower: bytes | None, upper: bytes | None, null: bool = False, nan: bool | None = False) -> Any:
    return PartitionFieldSummary(null, nan, lower, upper)


def ratio(low: float, high: float) -> tuple[bytes, bytes]:
    return struct.pack("<d", low), struct.pack("<d", high)


ANY = summary(None, None, null=True, nan=None)


@pytest.mark.parametrize(
    ("where", "summaries", "expected"),
    [
        (GreaterThan("ratio", 5.0), [summary(*ratio(1, 4)), ANY, ANY], False),
        (GreaterThan("ratio", 5.0), [summary(*ratio(1, 4), nan=True), ANY, ANY], True),  # NaN is above every number
        (GreaterThan("ratio", 5.0), [summary(*ratio(1, 4), nan=None), ANY, ANY], True),
        (LessThan("ratio", 5.0), [summary(*ratio(6, 7), nan=True), ANY, ANY], False),
        (IsNaN("ratio"), [summary(*ratio(6, 7)), ANY, ANY], False),
        (IsNull("ratio"), [summary(*ratio(6, 7)), ANY, ANY], False),
        (NotNull("ratio"), [summary(None, None, null=True), ANY, ANY], False),
        (NotNull("ratio"), [summary(None, None, null=True, nan=None), ANY, ANY], True),
        (StartsWith("name", "eu"), [ANY, summary(b"a", b"et"), ANY], False),
        (StartsWith("name", "eu"), [ANY, summary(b"a", b"eu"), ANY], True),
        (NotEqualTo("name", "eu"), [ANY, summary(b"eu", b"eu"), ANY], True),
        # A column that was an int when the manifest was written.
        (EqualTo("count", 7), [ANY, ANY, summary(struct.pack("<i", 1), struct.pack("<i", 6))], False),
        (EqualTo("count", 7), [ANY, ANY, summary(struct.pack("<i", 1), struct.pack("<i", 7))], True),
        (EqualTo("count", 7), [], True),  # no summaries at all
    ],
)
def test_manifests_are_left_out_only_if_nothing_can_match(
    tmp_path: Path, where: BooleanExpression, summaries: list[Any], expected: bool
) -> None:
    metadata = HandmadeTable(tmp_path, SCHEMA, SPEC).metadata
    evaluator = PartitionFilterEvaluator.of(where, metadata, SPEC)
    assert evaluator.matches_manifests([manifest(*summaries)]) == [expected]


def test_many_manifests_are_judged_in_their_order(tmp_path: Path) -> None:
    metadata = HandmadeTable(tmp_path, SCHEMA, SPEC).metadata
    evaluator = PartitionFilterEvaluator.of(EqualTo("ratio", 5.0), metadata, SPEC)
    given = [manifest(summary(*ratio(low, low + 1)), ANY, ANY) for low in range(8)]
    assert evaluator.matches_manifests(given) == [False] * 4 + [True, True] + [False] * 2
    assert manifests_that_match(evaluator._projected, SPEC, []) == []
