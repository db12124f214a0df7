"""The SQL text that fits incoming columns to the table's. What it does to rows is an integration test."""

from __future__ import annotations

import pyarrow as pa

from lakeshift.delta.projection import project
from lakeshift.delta.schema import Atomic, Field, StructOf, schema_of


def model(**columns: pa.DataType) -> StructOf:
    return schema_of(pa.schema(list(columns.items())))


def test_columns_that_fit_are_not_touched() -> None:
    incoming = model(a=pa.int64(), s=pa.struct([("y", pa.int8()), ("x", pa.int8())]))
    target = model(s=pa.struct([("x", pa.int8()), ("y", pa.int8()), ("z", pa.int8())]), a=pa.int64(), extra=pa.string())
    assert not project(incoming, target)


def test_only_additions_keep_the_star() -> None:
    target = StructOf((Field("a", Atomic("long")), Field("d", Atomic("short"), default="7")))
    projection = project(model(a=pa.int64()), target)
    assert projection.select_list(["a"]) == ["*", "CAST(7 AS short) AS `d`"]


def test_a_replaced_column_keeps_its_place() -> None:
    projection = project(model(x=pa.int64(), A=pa.int32(), y=pa.int8()), model(a=pa.int64(), x=pa.int64(), y=pa.int8()))
    assert projection.select_list(["x", "A", "y"]) == ["`x`", "CAST(`A` AS long) AS `a`", "`y`"]


def test_structs_are_rebuilt_by_name_inside_arrays() -> None:
    incoming = model(t=pa.list_(pa.struct([("b'c", pa.int8()), ("a", pa.string())])))
    target = model(t=pa.list_(pa.struct([("a", pa.string()), ("b'c", pa.int16()), ("n", pa.int64())])))
    ((name, expression),) = project(incoming, target).replaced
    assert name == "t"
    assert expression == (
        "transform(`t`, e0 -> IF(e0 IS NULL, NULL, named_struct('a', e0.`a`, 'b\\'c', CAST(e0.`b'c` AS short), "
        "'n', CAST(NULL AS long)))) AS `t`"
    )


def test_generated_columns_are_left_to_delta() -> None:
    target = StructOf((Field("a", Atomic("long")), Field("g", Atomic("long"), generated_as="a + 1")))
    assert not project(model(a=pa.int64()), target)
