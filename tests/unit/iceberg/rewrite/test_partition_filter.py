"""The filter over all specs: each partition once, by its own spec, open where it cannot be decided."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import (
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    Not,
    NotEqualTo,
    Or,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import HourTransform, IdentityTransform, VoidTransform
from pyiceberg.typedef import Record

from lakeshift.errors import ConfigError, FilterNotEvaluableError, UnknownSpecError
from lakeshift.iceberg.partition_key import PartitionKey
from lakeshift.iceberg.partition_types import partition_array
from lakeshift.iceberg.rewrite.diagnostics import Concern, FilterStats, SpecStatus
from lakeshift.iceberg.rewrite.partition_filter import (
    MultiSpecPartitionFilter,
    PartitionFilterEvaluator,
    bind_filter,
)
from tests.unit.iceberg.rewrite.tables import (
    BY_BUCKET,
    BY_DAY,
    BY_REGION,
    UNPARTITIONED,
    UNREADABLE,
    day,
    evolved_table,
)

EU = EqualTo("region", "eu")


def test_partition_key_from_partitioned_spec() -> None:
    assert PartitionKey.of(BY_REGION, Record("eu")).partition == ("eu",)


def test_partition_key_from_unpartitioned_spec() -> None:
    assert PartitionKey.of(UNPARTITIONED, Record()).partition is None


def test_partition_key_hash_equality() -> None:
    first, second = PartitionKey(0, ("eu", None)), PartitionKey(0, ("eu", None))
    assert first == second
    assert hash(first) == hash(second)


def test_partition_key_sort_key_stable() -> None:
    nan = float("nan")
    ordered = [PartitionKey(0, (-1.0, "b")), PartitionKey(0, (2.0, "a")), PartitionKey(0, (2.0, None))]
    ordered += [PartitionKey(0, (nan, "a")), PartitionKey(0, (None, "a")), PartitionKey(1, None)]
    shuffled = random.Random(7).sample(ordered, len(ordered))
    assert sorted(shuffled, key=PartitionKey.sort_key) == ordered


def test_from_bound_takes_a_filter_that_was_bound_before(tmp_path: Path) -> None:
    metadata = evolved_table(tmp_path).metadata
    bound = bind_filter(Not(Or(EqualTo("region", "us"), IsNull("region"))), metadata)
    evaluator = PartitionFilterEvaluator.from_bound(bound, metadata, BY_REGION)
    assert [evaluator.matches((region,)) for region in ("eu", "us", None)] == [True, False, False]
    convenient = PartitionFilterEvaluator.of(EU, metadata, BY_REGION)
    assert [convenient.matches((region,)) for region in ("eu", "us", None)] == [True, False, False]


def test_multi_spec_single_spec_table(tmp_path: Path) -> None:
    found = MultiSpecPartitionFilter(EU, evolved_table(tmp_path, BY_REGION).metadata)
    assert [found.matches(PartitionKey(0, (region,))) for region in ("eu", "us", None)] == [True, False, False]
    assert found.stats() == FilterStats()


def test_multi_spec_evolved_table(tmp_path: Path) -> None:
    metadata = evolved_table(tmp_path, BY_REGION, BY_DAY, BY_BUCKET, UNPARTITIONED).metadata
    found = MultiSpecPartitionFilter(And(EU, GreaterThanOrEqual("ts", "2026-01-10T12:00:00")), metadata)
    assert not found.matches(PartitionKey(0, ("us",)))
    assert found.matches(PartitionKey(0, ("eu",)))
    assert [found.matches(PartitionKey(1, (day(number),))) for number in (9, 10, 11)] == [False, True, True]
    assert found.matches(PartitionKey(3, (2,)))
    assert found.matches(PartitionKey(4, None))
    assert found.stats() == FilterStats()
    assert {spec_id: found.status(spec_id) for spec_id in (0, 1, 3, 4)} == {
        0: (SpecStatus.CONSTRAINED, "region = eu"),
        1: (SpecStatus.CONSTRAINED, "ts_day >= 2026-01-10"),
        3: (SpecStatus.NOT_CONSTRAINED, "no partition field is made from a column of the filter"),
        4: (SpecStatus.NOT_CONSTRAINED, "the spec is unpartitioned"),
    }


def test_multi_spec_unevaluable_spec_fail_open(tmp_path: Path) -> None:
    found = MultiSpecPartitionFilter(EU, evolved_table(tmp_path, BY_REGION, UNREADABLE).metadata)
    key = PartitionKey(2, ("anything",))
    assert found.matches(key)
    assert found.is_fail_open(key)
    assert not found.is_fail_open(PartitionKey(0, ("eu",)))
    assert found.status(2)[0] is SpecStatus.UNEVALUABLE
    (warning,) = found.warnings.kept
    assert (warning.concern, warning.spec_id, warning.partition) == (Concern.UNEVALUABLE_SPEC, 2, None)
    assert "region_z" in warning.message
    assert "zorder" in warning.message


def test_multi_spec_eval_error_fail_open(tmp_path: Path) -> None:
    """A partition whose value is not of its field's type is included, others are still evaluated."""
    found = MultiSpecPartitionFilter(GreaterThan("ts", "2026-01-10T12:00:00"), evolved_table(tmp_path).metadata)
    broken = PartitionKey(1, ("yesterday",))
    assert found.matches(broken)
    assert found.is_fail_open(broken)
    assert not found.matches(PartitionKey(1, (day(1),)))
    assert found.stats() == FilterStats(eval_errors=1, fail_open_partitions=1)
    (warning,) = found.warnings.kept
    assert (warning.concern, warning.partition) == (Concern.EVALUATION_ERROR, "ts_day=yesterday")


