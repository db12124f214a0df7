"""What a MERGE's text says of the target: columns, keys, and clauses that make no sense."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue

from lakeshift.errors import ConfigError
from lakeshift.iceberg.dml.merge_clauses import Clause, Kind, check_clauses, needs_cardinality_check
from lakeshift.iceberg.dml.merge_keys import KeyPair, key_pairs, key_range, named_columns, target_only
from lakeshift.iceberg.schemas import to_iceberg_schema

SCHEMA = to_iceberg_schema("id bigint, region string, amount double, `odd name` int, day date")
REGIONS = KeyPair("region", "region")
TARGET = {"id": "bigint", "region": "string", "amount": "double", "odd name": "int", "day": "date"}


@pytest.mark.parametrize(
    ("texts", "columns"),
    [
        (["target.id = source.id"], ("id", "odd name")),
        (["target.ID = source.key", "source.regional > 1"], ("id", "odd name")),
        (["`region` <=> source.x", None], ("region", "odd name")),
        (["hash(*) = source.h"], tuple(TARGET)),
        (["hash(source.a, target.*) = 1"], tuple(TARGET)),
        (["amount * 2 > source.x"], ("amount", "odd name")),
        ([object()], tuple(TARGET)),
    ],
)
def test_columns_are_those_that_a_text_may_name(texts: list[Any], columns: tuple[str, ...]) -> None:
    assert named_columns(texts, SCHEMA) == columns


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("target.id = source.key", [KeyPair("id", "key")]),
        (
            "(source.key = target.ID) AND target.region = source.region",
            [KeyPair("id", "key"), KeyPair("region", "region")],
        ),
        ("target.id = source.key OR target.region = source.region", []),
        ("target.id <=> source.key", []),
        ("target.amount = source.amount", []),  # NaN has a place of its own
        ("target.id = source.region", []),  # compared by a cast
        ("target.id + 1 = source.key", []),
        ("id = key", []),
        ("not sql at all (", []),
    ],
)
def test_keys_are_columns_of_one_type_that_must_be_equal(on: str, pairs: list[KeyPair]) -> None:
    source = {"key": "bigint", "region": "string", "amount": "double"}
    assert key_pairs(on, SCHEMA, source, TARGET) == pairs


def test_ranges_become_filters_and_nulls_match_nothing() -> None:
    pairs = [KeyPair("id", "key"), KeyPair("day", "d")]
    found = key_range(pairs, {"key": (1, 9), "d": (date(2026, 1, 1), date(2026, 1, 2))})
    assert "GreaterThanOrEqual" in repr(found)
    assert key_range([], {}) == AlwaysTrue()
    assert key_range(pairs, {"key": (1, 9), "d": (None, None)}) == AlwaysFalse()


def test_what_concerns_the_target_alone_prunes_it() -> None:
    def said(on: str) -> Any:
        return target_only(on, SCHEMA, case_sensitive=False, session_time_zone="UTC")

    assert "eu" in repr(said("target.id = source.id AND target.region = 'eu'"))
    for on in (
        "target.region = source.region",
        "region = 'eu'",
        "target.region = 'eu' OR source.x = 1",
        "upper(target.region) = 'EU'",
    ):
        assert said(on) == AlwaysTrue(), on


def test_clauses_that_can_never_apply_are_refused() -> None:
    always, sometimes = Clause(0, Kind.MATCHED, None, None), Clause(1, Kind.MATCHED, "source.x", {"id": "1"})
    with pytest.raises(ConfigError, match="needs at least one clause"):
        check_clauses([])
    with pytest.raises(ConfigError, match=r"clause 1 of MERGE \(when matched delete\) has no condition"):
        check_clauses([always, sometimes])
    check_clauses([sometimes, always, Clause(2, Kind.NOT_MATCHED, None, {})])


def test_several_matches_only_matter_where_they_could_differ() -> None:
    assert not needs_cardinality_check([Clause(0, Kind.MATCHED, None, None)])
    assert needs_cardinality_check([Clause(0, Kind.MATCHED, "source.x", None)])
    assert needs_cardinality_check([Clause(0, Kind.MATCHED, None, {"id": "1"})])
    assert not needs_cardinality_check([Clause(0, Kind.NOT_MATCHED, None, {})])
