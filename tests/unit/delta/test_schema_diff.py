"""The pure comparison: pyspark schemas and Arrow schemas, no session."""

from __future__ import annotations

import itertools
import json
import time

import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructType

from lakeshift.delta.schema import Atomic, schema_of, spark_json, type_of
from lakeshift.delta.schema_diff import (
    Identical,
    Incompatible,
    Mixed,
    NewColumns,
    TypeWidening,
    diff_schemas,
    fits_into,
    is_safe_widening,
)

pytestmark = pytest.mark.each_line  # pyspark's own types differ between the lines


def spark(text: str) -> StructType:
    """A schema of ``name type`` pairs, where the types are pyspark's JSON names."""
    fields = [part.rsplit(" ", 1) for part in text.split(", ")]
    return StructType.fromJson(
        {"fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields]}
    )


def arrow(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


def both(name: str) -> list[tuple[object, object]]:
    pairs = {
        "new": (("a long", "a long, b string"), (arrow(a=pa.int64()), arrow(a=pa.int64(), b=pa.string()))),
        "same": (("a long", "a long"), (arrow(a=pa.int64()), arrow(a=pa.int64()))),
        "int": (("a integer", "a long"), (arrow(a=pa.int32()), arrow(a=pa.int64()))),
        "float": (("a float", "a double"), (arrow(a=pa.float32()), arrow(a=pa.float64()))),
        "clash": (("a long", "a string"), (arrow(a=pa.int64()), arrow(a=pa.string()))),
        "mixed": (("a integer", "a long, b string"), (arrow(a=pa.int32()), arrow(a=pa.int64(), b=pa.string()))),
    }
    (table, incoming), arrow_pair = pairs[name]
    return [(spark(table), spark(incoming)), arrow_pair]


def test_diff_identical_schemas() -> None:
    for table, incoming in both("same"):
        diff = diff_schemas(table, incoming)
        assert isinstance(diff, Identical)
        assert diff.lines() == []


def test_diff_new_column() -> None:
    for table, incoming in both("new"):
        diff = diff_schemas(table, incoming)
        assert isinstance(diff, NewColumns)
        assert [(c.column, c.type) for c in diff.new_columns] == [("b", Atomic("string"))]


@pytest.mark.parametrize(("case", "shown"), [("int", "~ a: int -> long"), ("float", "~ a: float -> double")])
def test_diff_type_widening_int_and_float(case: str, shown: str) -> None:
    for table, incoming in both(case):
        diff = diff_schemas(table, incoming)
        assert isinstance(diff, TypeWidening)
        assert diff.lines() == [shown]


@pytest.mark.parametrize(("before", "after"), [(pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())])
def test_diff_type_widening_string(before: pa.DataType, after: pa.DataType) -> None:
    diff = diff_schemas(arrow(a=before), arrow(a=after))
    assert isinstance(diff, TypeWidening)
    assert len(diff.widened) == 1


def test_diff_incompatible_change() -> None:
    for table, incoming in both("clash"):
        diff = diff_schemas(table, incoming)
        assert isinstance(diff, Incompatible)
        assert diff.lines() == [
            "! a: the table has long, the input string. Cast it to long before writing, or write it under another name."
        ]


def test_diff_mixed() -> None:
    for table, incoming in both("mixed"):
        diff = diff_schemas(table, incoming)
        assert isinstance(diff, Mixed)
        assert diff.lines() == ["+ b: string", "~ a: int -> long"]


SAFE = {
    ("byte", "short"),
    ("byte", "integer"),
    ("byte", "long"),
    ("short", "integer"),
    ("short", "long"),
    ("integer", "long"),
    ("float", "double"),
}


def test_safe_widening_rules() -> None:
    names = ["byte", "short", "integer", "long", "float", "double", "string", "binary", "boolean", "date", "timestamp"]
    found = {
        (a, b)
        for a, b in itertools.product([*names, "decimal(10,2)", "decimal(12,2)"], repeat=2)
        if is_safe_widening(a, b)
    }
    assert found == SAFE
    assert is_safe_widening(spark_types.IntegerType(), spark_types.LongType())
    assert is_safe_widening(pa.int8(), pa.int64())
    assert is_safe_widening(pa.string(), pa.large_string())
    assert is_safe_widening(pa.binary(), pa.large_binary())
    assert not is_safe_widening(pa.large_string(), pa.string())
    assert not is_safe_widening(pa.float64(), pa.int32())
    assert not is_safe_widening(pa.list_(pa.int32()), pa.list_(pa.int64()))


def test_every_offending_column_is_named_with_both_types() -> None:
    diff = diff_schemas(spark("a long, b string, c integer, d date"), spark("a string, b long, c long, d timestamp"))
    assert isinstance(diff, Incompatible)
    assert [(p.column, str(p.table_type), str(p.input_type)) for p in diff.problems] == [
        ("a", "long", "string"),
        ("b", "string", "long"),
        ("d", "date", "timestamp"),
    ]
    assert [c.column for c in diff.widened] == ["c"]


def test_names_match_without_regard_to_case() -> None:
    assert isinstance(diff_schemas(spark("Id long"), spark("ID long")), Identical)


def test_names_that_differ_only_by_case_are_refused_at_every_depth() -> None:
    diff = diff_schemas(spark("a long"), spark("a long, A long"))
    assert [p.column for p in diff.problems] == ["A"]
    inner = pa.struct([("x", pa.int32()), ("X", pa.int32())])
    nested = diff_schemas(arrow(a=pa.int64()), arrow(a=pa.int64(), s=pa.list_(inner)))
    assert [p.column for p in nested.problems] == ["s.element.X"]
    assert "by case" in nested.problems[0].reason


def test_nested_changes_are_found_in_structs_arrays_and_maps() -> None:
    before = arrow(
        s=pa.struct([("x", pa.int16()), ("y", pa.string())]),
        tags=pa.list_(pa.struct([("n", pa.int32())])),
        m=pa.map_(pa.int8(), pa.struct([("v", pa.float32())])),
    )
    after = arrow(
        s=pa.struct([("y", pa.string()), ("x", pa.int32()), ("z", pa.bool_())]),
        tags=pa.list_(pa.struct([("n", pa.int32()), ("new", pa.int8())])),
        m=pa.map_(pa.int16(), pa.struct([("v", pa.float64())])),
    )
    assert diff_schemas(before, after).lines() == [
        "+ s.z: boolean",
        "+ tags.element.new: byte",
        "~ s.x: short -> int",
        "~ m.key: byte -> short",
        "~ m.value.v: float -> double",
    ]


def test_a_narrower_or_missing_column_is_no_change() -> None:
    assert isinstance(diff_schemas(spark("a long, b string, c double"), spark("a byte, c float")), Identical)


@pytest.mark.parametrize(
    ("incoming", "table"),
    [
        ("byte", "double"),
        ("integer", "double"),
        ("short", "float"),
        ("integer", "decimal(10,0)"),
        ("long", "decimal(21,2)"),
        ("decimal(10,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(11,3)"),
        ("void", "string"),
    ],
)
def test_exact_conversions_fit(incoming: str, table: str) -> None:
    assert fits_into(Atomic(incoming), Atomic(table))
    assert isinstance(diff_schemas(spark(f"a {table}"), spark(f"a {incoming}")), Identical)


@pytest.mark.parametrize(
    ("incoming", "table"),
    [
        ("long", "double"),
        ("integer", "float"),
        ("integer", "decimal(9,0)"),
        ("decimal(10,2)", "decimal(10,3)"),
        ("decimal(12,2)", "decimal(10,2)"),
        ("double", "float"),
        ("long", "integer"),
        ("date", "timestamp"),
        ("string", "long"),
        ("double", "decimal(38,10)"),
    ],
)
def test_conversions_that_lose_something_do_not_fit(incoming: str, table: str) -> None:
    assert not fits_into(Atomic(incoming), Atomic(table))


def test_not_null_columns_must_be_there_unless_delta_fills_them() -> None:
    def required(**metadata: str) -> dict[str, object]:
        field = {"name": "a", "type": "long", "nullable": False, "metadata": metadata}
        return {"type": "struct", "fields": [field, {"name": "b", "type": "long", "nullable": True, "metadata": {}}]}

    problem = diff_schemas(required(), spark("b long")).problems[0]
    assert (problem.column, problem.remedy) == ("a", "Add it to the input.")
    assert isinstance(diff_schemas(required(CURRENT_DEFAULT="7"), spark("b long")), Identical)
    assert isinstance(diff_schemas(required(**{"delta.generationExpression": "b + 1"}), spark("b long")), Identical)
    only_nulls = diff_schemas(required(), spark("a void, b long"))
    assert "only nulls" in only_nulls.problems[0].reason


def test_columns_without_a_type_are_refused_with_the_remedy() -> None:
    diff = diff_schemas(spark("a long"), arrow(a=pa.int64(), n=pa.null(), s=pa.struct([("m", pa.null())])))
    assert [p.column for p in diff.problems] == ["n", "s.m"]
    assert all("cast()" in p.remedy for p in diff.problems)


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        (pa.uint32(), "int64"),
        (pa.timestamp("ns"), "timestamp[us]"),
        (pa.duration("s"), "number"),
        (pa.month_day_nano_interval(), "Cast"),
        (pa.float16(), "float"),
        (pa.struct([]), "field"),
    ],
)
def test_types_that_delta_lacks_are_refused_with_the_remedy(kind: pa.DataType, remedy: str) -> None:
    diff = diff_schemas(arrow(a=pa.int64()), arrow(a=pa.int64(), b=kind))
    assert isinstance(diff, Incompatible)
    assert remedy in diff.problems[0].remedy