def test_multi_spec_memoization(tmp_path: Path) -> None:
    """A key that was asked for once is answered from memory, also when it failed."""
    found = MultiSpecPartitionFilter(EU, evolved_table(tmp_path).metadata)
    key = PartitionKey(0, ("eu",))
    assert found.matches(key)
    found.evaluators[0] = None  # whoever evaluates again now would count a failure
    assert found.matches(PartitionKey(0, ("eu",)))
    assert found.stats() == FilterStats()
    assert found.matches(PartitionKey(0, ("us",)))
    assert found.stats().fail_open_partitions == 1


def test_multi_spec_stats_counting(tmp_path: Path) -> None:
    metadata = evolved_table(tmp_path, BY_REGION, BY_DAY, UNREADABLE).metadata
    found = MultiSpecPartitionFilter(And(EU, LessThan("ts", "2026-01-10T00:00:00")), metadata)
    for _ in range(3):
        found.matches(PartitionKey(2, ("a",)))
        found.matches(PartitionKey(2, ("b",)))
        found.matches(PartitionKey(1, ("broken",)))
        found.matches(PartitionKey(1, (day(20),)))
        found.decide(2, partition_array([Record("b"), Record("c")], UNREADABLE, metadata))
    assert found.stats(fail_open_files=7) == FilterStats(
        unevaluable_specs=1, eval_errors=1, fail_open_partitions=4, fail_open_files=7
    )
    assert len(found.warnings.kept) == 2


def test_multi_spec_unknown_spec_hard_error(tmp_path: Path) -> None:
    found = MultiSpecPartitionFilter(EU, evolved_table(tmp_path).metadata)
    with pytest.raises(UnknownSpecError, match="partition spec 9"):
        found.matches(PartitionKey(9, ("eu",)))


