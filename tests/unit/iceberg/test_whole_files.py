"""Files that match wholly: only where every row is known to match, to Spark."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.commit.change_set import append_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.file_filter import FILTER_COLUMNS
from lakeshift.iceberg.kernels.data_files import FileLayout, to_data_file
from lakeshift.iceberg.kernels.partitioned_writer import PartitionedWriter
from lakeshift.iceberg.ledger import read_ledger
from lakeshift.iceberg.partitioning import build_partition_spec
from lakeshift.iceberg.predicates import translate
from lakeshift.iceberg.row_filter import RowFilter
from lakeshift.iceberg.specs import partition_type
from lakeshift.iceberg.whole_files import files_that_match_wholly
from lakeshift.kernel import Attempt
from tests.tables import data_file, local_catalog

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "amount", DoubleType(), required=False),
)
NAN, INF = math.nan, math.inf

Judge = Callable[..., list[bool]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Which files of the given rows match a condition wholly."""
    catalog = local_catalog(tmp_path)

    def ask(where: str, *files: list[dict[str, Any]], by: str | None = None, ours: bool = True) -> list[bool]:
        spec = build_partition_spec(SCHEMA, [by] if by else [])
        table = catalog.create_table(f"db.t{len(catalog.list_tables('db'))}", SCHEMA, partition_spec=spec)
        written = [_written(table, rows) if ours else data_file(table, rows) for rows in files]
        commit(table, append_change(table.metadata, written))
        ledger = read_ledger(table.metadata, table.io, columns=[*FILTER_COLUMNS, "file_path"])
        found = translate(where, SCHEMA)
        assert found.exact
        spec_id, rows = next(iter(ledger.data.items()))
        whole = files_that_match_wholly(found.pushed, spec_id, rows, table.metadata, table.schema())
        by_path = dict(zip(rows.column("file_path").to_pylist(), whole.to_pylist(), strict=True))
        return [by_path[file.file_path] for file in written]

    return ask


def _written(table: Any, rows: list[dict[str, Any]]) -> Any:
    """A file by our own writer, which counts NaN."""
    spec = table.spec()
    struct = partition_type(table.metadata, spec)
    writer = PartitionedWriter(
        FileLayout.of(table.metadata),
        spec.spec_id,
        struct,
        lambda _, name: f"{table.location()}/data/{name}",
        table.io,
        Attempt("test", 0),
    )
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(SCHEMA))
    partition = tuple(rows[0][spec_field.name] for spec_field in spec.fields)
    writer.add([(partition, batch)], batch.nbytes)
    return to_data_file(table.metadata, writer.finish()[0])


def rows(*amounts: float | None, region: str | None = "eu") -> list[dict[str, Any]]:
    return [{"id": n, "region": region, "amount": amount} for n, amount in enumerate(amounts)]


def test_bounds_decide_where_nothing_is_null_or_nan(judge: Judge) -> None:
    files = rows(1.0, 2.0), rows(1.0, 9.0), rows(1.0, None), rows(1.0, NAN), rows(-0.0, 0.0)
    assert judge("amount < 5", *files) == [True, False, False, False, True]
    assert judge("amount = 0", *files) == [False, False, False, False, True]
    assert judge("amount != 7", *files) == [True, False, False, False, True]
    assert judge("amount > 0.5", rows(1.0, INF), rows(1.0, NAN)) == [True, False]
    assert judge("amount IS NULL", rows(None, None), rows(None, 1.0)) == [True, False]
    assert judge("amount NOT IN (7.0, 8.0)", *files[:3]) == [True, False, False]


def test_a_column_of_nulls_matches_no_comparison(judge: Judge) -> None:
    nothing = rows(1.0, region=None)
    for where in ("region != 'eu'", "region NOT IN ('eu')", "NOT region = 'eu'", "region NOT LIKE 'e%'"):
        assert judge(where, nothing) == [False], where
        assert judge(where, nothing, by="region") == [False], where
    assert judge("region IS NULL", nothing, by="region") == [True]


def test_files_without_nan_counts_are_not_trusted(judge: Judge) -> None:
    # PyIceberg's statistics do not fill them in.
    assert judge("amount < 5", rows(1.0, 2.0), ours=False) == [False]
    assert judge("id < 5", rows(1.0, 2.0), ours=False) == [True]


def test_identity_partitions_decide_without_bounds(judge: Judge) -> None:
    long = "x" * 40  # longer than bounds keep
    assert judge(f"region = '{long}'", rows(1.0, region=long)) == [False]
    assert judge(f"region = '{long}'", rows(1.0, region=long), rows(1.0), by="region") == [True, False]
    assert judge("region LIKE 'eu%'", rows(1.0, region="europe"), rows(1.0, region="us")) == [True, False]


VALUES = st.one_of(st.none(), st.sampled_from([NAN, INF, -INF, -0.0, 0.0]), st.integers(-3, 3).map(float))
CONDITIONS = [
    *(f"amount {sign} {number}" for sign in ("<", "<=", "=", "!=", ">=", ">") for number in ("-1", "0", "2")),
    "amount IN (0, 1)",
    "amount NOT IN (0, NULL)",
    "NOT (amount > 0 OR region = 'eu')",
    "amount BETWEEN -1 AND 1",
    "amount IS NULL OR region = 'eu'",
    "isnan(amount)",
    "NOT isnan(amount)",
]


@settings(deadline=None, max_examples=25)
@given(st.lists(VALUES, min_size=1, max_size=4), st.sampled_from(["eu", None]), st.sampled_from(CONDITIONS))
def test_no_file_is_dropped_that_has_a_row_which_does_not_match(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], region: str | None, where: str
) -> None:
    table = local_catalog(tmp_path_factory.mktemp("whole")).create_table("db.t", SCHEMA)
    found = rows(*values, region=region)
    commit(table, append_change(table.metadata, [_written(table, found)]))
    ledger = read_ledger(table.metadata, table.io, columns=FILTER_COLUMNS)
    said = translate(where, SCHEMA)
    whole = files_that_match_wholly(said.pushed, 0, ledger.data[0], table.metadata, SCHEMA).to_pylist()
    batch = pa.RecordBatch.from_pylist(found, schema=arrow_schema(SCHEMA))
    matches = RowFilter(said.pushed, SCHEMA).mask(batch).to_pylist()
    assert not whole[0] or all(matches)
