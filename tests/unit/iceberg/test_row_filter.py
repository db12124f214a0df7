"""Expressions by row, and row groups left out by their statistics: neither may change what the other finds."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec

from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.kernels.read import FileToRead, ReadContext, read_file
from lakeshift.iceberg.predicates import translate
from lakeshift.iceberg.row_filter import RowFilter
from tests.conditions import SCHEMA, edge_rows, random_condition
from tests.conftest import FULL


@pytest.mark.parametrize(
    ("where", "column", "expected"),
    [
        ("x > 1e300", "x", [math.inf, math.nan]),
        ("x >= double('NaN')", "x", [math.nan]),
        ("x <> double('NaN') AND x > 1e300", "x", [math.inf]),
        ("x = 0", "x", [0.0, -0.0]),
        ("x IN (0, 5)", "x", [0.0, -0.0]),
        ("NOT (x <= 1e300)", "x", [math.inf, math.nan]),
        ("s < 'a'", "s", ["", "5", "5.0", "Ab"]),
        ("s > 'true'", "s", ["é", "\U0001f600"]),
        ("l NOT IN (0, 5, -5)", "l", [2**53 + 1, 2**63 - 1, -(2**63)]),
        ("st.a IS NULL", "st", [{"a": None}, None]),
        ("st.a <> 4", "st", [{"a": 5}]),
    ],
)
def test_rows_match_as_spark_would_have_it(where: str, column: str, expected: list[Any]) -> None:
    found = translate(where, SCHEMA)
    assert found.exact
    row_filter = RowFilter(found.pushed, SCHEMA)
    rows = edge_rows()
    values = rows.filter(row_filter.mask(rows)).column(column).to_pylist()
    assert {repr(value) for value in values} == {repr(value) for value in expected}
    assert row_filter.needed_schema().as_struct().fields[0].name == column


def test_no_row_is_lost_with_the_row_groups_that_cannot_match(tmp_path: Path) -> None:
    rows = edge_rows().cast(arrow_schema(SCHEMA))
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=2)
    file = FileToRead(str(tmp_path / "rows.parquet"), "PARQUET", 0, 0, (), rows.num_rows)
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    read = 0
    rounds = 3000 if FULL else 150
    for _ in range(rounds):
        where = random_condition(chance, depth=chance.randint(0, 2))
        found = translate(where, SCHEMA, session_time_zone="UTC")
        context = ReadContext(
            SCHEMA, ("i",), (SCHEMA,), {0: PartitionSpec()}, where=found.pushed, metadata_columns=("_pos",)
        )
        positions = {row for batch in read_file(file, context, PyArrowFileIO()) for row in batch["_pos"].to_pylist()}
        matching = pa.array(range(rows.num_rows)).filter(RowFilter(found.pushed, SCHEMA).mask(rows.to_batches()[0]))
        assert set(matching.to_pylist()) <= positions, f"seed {seed}: {where}"
        read += len(positions)
    assert read < 0.9 * rounds * rows.num_rows
