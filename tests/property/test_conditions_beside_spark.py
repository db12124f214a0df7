"""Conditions at random over rows full of edges: Spark over plain rows is the oracle.

Whatever Spark calls true must be let through by what is pushed down; where a translation claims to be exact,
both must agree on every row.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeshift.iceberg.predicates import Translation, translate
from lakeshift.iceberg.row_filter import RowFilter
from tests.conditions import SCHEMA, edge_rows, random_condition
from tests.conftest import FULL

SECONDS = 240 if FULL else 8
AT_ONCE = 40


def _answers(frame: Any, conditions: list[str]) -> Iterator[tuple[str, list[bool]]]:
    """What Spark says of every row, for the conditions that it takes: all at once, or one by one if it rejects some."""
    from pyspark.errors import PySparkException

    try:
        chosen = [f"coalesce(({condition}), false) AS c{n}" for n, condition in enumerate(conditions)]
        rows = frame.selectExpr(*chosen).collect()
        for n, condition in enumerate(conditions):
            yield condition, [row[n] for row in rows]
    except PySparkException:
        if len(conditions) > 1:
            half = len(conditions) // 2
            yield from _answers(frame, conditions[:half])
            yield from _answers(frame, conditions[half:])


@pytest.mark.once_first
@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_conditions_at_random_mean_what_spark_takes_them_for(spark: Any, tmp_path: Path, zone: str) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    print(f"seed {seed}")  # noqa: T201
    rows = edge_rows()
    pq.write_table(rows, tmp_path / "rows.parquet")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = (
            spark.read.option("datetimeRebaseMode", "CORRECTED")
            .parquet(str(tmp_path / "rows.parquet"))
            .coalesce(1)
            .cache()
        )
        frame.count()
        asked = answered = exact = 0
        deadline = time.monotonic() + SECONDS / 2
        while time.monotonic() < deadline:
            # The first round has plain leaves only, so that each form is seen by itself.
            conditions = [random_condition(chance, depth=min(asked // AT_ONCE, 3)) for _ in range(AT_ONCE)]
            asked += len(conditions)
            for condition, expected in _answers(frame, conditions):
                found = translate(condition, SCHEMA, session_time_zone=zone)
                answered += 1
                exact += found.exact
                _check(rows, condition, found, expected, seed)
        assert answered > asked * 0.5, (asked, answered)
        assert exact > answered * 0.3, (answered, exact)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def _check(rows: pa.Table, condition: str, found: Translation, expected: list[bool], seed: int) -> None:
    mask = RowFilter(found.pushed, SCHEMA).mask(rows).to_pylist()
    differing = [
        rows.slice(row, 1).to_pylist()[0]
        for row, (ours, spark_s) in enumerate(zip(mask, expected, strict=True))
        if (spark_s and not ours) or (found.exact and ours != spark_s)
    ]
    assert not differing, f"seed {seed}: {condition} -> {found.pushed} (exact {found.exact}) differs on {differing[:2]}"
