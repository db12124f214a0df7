"""Random rows of every type, written by the write kernel under a random spec and read back by ours and PyIceberg's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.commit.change_set import append_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.input_columns import InputColumns
from lakeshift.iceberg.kernels.data_files import FileLayout, to_data_file
from lakeshift.iceberg.kernels.read import FileReader
from lakeshift.iceberg.kernels.write import WriteJob, write_rows
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.read import plan_read
from lakeshift.iceberg.specs import partition_type, writable_spec
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.kernel import Attempt
from tests.conftest import FULL
from tests.tables import local_catalog

pytestmark = pytest.mark.plain

SCHEMA = Schema(
    NestedField(1, "b", BooleanType(), required=False),
    NestedField(2, "i", IntegerType(), required=False),
    NestedField(3, "l", LongType(), required=True),
    NestedField(4, "f", FloatType(), required=False),
    NestedField(5, "d", DoubleType(), required=False),
    NestedField(6, "s", StringType(), required=False),
    NestedField(7, "y", BinaryType(), required=False),
    NestedField(8, "day", DateType(), required=False),
    NestedField(9, "ts", TimestamptzType(), required=False),
    NestedField(10, "ntz", TimestampType(), required=False),
    NestedField(11, "dec", DecimalType(9, 2), required=False),
    NestedField(12, "big", DecimalType(38, 10), required=False),
    NestedField(13, "fix", FixedType(3), required=False),
    NestedField(
        15,
        "st",
        StructType(
            NestedField(16, "x", IntegerType(), required=False), NestedField(17, "n", StringType(), required=True)
        ),
        required=False,
    ),
    NestedField(18, "arr", ListType(19, DoubleType(), element_required=False), required=False),
    NestedField(20, "m", MapType(21, StringType(), 22, LongType(), value_required=False), required=False),
)
ROWS = st.fixed_dictionaries(
    {
        "b": st.none() | st.booleans(),
        "i": st.none() | st.integers(-(2**31) + 10, 2**31 - 1),
        "l": st.integers(-(2**63) + 1000, 2**63 - 1),
        "f": st.none() | st.floats(width=32),
        "d": st.none() | st.floats(),
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        "y": st.none() | st.binary(max_size=20),
        "day": st.none() | st.dates(),
        "ts": st.none() | st.datetimes(timezones=st.just(UTC)),
        "ntz": st.none() | st.datetimes(),
        "dec": st.none() | st.decimals(Decimal("-9999999"), Decimal("9999999"), places=2),
        "big": st.none() | st.decimals(Decimal("-1e27"), Decimal("1e27"), places=10),
        "fix": st.none() | st.binary(min_size=3, max_size=3),
        "st": st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(-9, 9), "n": st.text("ab", max_size=3)}),
        "arr": st.none() | st.lists(st.none() | st.floats(allow_nan=False), max_size=3),
        "m": st.none()
        | st.dictionaries(st.text("ab", max_size=2), st.none() | st.integers(-9, 9), max_size=2).map(
            lambda found: list(found.items())
        ),
    }
)
FIELDS = [
    (2, "truncate[10]"), (3, "bucket[4]"), (3, "truncate[1000]"), (4, "identity"), (5, "identity"), (6, "truncate[2]"),
    (6, "identity"), (7, "truncate[2]"), (7, "identity"), (8, "month"), (9, "hour"), (9, "year"), (10, "day"),
    (11, "truncate[100]"), (12, "bucket[3]"), (13, "identity"), (1, "identity"), (17, "identity"),
    (6, "void"), (8, "bucket[3]"), (12, "identity"),
]  # fmt: skip
_numbers = itertools.count()


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> SqlCatalog:
    return local_catalog(tmp_path_factory.mktemp("round-trip"))


@settings(
    max_examples=400 if FULL else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    print_blob=True,
)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=12),
    fields=st.lists(st.sampled_from(FIELDS), max_size=3, unique_by=lambda field: field[0]),
    codec=st.sampled_from(["zstd", "snappy", "gzip", "uncompressed"]),
    small=st.booleans(),
)
def test_rows_come_back_as_they_were_written(
    catalog: SqlCatalog, rows: list[dict[str, Any]], fields: list[tuple[int, str]], codec: str, small: bool
) -> None:
    properties = {"write.parquet.compression-codec": codec}
    if small:
        properties |= {"write.parquet.row-group-size-bytes": "1", "write.target-file-size-bytes": "1"}
    spec = (
        PartitionSpec(
            *(
                PartitionField(source, 1000 + n, parse_transform(text), f"p{n}")
                for n, (source, text) in enumerate(fields)
            )
        )
        if fields
        else UNPARTITIONED_PARTITION_SPEC
    )
    table = catalog.create_table(f"db.t{next(_numbers)}", SCHEMA, partition_spec=spec, properties=properties)
    came = pa.RecordBatch.from_pylist(
        rows, schema=pa.schema([field.remove_metadata() for field in arrow_schema(SCHEMA)])
    )
    append(table, came)
    expected = sorted(_comparable(row) for row in came.to_pylist(maps_as_pydicts="strict"))
    assert sorted(_comparable(row) for row in ours(table)) == expected
    assert sorted(_comparable(row) for row in table.scan().to_arrow().to_pylist(maps_as_pydicts="strict")) == expected
    # A filter never leaves out the row that it was made for.
    chosen = rows[0]
    where = f"l = {chosen['l']}"
    assert _comparable(_as_read(came, 0)) in [_comparable(row) for row in ours(table, where)]


def append(table: Table, came: pa.RecordBatch) -> None:
    metadata = table.metadata
    spec = writable_spec(metadata)
    struct = partition_type(metadata, spec)
    job = WriteJob(
        FileLayout.of(metadata),
        InputColumns.plan(metadata.schema(), came.schema),
        PartitionValues(metadata.schema(), spec),
        struct,
        PartitionPaths.of(spec, struct),
        DataLocations.of(metadata.location, metadata.properties),
    )
    half = len(came) // 2
    [report] = write_rows(job, table.io, iter([came.slice(0, half), came.slice(half)]), Attempt("op", 0))
    assert report.bad_rows.rows == 0
    commit(table, append_change(metadata, [to_data_file(metadata, file) for file in report.files]))


def ours(table: Table, where: str | None = None) -> Iterator[dict[str, Any]]:
    plan = plan_read(table.metadata, table.io, where=where, session_time_zone="UTC")
    for file in plan.scan.files:
        for batch in FileReader(plan.context, table.io).read(file):
            yield from batch.to_pylist(maps_as_pydicts="strict")


def _as_read(came: pa.RecordBatch, row: int) -> dict[str, Any]:
    found: dict[str, Any] = came.slice(row, 1).to_pylist(maps_as_pydicts="strict")[0]
    return found


def _comparable(value: Any) -> Any:
    """Values as text: NaN equals itself so, and -0.0 is told from 0.0."""
    if isinstance(value, dict):
        return repr(sorted((key, _comparable(item)) for key, item in value.items()))
    if isinstance(value, list):
        return repr([_comparable(item) for item in value])
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return repr(value)