def test_many_partitions_at_once_are_decided_as_one_by_one(tmp_path: Path) -> None:
    metadata = evolved_table(tmp_path).metadata
    found = MultiSpecPartitionFilter(Or(NotEqualTo("region", "eu"), IsNull("region")), metadata)
    partitions = partition_array([Record(value) for value in ("eu", "us", None)], BY_REGION, metadata)
    decision = found.decide(0, partitions)
    assert decision.included.to_pylist() == [False, True, True]
    assert decision.fail_open.to_pylist() == [False] * 3


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (EqualTo("rejion", "eu"), "rejion.*The table has the columns id, ts, region, amount"),
        (EqualTo("amount", "many"), "many"),
    ],
)
def test_a_filter_that_does_not_fit_is_a_hard_error(tmp_path: Path, where: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        MultiSpecPartitionFilter(where, evolved_table(tmp_path).metadata)


def test_case_matters_only_if_asked_for(tmp_path: Path) -> None:
    metadata = evolved_table(tmp_path).metadata
    found = MultiSpecPartitionFilter(EqualTo("REGION", "eu"), metadata)
    assert not found.matches(PartitionKey(0, ("us",)))
    with pytest.raises(ConfigError, match="REGION"):
        MultiSpecPartitionFilter(EqualTo("REGION", "eu"), metadata, case_sensitive=True)


@pytest.mark.parametrize(
    ("where", "detail"),
    [
        (GreaterThan("id", 5), "id_bucket cannot tell which partitions match this filter"),
        (EqualTo("id", 5), "id_bucket = "),
    ],
)
def test_a_lossy_field_constrains_where_it_can(tmp_path: Path, where: Any, detail: str) -> None:
    """That a bucket says nothing about a comparison is no failure."""
    found = MultiSpecPartitionFilter(where, evolved_table(tmp_path, BY_BUCKET).metadata)
    assert found.status(3)[1].startswith(detail)
    assert found.matches(PartitionKey(3, (0,))) or isinstance(where, EqualTo)
    assert found.stats() == FilterStats()


def test_a_void_field_does_not_constrain_and_does_not_fail(tmp_path: Path) -> None:
    void = PartitionSpec(
        PartitionField(3, 1000, VoidTransform(), "region"), PartitionField(2, 1001, HourTransform(), "h"), spec_id=0
    )
    found = MultiSpecPartitionFilter(EU, evolved_table(tmp_path, void).metadata)
    assert found.matches(PartitionKey(0, (None, 5)))
    assert found.status(0)[0] is SpecStatus.NOT_CONSTRAINED
    assert found.stats() == FilterStats()


def test_one_unreadable_field_of_the_filter_makes_a_spec_unevaluable(tmp_path: Path) -> None:
    mixed = PartitionSpec(*UNREADABLE.fields, PartitionField(2, 1001, IdentityTransform(), "ts"), spec_id=2)
    metadata = evolved_table(tmp_path, mixed).metadata
    assert MultiSpecPartitionFilter(EU, metadata).evaluators == {2: None}
    other = MultiSpecPartitionFilter(LessThan("ts", "2026-01-10T00:00:00"), metadata)
    assert other.status(2)[0] is SpecStatus.CONSTRAINED


def test_the_list_of_warnings_is_bounded(tmp_path: Path) -> None:
    found = MultiSpecPartitionFilter(LessThan("ts", "2026-01-10T00:00:00"), evolved_table(tmp_path).metadata)
    for number in range(30):
        found.matches(PartitionKey(1, (f"broken {number}",)))
    assert len(found.warnings.kept) == 20
    assert found.warnings.omitted == 10
    assert found.stats().eval_errors == 30


def test_undecided_partitions_are_named_where_certainty_is_asked_for(tmp_path: Path) -> None:
    found = MultiSpecPartitionFilter(EU, evolved_table(tmp_path, BY_REGION, UNREADABLE).metadata)
    found.matches(PartitionKey(0, ("eu",)))
    found.require_decided()
    for number in range(7):
        found.matches(PartitionKey(2, (f"z{number}",)))
    with pytest.raises(FilterNotEvaluableError, match=r"7 partitions.*spec 2.*region_z=z0.*and 2 more.*fail-open"):
        found.require_decided()