def test_an_unsigned_column_for_a_signed_one_says_what_to_cast_to() -> None:
    assert diff_schemas(spark("a long"), arrow(a=pa.uint32())).problems[0].remedy == "Cast it to int64."


def test_spark_and_arrow_schemas_of_the_same_columns_are_the_same_model() -> None:
    kinds = {
        "l": pa.int64(),
        "dec": pa.decimal128(10, 2),
        "ts": pa.timestamp("us", "UTC"),
        "ntz": pa.timestamp("ms"),
        "d": pa.date32(),
        "dict": pa.dictionary(pa.int32(), pa.string()),
        "arr": pa.large_list(pa.string()),
        "m": pa.map_(pa.string(), pa.struct([("x", pa.int8())])),
    }
    model = schema_of(arrow(**kinds))
    assert schema_of(StructType.fromJson(spark_json(model))) == model  # type: ignore[arg-type]
    assert schema_of(json.dumps(spark_json(model))) == model
    assert str(model) == (
        "struct<l: long, dec: decimal(10,2), ts: timestamp, ntz: timestamp_ntz, d: date, dict: string, "
        "arr: array<string>, m: map<string, struct<x: byte>>>"
    )


def test_what_is_no_schema_is_refused() -> None:
    with pytest.raises(TypeError, match="int is not a schema"):
        diff_schemas(1, spark("a long"))
    with pytest.raises(TypeError, match="int is not a type"):
        type_of(1)


def test_the_comparison_grows_with_columns_only_linearly() -> None:
    def seconds(columns: int) -> float:
        table = schema_of(pa.schema([(f"c{i}", pa.int32()) for i in range(columns)]))
        incoming = schema_of(pa.schema([(f"C{i}", pa.int64()) for i in range(columns)]))
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            assert len(diff_schemas(table, incoming).widened) == columns
            best = min(best, time.perf_counter() - start)
        return best

    # A quadratic comparison would take 64 times as long.
    assert seconds(8_000) < 25 * seconds(1_000)
