"""Spark SQL conditions as Iceberg expressions: what is pushed, what is exact, what is left to Spark."""

from __future__ import annotations

import pickle
from decimal import Decimal

import pytest
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.expressions.literals import DateLiteral, TimestampLiteral
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
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
    UUIDType,
)

from lakeshift.errors import ConfigError
from lakeshift.iceberg.predicates import translate

SCHEMA = Schema(
    NestedField(1, "i", IntegerType()),
    NestedField(2, "l", LongType()),
    NestedField(3, "f", FloatType()),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "dec", DecimalType(10, 2)),
    NestedField(6, "s", StringType()),
    NestedField(7, "d", DateType()),
    NestedField(8, "ts", TimestamptzType()),
    NestedField(9, "ntz", TimestampType()),
    NestedField(10, "b", BooleanType()),
    NestedField(
        11,
        "st",
        StructType(NestedField(12, "a", IntegerType()), NestedField(13, "r", IntegerType(), required=True)),
    ),
    NestedField(14, "dotted.name", StringType()),
    NestedField(15, "u", UUIDType()),
    NestedField(16, "m", MapType(17, StringType(), 18, IntegerType())),
    NestedField(19, "arr", ListType(20, IntegerType())),
    NestedField(21, "bin", BinaryType()),
    NestedField(22, "wide", DecimalType(38, 30)),
    NestedField(23, "Mixed", IntegerType()),
)


def _not_null(name: str, expression: BooleanExpression) -> BooleanExpression:
    return And(expression, NotNull(name))


EXACT = {
    "i = 5": EqualTo("i", 5),
    "5 < i": GreaterThan("i", 5),
    "i == -5": EqualTo("i", -5),
    "l <= 5L": LessThanOrEqual("l", 5),
    "l = -9223372036854775808": EqualTo("l", -(2**63)),
    "i <> 5": _not_null("i", NotEqualTo("i", 5)),
    "NOT i = 5": _not_null("i", NotEqualTo("i", 5)),
    "NOT i < 5": GreaterThanOrEqual("i", 5),
    "i < 5000000000": NotNull("i"),
    "i > 5000000000": AlwaysFalse(),
    "NOT i > 5000000000": NotNull("i"),
    "i IN (1, 2)": In("i", {1, 2}),
    "i IN (1, 5000000000)": EqualTo("i", 1),
    "i NOT IN (1, 2)": _not_null("i", NotIn("i", {1, 2})),
    "i IN (1, 2, NULL)": In("i", {1, 2}),
    "i NOT IN (1, NULL)": AlwaysFalse(),
    "i = NULL": AlwaysFalse(),
    "NOT (i = NULL)": AlwaysFalse(),
    "i <=> 5": EqualTo("i", 5),
    "i <=> NULL": IsNull("i"),
    "NOT (i <=> 5)": Or(_not_null("i", NotEqualTo("i", 5)), IsNull("i")),
    "i IS DISTINCT FROM 5": Or(_not_null("i", NotEqualTo("i", 5)), IsNull("i")),
    "i IS NULL": IsNull("i"),
    "isnotnull(i)": NotNull("i"),
    "i BETWEEN 1 AND 2": And(GreaterThanOrEqual("i", 1), LessThanOrEqual("i", 2)),
    "i NOT BETWEEN 1 AND 2": Or(LessThan("i", 1), GreaterThan("i", 2)),
    "b": EqualTo("b", True),
    "NOT b": EqualTo("b", False),
    "!b": EqualTo("b", False),
    "b = true": EqualTo("b", True),
    "b IS NOT TRUE": Or(EqualTo("b", False), IsNull("b")),
    "(i = 1) IS NULL": IsNull("i"),
    "x < 0": LessThan("x", 0.0),
    "x > 1.5": Or(GreaterThan("x", 1.5), IsNaN("x")),
    "NOT x <= 1.5": Or(GreaterThan("x", 1.5), IsNaN("x")),
    "NOT x > 1.5": LessThanOrEqual("x", 1.5),
    "x = double('NaN')": IsNaN("x"),
    "x <= double('NaN')": NotNull("x"),
    "x = double('-Infinity')": EqualTo("x", float("-inf")),
    "isnan(x)": IsNaN("x"),
    "f = 0.5": EqualTo("f", 0.5),
    "f = 16777216": EqualTo("f", 16777216.0),
    "dec = 5": EqualTo("dec", Decimal("5.00")),
    "dec < -5.5": LessThan("dec", Decimal("-5.50")),
    "dec = 5.5BD": EqualTo("dec", Decimal("5.50")),
    "s = 'abc'": EqualTo("s", "abc"),
    "s LIKE 'ab%'": StartsWith("s", "ab"),
    "s NOT LIKE 'ab%'": _not_null("s", NotStartsWith("s", "ab")),
    "s LIKE 'ab'": EqualTo("s", "ab"),
    "s LIKE '%'": NotNull("s"),
    "startswith(s, 'ab')": StartsWith("s", "ab"),
    "d = '2026-01-01'": EqualTo("d", DateLiteral(20454)),
    "d >= DATE '1969-12-31'": GreaterThanOrEqual("d", DateLiteral(-1)),
    "ts = '2026-01-01'": EqualTo("ts", TimestampLiteral(1767222000000000)),
    "ts = '2026-07-01 12:00:00.5'": EqualTo("ts", TimestampLiteral(1782900000500000)),
    "ts = TIMESTAMP '2026-01-01 00:00:00Z'": EqualTo("ts", TimestampLiteral(1767225600000000)),
    "ts = '2026-03-29T02:30:00+05:30'": EqualTo("ts", TimestampLiteral(1774731600000000)),
    "ntz = '2026-01-01 00:00'": EqualTo("ntz", TimestampLiteral(1767225600000000)),
    "ntz > TIMESTAMP_NTZ '2026-03-29 02:30:00'": GreaterThan("ntz", TimestampLiteral(1774751400000000)),
    "ntz > DATE '2026-01-01'": GreaterThan("ntz", TimestampLiteral(1767225600000000)),
    "st.a = 1": EqualTo("st.a", 1),
    "`dotted.name` = 'x'": EqualTo("dotted.name", "x"),
    "MIXED = 1": EqualTo("Mixed", 1),
    "true": AlwaysTrue(),
    "NULL OR i = 1": EqualTo("i", 1),
    "(i = 1 OR s = 'a') AND NOT (b AND l = 2)": And(
        Or(EqualTo("i", 1), EqualTo("s", "a")),
        Or(EqualTo("b", False), _not_null("l", NotEqualTo("l", 2))),
    ),
}


