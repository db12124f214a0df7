"""Rows full of edges, and conditions at random over them."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

COLUMNS: dict[str, tuple[Any, pa.DataType, list[Any]]] = {
    "i": (IntegerType(), pa.int32(), [0, 1, -1, 5, 2**31 - 1, -(2**31)]),
    "l": (LongType(), pa.int64(), [0, 5, -5, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "f": (FloatType(), pa.float32(), [0.0, -0.0, 0.5, 0.1, 16777216.0, math.nan, math.inf, -math.inf]),
    "x": (DoubleType(), pa.float64(), [0.0, -0.0, 0.1, -1.5, 2.0**53, math.nan, math.inf, -math.inf]),
    "dec": (
        DecimalType(9, 2),
        pa.decimal128(9, 2),
        [Decimal(t) for t in ("0.00", "5.00", "5.55", "-0.01", "9999999.99")],
    ),
    "wide": (DecimalType(38, 30), pa.decimal128(38, 30), [Decimal("5"), Decimal("5." + "0" * 29 + "1"), Decimal("-1")]),
    "s": (StringType(), pa.string(), ["", "a", "ab", "abc", "b", "5", "5.0", "Ab", "é", "\U0001f600", "true"]),
    "d": (
        DateType(),
        pa.date32(),
        [dt.date(1969, 12, 31), dt.date(2026, 1, 1), dt.date(2026, 3, 29), dt.date(1500, 1, 1)],
    ),
    "ts": (
        TimestamptzType(),
        pa.timestamp("us", tz="UTC"),
        # Around midnight in Berlin, and around both of its clock changes.
        [
            dt.datetime(2025, 12, 31, 23, tzinfo=dt.UTC),
            dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC),
            dt.datetime(2026, 10, 25, 0, 30, tzinfo=dt.UTC),
            dt.datetime(2026, 10, 25, 1, 30, tzinfo=dt.UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
        ],
    ),
    "ntz": (
        TimestampType(),
        pa.timestamp("us"),
        [dt.datetime(2026, 1, 1), dt.datetime(2026, 3, 29, 2, 30), dt.datetime(2026, 1, 1, 0, 0, 0, 1)],
    ),
    "b": (BooleanType(), pa.bool_(), [True, False]),
}
LITERALS: dict[str, list[str]] = {
    "i": ["0", "5", "-1", "5L", "5.0", "5.5", "'5'", "2147483648", "-2147483649", "1e0", "5BD", "99999999999999999999"],
    "l": ["0", "5", "-5", "9223372036854775807", "-9223372036854775808", "5.5", "'5'", "9007199254740993", "5D"],
    "f": ["0", "-0.0", "0.5", "0.1", "0.1F", "16777217", "double('NaN')", "double('Infinity')", "'0.5'", "0.5D"],
    "x": ["0", "-0.0", "0.1", "-1.5", "1e-1", "9007199254740993", "double('NaN')", "double('-Infinity')", "'0.1'"],
    "dec": ["0", "5", "5.55", "5.555", "-0.01", "5.5BD", "10000000", "123456789.0", "'5.55'", "5D", "-1e0"],
    "wide": ["5", "5.0", "-1", "5L", "12345678.5"],
    "s": ["''", "'a'", "'ab'", "'b'", "'5'", "'é'", "'\U0001f600'", "'a\\\\nb'"],
    "d": ["'2026-01-01'", "DATE '2026-03-29'", "DATE '1500-01-01'", "TIMESTAMP '2026-01-01 00:00:00'", "'2026-1-1'"],
    "ts": [
        "'2026-01-01'",
        "DATE '2026-01-01'",
        "'2026-01-01 00:00:00'",
        "'2026-03-29 02:30:00'",
        "'2026-10-25 02:30:00'",
        "'2026-03-29 02:30:00+01:00'",
        "TIMESTAMP '2026-01-01 00:00:00'",
        "TIMESTAMP '2026-01-01 00:00:00Z'",
        "TIMESTAMP_NTZ '2026-01-01 00:00:00'",
    ],
    "ntz": [
        "'2026-01-01'",
        "DATE '2026-01-01'",
        "'2026-01-01 00:00:00.000001'",
        "TIMESTAMP_NTZ '2026-03-29 02:30:00'",
        "TIMESTAMP '2026-01-01 00:00:00'",
        "'2026-01-01 00:00:00+01:00'",
    ],
    "b": ["true", "false"],
}
SCHEMA = Schema(
    *(NestedField(number, name, kind) for number, (name, (kind, _, _)) in enumerate(COLUMNS.items(), 1)),
    NestedField(50, "st", StructType(NestedField(51, "a", IntegerType()))),
)


def edge_rows() -> pa.Table:
    """Every value of every column, next to nulls and to changing values of the others."""
    length = 37
    columns = {}
    for shift, (name, (_, kind, values)) in enumerate(COLUMNS.items()):
        turn = list(itertools.islice(itertools.cycle([*values, None]), shift, shift + length))
        columns[name] = pa.array(turn, kind)
    inner = pa.struct([("a", pa.int32())])
    columns["st"] = pa.array(itertools.islice(itertools.cycle([{"a": 5}, {"a": None}, None]), length), inner)
    return pa.table(columns)


def _leaf(chance: random.Random) -> str:
    column = chance.choice([*COLUMNS, "st.a"])
    values = [*LITERALS["i" if column == "st.a" else column], "NULL"]
    value = chance.choice(values)
    forms = [
        f"{column} {chance.choice(['=', '<', '<=', '>', '>=', '<>', '<=>', '!='])} {value}",
        f"{value} {chance.choice(['=', '<', '>='])} {column}",
        f"{column} {chance.choice(['IN', 'NOT IN'])} ({', '.join(chance.choices(values, k=chance.randint(1, 3)))})",
        f"{column} {chance.choice(['BETWEEN', 'NOT BETWEEN'])} {value} AND {chance.choice(values)}",
        f"{column} IS {chance.choice(['', 'NOT '])}NULL",
        f"({column} = {value}) IS {chance.choice(['', 'NOT '])}{chance.choice(['TRUE', 'FALSE', 'NULL'])}",
        f"s {chance.choice(['LIKE', 'NOT LIKE'])} '{chance.choice(['a%', '%', '', 'ab', 'a_%', '%b', 'é%', 'A%'])}'",
        f"isnan({chance.choice('fx')})",
        chance.choice(["b", "true", "NULL", "upper(s) = 'AB'", "i = l", "b IS TRUE", "b IS NOT FALSE"]),
    ]
    return chance.choice(forms)


def random_condition(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.35:
        return _leaf(chance)
    if chance.random() < 0.3:
        return f"NOT ({random_condition(chance, depth - 1)})"
    joined = chance.choice([" AND ", " OR "])
    return joined.join(f"({random_condition(chance, depth - 1)})" for _ in range(2))
