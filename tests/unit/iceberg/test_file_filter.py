"""Inclusive file filters: no file with a matching row is ever left out, and useless ones are."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform, VoidTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    UUIDType,
)

from lakeshift.iceberg.file_filter import files_that_can_match
from lakeshift.iceberg.ledger import read_ledger
from tests.conftest import FULL
from tests.handmade import HandmadeTable

NAN = float("nan")
EPOCH = dt.datetime(1970, 1, 1)
SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "x", DoubleType()),
    NestedField(3, "s", StringType()),
    NestedField(4, "ts", TimestampType()),
    NestedField(5, "d", DecimalType(9, 2)),
    NestedField(6, "b", BooleanType()),
)
SPECS = [
    PartitionSpec(spec_id=0),
    PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "x"), spec_id=1),
    PartitionSpec(
        PartitionField(1, 1001, BucketTransform(4), "n_bucket"),
        PartitionField(3, 1002, TruncateTransform(1), "s1"),
        spec_id=2,
    ),
    PartitionSpec(
        PartitionField(4, 1003, DayTransform(), "day"), PartitionField(6, 1004, IdentityTransform(), "b"), spec_id=3
    ),
    PartitionSpec(
        PartitionField(5, 1005, IdentityTransform(), "d"), PartitionField(1, 1006, VoidTransform(), "v"), spec_id=4
    ),
]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-3, 3),
    "x": st.sampled_from([-1.5, -0.0, 0.0, 1.0, 2.5, math.inf, NAN]),
    "s": st.text("abé", max_size=3),
    "ts": st.integers(-3, 3).map(lambda half_days: EPOCH + dt.timedelta(hours=12 * half_days)),
    "d": st.integers(-200, 200).map(lambda cents: decimal.Decimal(cents).scaleb(-2)),
    "b": st.booleans(),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), min_size=1, max_size=4
)


def _literal(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.datetime) else value


def _order(value: Any) -> tuple[bool, Any]:
    """Spark's order: NaN is the largest number, and equal to itself."""
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


Row = dict[str, Any]
Judged = tuple[BooleanExpression, Callable[[Row], bool | None]]


def _comparison(
    name: str, kind: Callable[..., BooleanExpression], value: Any, holds: Callable[[Any, Any], bool]
) -> Judged:
    def judge(row: Row) -> bool | None:
        return None if row[name] is None else holds(_order(row[name]), _order(value))

    return kind(name, _literal(value)), judge


@st.composite
def leaves(draw: st.DrawFn) -> Judged:
    name = draw(st.sampled_from(sorted(VALUES)))
    value = draw(VALUES[name].filter(lambda value: not (isinstance(value, float) and not math.isfinite(value))))
    kinds: list[Judged] = [
        (IsNull(name), lambda row: row[name] is None),
        (NotNull(name), lambda row: row[name] is not None),
        _comparison(name, EqualTo, value, lambda a, b: a == b),
        _comparison(name, NotEqualTo, value, lambda a, b: a != b),
    ]
    if name != "b":
        kinds += [
            _comparison(name, LessThan, value, lambda a, b: a < b),
            _comparison(name, LessThanOrEqual, value, lambda a, b: a <= b),
            _comparison(name, GreaterThan, value, lambda a, b: a > b),
            _comparison(name, GreaterThanOrEqual, value, lambda a, b: a >= b),
        ]
    if name in ("n", "s"):
        several = draw(st.sets(VALUES[name], min_size=1, max_size=3))
        kinds += [
            (In(name, several), lambda row: None if row[name] is None else row[name] in several),
            (NotIn(name, several), lambda row: None if row[name] is None else row[name] not in several),
        ]
    if name == "s":
        kinds += [
            (StartsWith(name, value), lambda row: None if row[name] is None else row[name].startswith(value)),
            (NotStartsWith(name, value), lambda row: None if row[name] is None else not row[name].startswith(value)),
        ]
    if name == "x":
        kinds += [
            (IsNaN(name), lambda row: row[name] is not None and math.isnan(row[name])),
            (NotNaN(name), lambda row: row[name] is None or not math.isnan(row[name])),
        ]
    return draw(st.sampled_from(kinds))


