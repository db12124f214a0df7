"""Partition values and paths beside Iceberg Java's: every transform on every type, at the edges, on the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
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
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.partition_split import partition_tuples
from lakeshift.iceberg.partition_types import partition_field_type
from lakeshift.iceberg.transforms import PartitionValues
from tests.peer_iceberg import PeerTable
from tests.tables import local_catalog

DAY, HOUR, SECOND = 86_400_000_000, 3_600_000_000, 1_000_000
NUMBERS = ["identity", "bucket[16]", "truncate[10]"]
MOMENTS = ["identity", "bucket[16]", "year", "month", "day", "hour"]
HOSTILE = [
    "",
    ".",
    "../../etc",
    "/",
    "%2F",
    "a=b",
    "a b+c",
    "~*-_.",
    "\x00\n\x7f",
    "é",
    "日本語です",
    "𝄞😀xyz",
    "null",
    "#?&:\\\"'<>|",
]


@dataclass(frozen=True)
class Column:
    """A column of the table: its transforms, and values as Arrow stores them."""

    type: IcebergType
    transforms: list[str]
    values: list[Any]


def unscaled(values: list[int], scale: int) -> list[Decimal]:
    return [Decimal((value < 0, tuple(map(int, str(abs(value)))), -scale)) for value in values]


MICROS = [
    *(0, 1, -1, SECOND, -SECOND, HOUR - 1, HOUR, -HOUR, -HOUR - 1, -HOUR + 1, DAY - 1, -DAY, -DAY - 1),
    *(-365 * DAY, -365 * DAY - 1, 1_767_225_599_999_999, -62_135_596_800_000_000, 253_402_300_800_000_000, 7 * 10**18),
]
DAYS = [0, 1, -1, 364, 365, -365, -366, -719_162, -719_529, 3_000_000, 2**31 - 1, -(2**31) + 1]
DOUBLES = [0.0, -0.0, 0.1, math.nan, math.inf, -math.inf, 1e7, 9999999.5, 1e-3, 5e-4]
SMALL = [0, 1, -1, 127, 128, -128, -129, 1005, -1005, 10**9 - 1]
WIDE = [0, 1, -1, 10**37, -(10**37), 2**100, -(2**100) - 7]
BYTES = [b"", b"\x00", b"ab", b"abc", b"\xff\xfe\xfd"]
COLUMNS = {
    "flag": Column(BooleanType(), ["identity"], [True, False]),
    "int": Column(IntegerType(), NUMBERS, [0, 1, -1, 9, 10, -10, -11, 2**31 - 1, -(2**31) + 8]),
    "long": Column(LongType(), NUMBERS, [0, 1, -1, -10, -11, 2**63 - 1, -(2**63) + 8, 2**32]),
    "float": Column(FloatType(), ["identity"], [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 0.25, 1e10]),
    "double": Column(DoubleType(), ["identity"], DOUBLES),
    "small": Column(DecimalType(9, 2), NUMBERS, unscaled(SMALL, scale=2)),
    "wide": Column(DecimalType(38, 10), NUMBERS, unscaled(WIDE, scale=10)),
    "text": Column(StringType(), ["identity", "bucket[16]", "truncate[3]", "truncate[1]"], [*HOSTILE, "abc", "abcd"]),
    "bytes": Column(BinaryType(), ["identity", "bucket[16]", "truncate[2]"], BYTES),
    "fixed": Column(FixedType(3), ["identity", "bucket[16]"], [b"abc", b"\x00\xff\x7f"]),
    "uuid": Column(UUIDType(), ["identity", "bucket[16]"], [bytes(range(16)), b"\xff" * 16]),
    "day": Column(DateType(), ["identity", "bucket[16]", "year", "month", "day"], DAYS),
    "time": Column(TimeType(), ["identity", "bucket[16]"], [0, 1, 1000, SECOND, 60 * SECOND, DAY - 1]),
    "ntz": Column(TimestampType(), MOMENTS, MICROS),
    "tz": Column(TimestamptzType(), MOMENTS, MICROS),
}
ROWS = max(len(column.values) for column in COLUMNS.values()) + 1


def edges_schema() -> Schema:
    fields = [NestedField(1, "id", LongType(), required=True)]
    fields += [NestedField(n, name, column.type) for n, (name, column) in enumerate(COLUMNS.items(), 2)]
    return Schema(*fields, NestedField(100, "place", StructType(NestedField(101, "city", StringType()))))


def edges(schema: Schema) -> pa.Table:
    """A row for each edge; the last row is null everywhere, shorter columns start over before it."""
    kinds = arrow_schema(schema)
    arrays = [pa.array(range(ROWS), pa.int64())]
    for name in kinds.names[1:-1]:
        column = COLUMNS[name]
        values = [column.values[row % len(column.values)] for row in range(ROWS - 1)]
        kind = kinds.field(name).type
        plain = pa.int32() if kind == pa.date32() else pa.int64() if pa.types.is_temporal(kind) else kind
        arrays.append(pa.array([*values, None], plain).cast(kind))
    cities = [{"city": "Oslo"}, {"city": None}, None]
    arrays.append(pa.array([cities[row % 3] for row in range(ROWS)], kinds.field("place").type))
    return pa.Table.from_arrays(arrays, schema=kinds)


@dataclass(frozen=True)
class Beside:
    """The same rows in a table that both engines know."""

    table: Table
    peer: PeerTable
    catalog: str
    rows: pa.RecordBatch


@pytest.fixture(scope="module")
def beside(spark: Any, java_catalog: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> Beside:
    warehouse = tmp_path_factory.mktemp("transforms")
    name = java_catalog(warehouse)
    catalog = local_catalog(warehouse, name)
    # Years beyond 9999 have no bounds in Python.
    properties = {"write.metadata.metrics.default": "none"}
    table = catalog.create_table("db.edges", edges_schema(), properties=properties)
    rows = edges(table.schema())
    table.append(rows)
    # Spark knows no time of day, and no table that has one.
    known = [column for column in edges_schema().column_names if column not in ("time", "place.city")]
    timeless = catalog.create_table("db.timeless", edges_schema().select(*known), properties=properties)
    timeless.append(edges(timeless.schema()))
    (batch,) = rows.combine_chunks().to_batches()
    return Beside(table, PeerTable(spark, f"{name}.db.edges"), name, batch)


def all_specs(schema: Schema) -> list[PartitionSpec]:
    """One spec for the first transform of every column, one for the second, and so on."""
    depth = max(len(column.transforms) for column in COLUMNS.values())
    specs = []
    for position in range(depth):
        chosen = {n: c.transforms[position] for n, c in COLUMNS.items() if position < len(c.transforms)}
        fields = [
            PartitionField(schema.find_field(name).field_id, 1000 + number, parse_transform(transform), f"{name}=/p")
            for number, (name, transform) in enumerate(chosen.items())
        ]
        specs.append(PartitionSpec(*fields, spec_id=position))
    nested = schema.find_field("place.city").field_id
    return [*specs, PartitionSpec(PartitionField(nested, 1000, parse_transform("truncate[2]"), "city"), spec_id=depth)]


def our_paths(schema: Schema, spec: PartitionSpec, rows: pa.RecordBatch) -> list[str]:
    kinds = StructType(
        *(NestedField(f.field_id, f.name, partition_field_type(f, [schema]), required=False) for f in spec.fields)
    )
    paths = PartitionPaths.of(spec, kinds)
    return [paths.path(partition) for partition in partition_tuples(PartitionValues(schema, spec).compute(rows))]


def test_values_and_paths_are_those_of_java(beside: Beside) -> None:
    schema = beside.table.schema()
    compared = 0
    for spec in all_specs(schema):
        ours = our_paths(schema, spec, beside.rows)
        for row, (mine, theirs) in enumerate(zip(ours, beside.peer.partition_paths(spec), strict=True)):
            assert mine.split("/") == theirs.split("/"), f"row {row} of {spec}"
            compared += len(spec.fields)
    assert compared == ROWS * (1 + sum(len(column.transforms) for column in COLUMNS.values()))


def test_values_are_those_of_sparks_functions(spark: Any, beside: Beside) -> None:
    """What Spark distributes and sorts rows by is computed by other code than what it writes."""
    functions = {"year": "years({})", "month": "months({})", "day": "days({})", "hour": "hours({})"}
    functions |= {f"{kind}[{n}]": f"{kind}({n}, {{}})" for kind in ("bucket", "truncate") for n in (1, 2, 3, 10, 16)}
    asked = [
        (column, transform, f"{beside.catalog}.system.{functions[transform].format(column)}")
        for column, what in COLUMNS.items()
        for transform in what.transforms
        if transform in functions and column not in ("time", "uuid", "fixed")
    ]
    # Dates come as numbers, since Python's end with year 9999.
    shown = [f"unix_date({call})" if transform == "day" else call for _, transform, call in asked]
    found = spark.sql(f"SELECT {', '.join(shown)} FROM {beside.catalog}.db.timeless ORDER BY id").collect()
    schema = beside.table.schema()
    for position, (column, transform, _) in enumerate(asked):
        field = PartitionField(schema.find_field(column).field_id, 1000, parse_transform(transform), "p")
        (values,) = PartitionValues(schema, PartitionSpec(field)).compute(beside.rows)
        theirs = [bytes(row[position]) if isinstance(row[position], bytearray) else row[position] for row in found]
        assert values.to_pylist() == theirs, f"{transform} of {column}"


def test_locations_are_those_of_java(beside: Beside) -> None:
    location = "s3://bucket/warehouse/db/events"
    for properties in [
        {},
        {"write.data.path": "s3://other/place/"},
        {"write.object-storage.enabled": "true"},
        {"write.object-storage.enabled": "true", "write.data.path": "s3://other/place"},
        {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"},
    ]:
        for name in ("00000-1-a.parquet", "x.parquet", "region=eu/y.parquet"):
            assert DataLocations.of(location, properties).place(name) == beside.peer.data_location(
                location, properties, name
            )


def test_where_java_goes_wrong_we_do_not_follow(spark: Any, beside: Beside) -> None:
    """Java's results that its own filters would not find: rows that lakeshift refuses, or puts where they belong."""
    jvm = spark._jvm.org.apache.iceberg.util
    # Wrapped around: a negative number in a positive partition, a far future in the past.
    assert jvm.TruncateUtil.truncateInt(10, -(2**31)) == 2147483646
    assert jvm.DateTimeUtil.microsToHours(2**63 - 1) < 0
    assert jvm.TruncateUtil.truncateInt(2**31 - 1, 5) < 0
    table = f"{beside.catalog}.db.wrapped"
    spark.sql(f"CREATE TABLE {table} (x int) USING iceberg PARTITIONED BY (truncate(10, x))")
    spark.sql(f"INSERT INTO {table} VALUES (int(-2147483648))")
    assert spark.sql(f"SELECT x FROM {table}").count() == 1
    assert spark.sql(f"SELECT x FROM {table} WHERE x < 0").count() == 0
    # A decimal that rounds down to one digit more than its type has cannot go into a manifest.
    with pytest.raises(Exception, match="too large"):
        jvm.DecimalUtil.toReusedFixLengthBytes(4, 2, Decimal("-100.00"), bytearray(2))
    # The last microsecond of the first second of an hour before 1970 is put one hour too early.
    moment = -HOUR + SECOND - 1
    assert jvm.DateTimeUtil.microsToHours(moment) == -2
    schema = Schema(NestedField(1, "ts", TimestampType()))
    spec = PartitionSpec(PartitionField(1, 1000, parse_transform("hour"), "h"))
    rows = pa.record_batch([pa.array([moment], pa.int64()).cast(pa.timestamp("us"))], ["ts"])
    assert PartitionValues(schema, spec).compute(rows)[0].to_pylist() == [-1]
    # Java looks one partition further on its own account, so that it finds the row where we put it.
    assert beside.peer.projected_hours(moment) == {-2, -1}


def test_nanoseconds_are_those_of_java(spark: Any) -> None:
    """No engine of ours writes tables with such columns yet, but the numbers must be right when one does."""
    jvm = spark._jvm.org.apache.iceberg.util
    nanos = [0, -1, 999, -1000, -1001, 1_767_225_599_999_999_999, 2**63 - 1, -(2**63) + 1]
    schema = Schema(NestedField(1, "ts", TimestampNanoType()))
    rows = pa.record_batch([pa.array(nanos, pa.int64()).cast(pa.timestamp("ns"))], ["ts"])
    java = {
        "year": jvm.DateTimeUtil.nanosToYears,
        "month": jvm.DateTimeUtil.nanosToMonths,
        "day": jvm.DateTimeUtil.nanosToDays,
        "hour": jvm.DateTimeUtil.nanosToHours,
        "bucket[16]": lambda value: (jvm.BucketUtil.hash(jvm.DateTimeUtil.nanosToMicros(value)) & (2**31 - 1)) % 16,
    }
    for transform, function in java.items():
        spec = PartitionSpec(PartitionField(1, 1000, parse_transform(transform), "p"))
        values = PartitionValues(schema, spec).compute(rows)[0].to_pylist()
        assert values == [function(value) for value in nanos], transform