@pytest.mark.parametrize("where", EXACT)
def test_conditions_that_iceberg_can_say_are_translated_exactly(where: str) -> None:
    found = translate(where, SCHEMA, session_time_zone="Europe/Berlin")
    assert found.pushed == EXACT[where]
    assert found.exact
    assert found.remainder == ()
    assert pickle.loads(pickle.dumps(found)) == found


LEFT_TO_SPARK = [
    "i = '5'",
    "i = 5.5",
    "i = 5.0",
    "l = 99999999999999999999",
    "l = 1e3",
    "l = CAST(300 AS TINYINT)",
    "l = CAST(5.7 AS BIGINT)",
    "l = CAST('5' AS BIGINT)",
    "i IN (1, '2')",
    "i IN (1, l)",
    "i IN (SELECT 1)",
    "(i, l) IN ((1, 2))",
    "s = 5",
    "s IN ('a', 5)",
    "s < X'00'",
    "f = 0.1",
    "f = 16777217",
    "f = double('Infinity')",
    "i = double('NaN')",
    "dec = 5.555",
    "dec = 123456789.0",
    "dec = 1e0",
    "wide = 5",
    "d = '2026-1-1'",
    "d = '2026-02-30'",
    "d = '2026-01-01 00:00:00'",
    "d < TIMESTAMP '2026-01-01 00:00:00'",
    "ts = '2026-03-29 02:30:00'",  # never shown by a clock in Berlin
    "ts = '2026-10-25 02:30:00'",  # shown twice
    "ts = '1890-01-01'",
    "ts IN ('2026-01-01')",
    "ts > TIMESTAMP_NTZ '2026-01-01 00:00:00'",
    "ts > current_timestamp()",
    "ntz = '2026-01-01 00:00:00Z'",
    "ntz > TIMESTAMP '2026-01-01 00:00:00'",
    "ntz > '2026-01-01 00:00:00.1234567'",
    "b = 1",
    "b < true",
    "u < '00000000-0000-0000-0000-000000000001'",
    "u = 'F79C3E09-677C-4BBD-A479-3F349CB785E7'",
    "bin = X'1F'",
    "s LIKE 'a_c%'",
    "s LIKE '%c'",
    "s LIKE 'a%c%'",
    "s LIKE 'a\\\\%'",
    "s LIKE 'a!%' ESCAPE '!'",
    "s ILIKE 'a%'",
    "s LIKE ANY ('a%', 'b%')",
    "s RLIKE 'a'",
    "s = 'a\\nb'",
    's = "abc"',
    "s = 'it''s'",
    "upper(s) = 'A'",
    "i + 1 = 2",
    "i = l",
    "i = i",
    "1 = 1",
    "st.r IS NULL",
    "st IS NULL",
    "m['k'] = 1",
    "m.k = 1",
    "arr[0] = 1",
    "isnan(i)",
    "exists(arr, y -> y > i)",
    "i BETWEEN SYMMETRIC 2 AND 1",
    "(i = 1) = true",
    "this is no SQL ((",
]