def _not(judged: Judged) -> Judged:
    expression, judge = judged

    def negated(row: Row) -> bool | None:
        result = judge(row)
        return None if result is None else not result

    return Not(expression), negated


def _and(left: Judged, right: Judged) -> Judged:
    def both(row: Row) -> bool | None:
        results = [left[1](row), right[1](row)]
        return False if False in results else None if None in results else True

    return And(left[0], right[0]), both


def _or(left: Judged, right: Judged) -> Judged:
    def either(row: Row) -> bool | None:
        results = [left[1](row), right[1](row)]
        return True if True in results else None if None in results else False

    return Or(left[0], right[0]), either


FILTERS = st.recursive(
    leaves(),
    lambda inner: st.builds(_not, inner) | st.builds(_and, inner, inner) | st.builds(_or, inner, inner),
    max_leaves=4,
)


def _stored(value: Any) -> Any:
    return int((value - EPOCH).total_seconds() * 1_000_000) if isinstance(value, dt.datetime) else value


def _file(table: HandmadeTable, spec: PartitionSpec, rows: Sequence[Row], forget: set[str]) -> DataFile | None:
    """A file with these rows and their true metrics, less what is to be forgotten; None if they span partitions."""
    partitions = set()
    for row in rows:
        values = []
        for field in spec.fields:
            source = SCHEMA.find_field(field.source_id)
            value = field.transform.transform(source.field_type)(_stored(row[source.name]))
            values.append("NaN" if isinstance(value, float) and math.isnan(value) else value)
        partitions.add(tuple(values))
    if len(partitions) != 1:
        return None
    metrics: dict[str, dict[int, Any]] = {
        name: {} for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    }
    for field in SCHEMA.fields:
        present = [_stored(row[field.name]) for row in rows if row[field.name] is not None]
        numbers = [value for value in present if not (isinstance(value, float) and math.isnan(value))]
        metrics["value_counts"][field.field_id] = len(rows)
        metrics["null_value_counts"][field.field_id] = len(rows) - len(present)
        if field.name == "x":
            metrics["nan_value_counts"][field.field_id] = len(present) - len(numbers)
        if numbers:
            metrics["lower_bounds"][field.field_id] = to_bytes(field.field_type, min(numbers))
            metrics["upper_bounds"][field.field_id] = to_bytes(field.field_type, max(numbers))
    values = [NAN if value == "NaN" else value for value in partitions.pop()]
    kept = {name: None if name in forget else values_by_id for name, values_by_id in metrics.items()}
    return table.data_file(spec.spec_id, *values, record_count=len(rows), **kept)


FORGOTTEN = st.sets(
    st.sampled_from(["value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"])
)


@settings(max_examples=1000 if FULL else 60, deadline=None)
@given(
    st.lists(st.tuples(ROWS, FORGOTTEN), min_size=1, max_size=4),
    st.sampled_from(SPECS),
    st.lists(FILTERS, min_size=1, max_size=6),
)
def test_no_file_with_a_matching_row_is_left_out(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[tuple[list[Row], set[str]]],
    spec: PartitionSpec,
    filters: list[Judged],
) -> None:
    table = HandmadeTable(tmp_path_factory.mktemp("table"), SCHEMA, *SPECS)
    made = []
    for rows, forget in files:
        # Rows of different partitions go into files of their own.
        whole = _file(table, spec, rows, forget)
        parts = [(rows, whole)] if whole else [([row], _file(table, spec, [row], forget)) for row in rows]
        made += parts
    table.commit(*(file for _, file in made if file))
    ledger = read_ledger(table.metadata, table.io).data[spec.spec_id]
    assert ledger.column("file_path").to_pylist() == [file.file_path for _, file in made if file]
    for expression, judge in filters:
        kept = files_that_can_match(expression, spec.spec_id, ledger, table.metadata).to_pylist()
        for (rows, _), can_match in zip(made, kept, strict=True):
            assert can_match or not any(judge(row) is True for row in rows), (expression, rows)


def _kept(tmp_path: Path, schema: Schema, where: BooleanExpression, *files: dict[str, Any]) -> list[bool]:
    table = HandmadeTable(tmp_path, schema)
    table.commit(*(table.data_file(**metrics) for metrics in files))
    kept: list[bool] = files_that_can_match(
        where, 0, read_ledger(table.metadata, table.io).data[0], table.metadata
    ).to_pylist()
    return kept


