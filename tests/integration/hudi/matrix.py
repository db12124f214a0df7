"""Every way to read every kind of table, and a choice of them in which each two values still meet."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tests.integration.hudi.tables import KINDS, LAYOUTS, HudiFixture

Case = tuple[str, str, str, str]

QUERIES: dict[str, Callable[[HudiFixture], dict[str, Any]]] = {
    "snapshot": lambda table: {},
    "read_optimized": lambda table: {"read_optimized": True},
    "as_of": lambda table: {"as_of": table.first_commit},
    "incremental": lambda table: {"incremental_from": table.first_completion},
}

SHAPES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "full": lambda df: df,
    "projected": lambda df: df.select("name", "info.geo.lat", "region", "tags"),
    "filtered": lambda df: df.where("region = 'r1' AND id > 60 AND score IS NOT NULL").select("id", "score", "name"),
    "aggregated": lambda df: df.groupBy("region").agg(
        f.count("*"), f.min("id"), f.max("score"), f.sum("amount"), f.count("small"), f.max("day")
    ),
    "joined": lambda df: df.alias("a").join(df.where("id % 3 = 0").alias("b"), "id").select("id", "a.name", "b.at"),
}

AXES = (KINDS, LAYOUTS, tuple(QUERIES), tuple(SHAPES))
ALL: tuple[Case, ...] = tuple(itertools.product(*AXES))


def pairs(case: Case) -> set[tuple[int, str, int, str]]:
    """The pairs of values that meet in a case, each with the axis it is of."""
    return {(i, case[i], j, case[j]) for i, j in itertools.combinations(range(len(case)), 2)}


def pairwise() -> tuple[Case, ...]:
    """A small choice of the cases that has every pair; the first case with most new pairs is taken each time."""
    missing = set().union(*map(pairs, ALL))
    chosen: list[Case] = []
    while missing:
        best = max(ALL, key=lambda case: len(pairs(case) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return tuple(chosen)