@pytest.mark.parametrize("where", LEFT_TO_SPARK)
def test_what_only_spark_can_decide_prunes_nothing(where: str) -> None:
    found = translate(where, SCHEMA, session_time_zone="Europe/Berlin")
    assert found.pushed == AlwaysTrue()
    assert not found.exact
    assert len(found.remainder) == 1


def test_times_without_a_zone_need_the_session_s() -> None:
    assert translate("ts > '2026-01-01'", SCHEMA, session_time_zone=None).pushed == AlwaysTrue()
    for zone in ("PST", "Nowhere/City", "GMT+1"):
        assert translate("ts > '2026-01-01'", SCHEMA, session_time_zone=zone).pushed == AlwaysTrue()
    fixed = translate("ts > '2026-01-01'", SCHEMA, session_time_zone="-05:00")
    assert fixed.pushed == GreaterThan("ts", TimestampLiteral(1767243600000000))


def test_conjuncts_that_cannot_be_translated_are_named() -> None:
    found = translate("i = 1 AND upper(s) = 'A' AND (x > l AND b)", SCHEMA)
    assert found.pushed == And(EqualTo("i", 1), EqualTo("b", True))
    assert found.remainder == ("UPPER(s) = 'A'", "x > l")
    assert not found.exact


def test_an_or_prunes_by_what_both_sides_say() -> None:
    found = translate("(i = 1 AND upper(s) = 'A') OR i = 2", SCHEMA)
    assert found.pushed == Or(EqualTo("i", 1), EqualTo("i", 2))
    assert not found.exact
    assert translate("i = 1 OR upper(s) = 'A'", SCHEMA).pushed == AlwaysTrue()
    assert translate("NOT (i = 1 OR upper(s) = 'A')", SCHEMA).pushed == _not_null("i", NotEqualTo("i", 1))


def test_a_required_field_of_an_optional_struct_is_not_exact() -> None:
    found = translate("st.r <> 4", SCHEMA)
    assert found.pushed == _not_null("st.r", NotEqualTo("st.r", 4))
    assert not found.exact


@pytest.mark.parametrize(
    ("where", "columns"),
    [
        ("l = 1 AND upper(s) = 'A'", ("l", "s")),
        ("st.a = 1 OR m.k = 2 OR arr[0] = i", ("i", "st", "m", "arr")),
        ("exists(arr, y -> y > i)", ("i", "arr")),
        ("i IN (SELECT nobody FROM elsewhere)", tuple(field.name for field in SCHEMA.fields)),
        ("some_function(not_a_column, ts) > ts", tuple(field.name for field in SCHEMA.fields)),
        ("this is no SQL ((", tuple(field.name for field in SCHEMA.fields)),
        ('"i" = 1', tuple(field.name for field in SCHEMA.fields)),  # a name, if Spark is set so
        ("true", ()),
    ],
)
def test_the_columns_that_a_condition_needs_are_told(where: str, columns: tuple[str, ...]) -> None:
    assert translate(where, SCHEMA).columns == columns


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("nobody = 1", "'nobody' of the condition does not exist; there are: i, l, f"),
        ("i = 1 OR st.nobody = 1", "'st.nobody' of the condition does not exist; there are: a, r"),
        ("i.x = 1", "column 'i' is of type int and has no fields"),
        ("", "must be Spark SQL such as"),
        ("   ", "must be Spark SQL such as"),
    ],
)
def test_names_that_no_column_has_are_errors(where: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        translate(where, SCHEMA)


def test_case_is_as_the_caller_says() -> None:
    twice = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "A", IntegerType()))
    with pytest.raises(ConfigError, match="'a' of the condition is ambiguous; there are: a, A"):
        translate("a = 1", twice)
    assert translate("A = 1", twice, case_sensitive=True).pushed == EqualTo("A", 1)
    with pytest.raises(ConfigError, match="'MIXED'"):
        translate("MIXED = 1", SCHEMA, case_sensitive=True)