def _between(kind: Any, lower: Any, upper: Any, **counts: Any) -> dict[str, Any]:
    return {"lower_bounds": {1: to_bytes(kind, lower)}, "upper_bounds": {1: to_bytes(kind, upper)}, **counts}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (EqualTo("c", 5), [True, False, True]),
        (GreaterThan("c", 9), [False, True, True]),
        (LessThanOrEqual("c", 9), [True, False, True]),
        (In("c", {1, 15}), [True, True, True]),
        (In("c", {-1, 99}), [False, False, True]),
        (And(GreaterThan("c", 3), LessThan("c", 5)), [True, False, True]),
    ],
)
def test_files_outside_the_bounds_are_left_out(tmp_path: Path, where: BooleanExpression, expected: list[bool]) -> None:
    schema = Schema(NestedField(1, "c", LongType()))
    assert _kept(tmp_path, schema, where, _between(LongType(), 0, 9), _between(LongType(), 10, 19), {}) == expected


def test_bounds_of_a_column_that_was_narrower_are_understood(tmp_path: Path) -> None:
    long, double = Schema(NestedField(1, "c", LongType())), Schema(NestedField(1, "c", DoubleType()))
    assert _kept(tmp_path, long, GreaterThan("c", 5), _between(IntegerType(), 0, 5), _between(LongType(), 0, 6)) == [
        False,
        True,
    ]
    assert _kept(
        tmp_path, double, LessThan("c", 0.5), _between(FloatType(), 1.0, 5.0), _between(DoubleType(), 0.0, 6.0)
    ) == [False, True]


def test_bounds_of_an_unexpected_length_exclude_nothing(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "c", LongType()))
    odd = {"lower_bounds": {1: b"\x01\x02\x03"}, "upper_bounds": {1: b"\x01\x02\x03"}}
    assert _kept(tmp_path, schema, EqualTo("c", 99), odd) == [True]


def test_an_upper_bound_counts_only_where_there_is_no_nan(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "c", DoubleType()))
    files = [_between(DoubleType(), 0.0, 1.0, nan_value_counts=counts) for counts in ({1: 0}, {1: 2}, {}, None)]
    assert _kept(tmp_path, schema, GreaterThan("c", 5.0), *files) == [False, True, True, True]
    assert _kept(tmp_path, schema, LessThan("c", -5.0), *files) == [False, False, False, False]


def test_a_nan_partition_is_above_every_number(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "c"))
    table = HandmadeTable(tmp_path, Schema(NestedField(1, "c", DoubleType())), spec)
    table.commit(table.data_file(0, NAN), table.data_file(0, 1.0), table.data_file(0, None))
    rows = read_ledger(table.metadata, table.io).data[0]
    assert files_that_can_match(GreaterThan("c", 5.0), 0, rows, table.metadata).to_pylist() == [True, False, False]
    assert files_that_can_match(LessThan("c", 5.0), 0, rows, table.metadata).to_pylist() == [False, True, False]


def test_dates_uuids_and_prefixes_are_compared_by_their_bounds(tmp_path: Path) -> None:
    dates, names, ids = (Schema(NestedField(1, "c", kind)) for kind in (DateType(), StringType(), UUIDType()))
    assert _kept(
        tmp_path, dates, EqualTo("c", "2022-01-08"), _between(DateType(), 19000, 19001), _between(DateType(), 1, 2)
    ) == [
        True,
        False,
    ]
    assert _kept(
        tmp_path,
        names,
        StartsWith("c", "ab"),
        *(_between(StringType(), *pair) for pair in [("aa", "ad"), ("b", "c"), ("a", "aaz")]),
    ) == [True, False, False]
    low, high = "00000000-0000-0000-0000-000000000001", "80000000-0000-0000-0000-000000000000"
    assert _kept(
        tmp_path, ids, EqualTo("c", "ff000000-0000-0000-0000-000000000000"), _between(UUIDType(), UUID(low), UUID(high))
    ) == [False]


def test_a_file_without_rows_cannot_match_but_an_uncounted_one_can(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "c", LongType()))
    assert _kept(tmp_path, schema, EqualTo("c", 1), {"record_count": 0}, {"record_count": -1}) == [False, True]
