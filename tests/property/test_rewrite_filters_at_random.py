"""Random evolved tables and filters: what a plan chooses, against the rows and against PyIceberg's evaluators.

Every file with a matching row must be chosen; and none that PyIceberg, by other code, leaves out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluator,
    expression_evaluator,
    inclusive_projection,
)
from pyiceberg.manifest import ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
)

from lakeshift.iceberg.commit.change_set import append_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.rewrite.options import RewriteOptions
from lakeshift.iceberg.rewrite.planner import RewriteDataFilesPlanner
from tests.conftest import FULL
from tests.tables import EVENTS, data_file, live_entries, local_catalog, partition_of

SECONDS = 120 if FULL else 8
pytestmark = pytest.mark.plain
FIELDS = [
    ("ts", DayTransform(), "d"),
    ("ts", HourTransform(), "h"),
    ("ts", MonthTransform(), "m"),
    ("region", IdentityTransform(), "r"),
    ("region", TruncateTransform(1), "t"),
    ("id", BucketTransform(3), "b"),
    ("id", TruncateTransform(5), "i"),
    ("amount", IdentityTransform(), "a"),
]
START = datetime(2025, 12, 31, 22)
VALUES: Mapping[str, Callable[[random.Random], Any]] = {
    "id": lambda chance: chance.randint(-8, 20),
    "ts": lambda chance: START + timedelta(hours=chance.randint(0, 60), minutes=chance.choice([0, 0, 30])),
    "region": lambda chance: chance.choice(["eu", "europe", "us", "u", ""]),
    "amount": lambda chance: chance.randint(-1, 2),
}
Row = dict[str, Any]
Test = Callable[[Row], bool | None]


def row(chance: random.Random) -> Row:
    return {name: None if chance.random() < 0.15 else value(chance) for name, value in VALUES.items()}


def table_at_random(folder: Path, chance: random.Random) -> tuple[Table, dict[str, list[Row]]]:
    """A table under several specs, and the rows of each of its files."""
    table = local_catalog(folder).create_table("db.t", EVENTS, properties={"format-version": chance.choice(["1", "2"])})
    rows: dict[str, list[Row]] = {}
    for _ in range(chance.randint(2, 4)):
        present = {field.name: str(field.transform) for field in table.spec().fields}
        for source, transform, name in chance.sample(FIELDS, chance.randint(0, 2)):
            with table.update_spec() as update:
                if present.get(name, "void") != "void":
                    update.remove_field(name)
                elif name not in present:
                    update.add_field(source, transform, name)
        spec, files = table.spec(), []
        for _ in range(chance.randint(1, 6)):
            first = row(chance)
            partition = partition_of(spec, EVENTS, first)
            mine = [first, *(row(chance) for _ in range(6))]
            mine = [one for one in mine if partition_of(spec, EVENTS, one) == partition]
            files.append(data_file(table, mine))
            rows[files[-1].file_path] = mine
        commit(table, append_change(table.metadata, files))
    return table, rows


def filter_at_random(chance: random.Random, depth: int = 2) -> tuple[BooleanExpression, Test]:
    """A filter, and what it says of a row in SQL's logic: true, false or null."""
    kind = chance.choice(["and", "or", "not", "leaf", "leaf"]) if depth else "leaf"
    if kind == "not":
        expression, test = filter_at_random(chance, depth - 1)
        return Not(expression), lambda one: None if test(one) is None else not test(one)
    if kind in ("and", "or"):
        left, test_left = filter_at_random(chance, depth - 1)
        right, test_right = filter_at_random(chance, depth - 1)
        strong = kind == "or"

        def both(one: Row) -> bool | None:
            found = {test_left(one), test_right(one)}
            return strong if strong in found else (None if None in found else not strong)

        return (And if kind == "and" else Or)(left, right), both
    return leaf_at_random(chance)


def leaf_at_random(chance: random.Random) -> tuple[BooleanExpression, Test]:
    name = chance.choice(list(VALUES))
    value = VALUES[name](chance)
    literal = value.isoformat() if isinstance(value, datetime) else value
    several = [VALUES[name](chance) for _ in range(3)]
    literals = [each.isoformat() if isinstance(each, datetime) else each for each in several]
    comparisons: list[tuple[BooleanExpression, Callable[[Any], bool]]] = [
        (EqualTo(name, literal), lambda mine: mine == value),
        (NotEqualTo(name, literal), lambda mine: mine != value),
        (LessThan(name, literal), lambda mine: mine < value),
        (LessThanOrEqual(name, literal), lambda mine: mine <= value),
        (GreaterThan(name, literal), lambda mine: mine > value),
        (GreaterThanOrEqual(name, literal), lambda mine: mine >= value),
        (In(name, literals), lambda mine: mine in several),
        (NotIn(name, literals), lambda mine: mine not in several),
    ]
    if name == "region":
        comparisons.append((StartsWith(name, value), lambda mine: mine.startswith(value)))
    choice = chance.randrange(len(comparisons) + 2)
    if choice >= len(comparisons):
        wanted = choice == len(comparisons)
        return (IsNull(name) if wanted else NotNull(name)), lambda one: (one[name] is None) is wanted
    expression, compare = comparisons[choice]
    return expression, lambda one: None if one[name] is None else compare(one[name])


def pyiceberg_takes(table: Table, entry: ManifestEntry, where: BooleanExpression) -> bool:
    """What PyIceberg's evaluators say of a file; its whole scan stumbles over null partition values."""
    spec = table.specs()[entry.data_file.spec_id]
    partition_schema = Schema(*spec.partition_type(table.schema()).fields)
    projected = inclusive_projection(table.schema(), spec)(where)
    if not expression_evaluator(partition_schema, projected, case_sensitive=True)(entry.data_file.partition):
        return False
    return _InclusiveMetricsEvaluator(table.schema(), where).eval(entry.data_file)


def test_chosen_files_are_those_that_the_filter_forces(tmp_path: Path) -> None:
    end, rounds, narrowed = time.monotonic() + SECONDS, 0, 0
    while rounds == 0 or time.monotonic() < end:
        seed = random.SystemRandom().randrange(2**32)
        print(f"seed {seed}")  # noqa: T201 - shown when the test fails, to play it again
        chance = random.Random(seed)
        table, rows = table_at_random(tmp_path / str(rounds), chance)
        for _ in range(20):
            where, test = filter_at_random(chance)
            planner = RewriteDataFilesPlanner(
                table.metadata, table.io, where=where, options=RewriteOptions(rewrite_all=True)
            )
            result = planner.plan_with_stats()
            chosen = {path for group in result.to_dict(with_files=True)["groups"] for path in group["files"]}
            must = {path for path, mine in rows.items() if any(test(one) for one in mine)}
            assert must <= chosen, f"{where} misses {must - chosen}"
            planned = {path for path, entry in live_entries(table).items() if pyiceberg_takes(table, entry, where)}
            assert chosen <= planned, f"{where} need not take {chosen - planned}"
            assert result.filter_stats.fail_open_partitions == 0
            assert planner.plan_with_stats().to_dict() == result.to_dict()
            narrowed += len(chosen) < len(rows)
        rounds += 1
    assert narrowed
