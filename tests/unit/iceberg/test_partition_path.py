"""Partition paths and file locations, for ordinary values and for hostile ones."""

from __future__ import annotations

import math
import pickle
import posixpath
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.locations import load_location_provider
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
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths

HOSTILE = [
    "",
    ".",
    "..",
    "../../etc/passwd",
    "/",
    "a/b",
    "%2F",
    "a=b",
    "a b",
    "~*",
    "\x00\n\x7f",
    "é😀",
    "null",
    "#?&+\\:",
]


def paths(*fields: tuple[str, str, IcebergType]) -> PartitionPaths:
    spec = PartitionSpec(
        *(
            PartitionField(n, 1000 + n, parse_transform(transform), name)
            for n, (name, transform, _) in enumerate(fields)
        )
    )
    kinds = StructType(*(NestedField(1000 + n, name, kind) for n, (name, _, kind) in enumerate(fields)))
    return pickle.loads(pickle.dumps(PartitionPaths.of(spec, kinds)))


@pytest.mark.parametrize(
    ("transform", "kind", "value", "text"),
    [
        ("year", IntegerType(), 56, "2026"),
        ("year", IntegerType(), -1975, "-005"),
        ("month", IntegerType(), -1, "1969-12"),
        ("day", DateType(), 20_454, "2026-01-01"),
        ("day", DateType(), -1, "1969-12-31"),
        ("day", DateType(), 3_000_000, "10183-09-21"),
        ("hour", IntegerType(), -1, "1969-12-31-23"),
        ("hour", IntegerType(), 20_454 * 24 + 5, "2026-01-01-05"),
        ("bucket[16]", IntegerType(), 3, "3"),
        ("identity", DateType(), 20_454, "2026-01-01"),
        ("identity", TimeType(), 3_600_000_000, "01:00"),
        ("identity", TimeType(), 61_500_000, "00:01:01.500"),
        ("identity", TimestampType(), 1_500_000, "1970-01-01T00:00:01.5"),
        ("identity", TimestampType(), -1, "1969-12-31T23:59:59.999999"),
        ("identity", TimestamptzType(), 0, "1970-01-01T00:00:00+00:00"),
        ("identity", TimestampNanoType(), -1, "1969-12-31T23:59:59.999999999"),
        ("identity", BooleanType(), True, "true"),
        ("identity", DoubleType(), math.nan, "NaN"),
        ("identity", DoubleType(), -math.inf, "-Infinity"),
        ("identity", DoubleType(), 1e7, "1.0E7"),
        ("identity", FloatType(), 0.10000000149011612, "0.1"),
        ("identity", DecimalType(9, 2), Decimal("-12.50"), "-12.50"),
        ("identity", DecimalType(9, 8), Decimal("1E-8"), "1E-8"),
        ("identity", UUIDType(), UUID(int=1).bytes, "00000000-0000-0000-0000-000000000001"),
        ("identity", UUIDType(), UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("truncate[2]", BinaryType(), b"\xff\xfe", "//4="),
        ("identity", FixedType(2), b"ab", "YWI="),
        ("identity", StringType(), None, "null"),
        ("void", StringType(), None, "null"),
    ],
)  # fmt: skip
def test_values_as_people_read_them(transform: str, kind: IcebergType, value: Any, text: str) -> None:
    made = paths(("k", "identity", StringType()), ("p", transform, kind)).path(("x", value))
    escaped = text.replace("/", "%2F").replace("=", "%3D").replace(":", "%3A").replace("+", "%2B")
    assert made == f"k=x/p={escaped}"


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_never_leaves_its_segment(value: str) -> None:
    made = paths((value or "p", "identity", StringType()), ("q", "truncate[99]", StringType())).path((value, value))
    location = DataLocations.of("file:///lake/t", {}).place("f.parquet", made)
    assert location.startswith("file:///lake/t/data/")
    assert posixpath.normpath(location) == posixpath.normpath("file:///") + location.removeprefix("file://")
    assert made.count("/") == 1
    assert made.isascii()
    assert made.isprintable()
    assert " " not in made


def test_long_values_are_cut_within_every_limit() -> None:
    long, alike = "日本" * 5000, "日本" * 5000 + "x"
    made = paths(("p", "identity", StringType()))
    assert len(made.path(("a" * 253,))) == 255
    for value in (long, alike, "a" * 254):
        segment = made.path((value,))
        assert len(segment) <= 255
        assert segment.startswith("p=")
        head, mark = segment.split("~")
        assert len(mark) == 16
        assert not head.endswith(("%", "%E", "%9"))
    assert made.path((long,)) != made.path((alike,)) == made.path((alike,))
    many = paths(*((f"field{n}", "identity", StringType()) for n in range(12)))
    path = many.path((long,) * 11 + ("short",))
    assert len(path) <= 700
    assert path.endswith("/field11=short")


def test_an_unpartitioned_spec_has_no_path() -> None:
    assert PartitionPaths.of(PartitionSpec(), StructType()).path(()) == ""
    assert paths(("gone", "void", StringType())).path((None,)) == ""
    assert DataLocations.of("s3://b/t/", {}).place("f.parquet", "") == "s3://b/t/data/f.parquet"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"write.data.path": "s3://elsewhere/x/"},
        {"write.object-storage.enabled": "true"},
        {"write.object-storage.enabled": "True", "write.object-storage.partitioned-paths": "false"},
    ],
    ids=str,
)
def test_locations_are_those_of_pyiceberg(properties: dict[str, str]) -> None:
    ours = pickle.loads(pickle.dumps(DataLocations.of("s3://bucket/db/t", properties)))
    theirs = load_location_provider("s3://bucket/db/t", properties)
    for name in ("a.parquet", "00000-b.parquet", "é.parquet"):
        assert ours.place(name) == theirs.new_data_location(name)


def test_hashed_files_outside_the_table_name_it() -> None:
    """PyIceberg leaves the names out, where Java has them."""
    properties = {"write.object-storage.enabled": "true", "write.data.path": "s3://shared/files"}
    located = DataLocations.of("s3://bucket/warehouse/db/events", properties).place("f.parquet", "region=eu")
    start, entropy, rest = located[:18], located[18:41], located[41:]
    assert (start, rest) == ("s3://shared/files/", "/db/events/region=eu/f.parquet")
    assert set(entropy) <= set("01/")
    without = DataLocations.of(
        "s3://bucket/db/t", {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"}
    ).place("f.parquet", "region=eu")
    assert "region" not in without
    assert without.endswith("-f.parquet")


@pytest.mark.parametrize(
    "key",
    [
        "write.location-provider.impl",
        "write.py-location-provider.impl",
        "write.object-storage.path",
        "write.folder-storage.path",
    ],
)
def test_properties_that_cannot_be_honoured_are_refused(key: str) -> None:
    with pytest.raises(UnsupportedTableError, match=f"{key}=com.example.*Nothing was written"):
        DataLocations.of("s3://b/t", {key: "com.example.Custom"})


def test_a_flag_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(ConfigError, match="write.object-storage.enabled is 'yes'"):
        DataLocations.of("s3://b/t", {"write.object-storage.enabled": "yes"})
