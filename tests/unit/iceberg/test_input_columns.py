"""Incoming columns against a table's: what fits, what does not, and what is decided row by row."""

from __future__ import annotations

import io
import pickle
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from lakeshift.errors import SchemaMismatchError
from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.input_columns import Conformed, InputColumns
from lakeshift.iceberg.transforms import PartitionValues

ADDRESS = StructType(
    NestedField(11, "city", StringType(), required=True),
    NestedField(12, "zip", IntegerType(), required=False),
)
PEOPLE = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "address", ADDRESS, required=False),
    NestedField(4, "tags", ListType(14, StringType(), element_required=True), required=False),
    NestedField(5, "scores", MapType(15, StringType(), 16, IntegerType(), value_required=True), required=False),
    NestedField(6, "visits", ListType(17, ADDRESS, element_required=False), required=False),
)
PEOPLE_ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("address", pa.struct([("city", pa.string()), ("zip", pa.int64())])),
        ("tags", pa.list_(pa.string())),
        ("scores", pa.map_(pa.string(), pa.int64())),
        ("visits", pa.large_list(pa.struct([("zip", pa.int32()), ("city", pa.large_string())]))),
    ]
)
GOOD = {
    "id": 1,
    "name": None,
    "address": {"city": "Oslo", "zip": 5},
    "tags": ["a", "b"],
    "scores": [("x", 1), ("y", 2)],
    "visits": [{"zip": None, "city": "Rome"}, None],
}


def conform(
    schema: Schema, batch: pa.RecordBatch, partitions: PartitionValues | None = None, **options: Any
) -> Conformed:
    plan = pickle.loads(pickle.dumps(InputColumns.plan(schema, batch.schema, **options)))
    conformed = plan.conform(batch, partitions)
    assert conformed.good.schema.equals(arrow_schema(schema), check_metadata=True)
    conformed.good.validate(full=True)
    # What is good can be written: Parquet looks at every required value, also below absent parents.
    pq.write_table(pa.Table.from_batches([conformed.good]), io.BytesIO())
    return conformed


def faults(conformed: Conformed) -> list[tuple[int, str, str]]:
    bad = conformed.bad
    return list(zip(bad.rows.to_pylist(), bad.columns.to_pylist(), bad.reasons.to_pylist(), strict=True))


def mismatch(schema: Schema, came: pa.Schema, **options: Any) -> str:
    with pytest.raises(SchemaMismatchError) as raised:
        InputColumns.plan(schema, came, **options)
    return str(raised.value)


def of(*fields: tuple[str, IcebergType]) -> Schema:
    return Schema(*(NestedField(n, name, kind, required=False) for n, (name, kind) in enumerate(fields, 1)))


def test_columns_are_matched_by_name_in_the_tables_order() -> None:
    came = pa.record_batch([pa.array(["a"]), pa.array([1], pa.int8())], ["name", "ID"])
    schema = of(("id", LongType()), ("name", StringType()))
    assert conform(schema, came).good.to_pylist() == [{"id": 1, "name": "a"}]


def test_what_needs_no_cast_is_not_copied() -> None:
    column = pa.array([1, 2, 3])
    good = conform(of(("id", LongType())), pa.record_batch([column], ["id"])).good
    assert good["id"].buffers()[1].address == column.buffers()[1].address


def test_a_missing_optional_column_is_null_or_its_default() -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "note", StringType(), required=False),
        NestedField(3, "kind", StringType(), required=True, initial_default="old", write_default="new"),
        NestedField(4, "day", DateType(), required=False, initial_default=0, write_default=7),
        NestedField(5, "address", ADDRESS, required=False),
    )
    (row,) = conform(schema, pa.record_batch([pa.array([1])], ["id"])).good.to_pylist()
    assert (row["note"], row["kind"], row["day"].isoformat(), row["address"]) == (None, "new", "1970-01-08", None)


def test_a_struct_may_lack_optional_fields() -> None:
    schema = Schema(NestedField(3, "address", ADDRESS, required=False))
    came = pa.RecordBatch.from_pylist([{"address": {"city": "Oslo"}}, {"address": None}])
    expected = [{"address": {"city": "Oslo", "zip": None}}, {"address": None}]
    assert conform(schema, came).good.to_pylist() == expected


def test_everything_that_does_not_fit_is_said_at_once() -> None:
    came = pa.schema(
        [
            ("name", pa.int32()),
            ("address", pa.struct([("zip", pa.string()), ("street", pa.string())])),
            ("tags", pa.map_(pa.string(), pa.string())),
            ("scores", pa.map_(pa.string(), pa.float64())),
            ("visits", pa.list_(pa.string())),
            ("extra", pa.timestamp("us", "UTC")),
        ]
    )
    text = mismatch(PEOPLE, came, table="db.people")
    assert text.startswith("The rows do not fit db.people; nothing was written:")
    assert len(text.splitlines()) == 10
    for expected in [
        "required column 'id' (long) is missing. Add it",
        "column 'name': the rows have int, the table has string",
        "Cast it yourself to string",
        "required column 'address.city' (string) is missing",
        "column 'address.zip': the rows have string, the table has int",
        "column 'address.street' (string) is not in the table. Drop it",
        "column 'tags': the rows have map<string, string>, the table has list<string>",
        "column 'scores.value': the rows have double, the table has int",
        "column 'visits.element': the rows have string, the table has struct<",
        "column 'extra' (timestamptz) is not in the table",
    ]:
        assert expected in text, expected


def test_case_counts_only_if_asked_to() -> None:
    schema = of(("Id", LongType()))
    assert conform(schema, pa.record_batch([pa.array([1])], ["iD"])).good.to_pylist() == [{"Id": 1}]
    text = mismatch(schema, pa.schema([("iD", pa.int64())]), case_sensitive=True)
    assert "'iD' (long) is not in the table. It differs from 'Id' in case only" in text


def test_names_that_match_twice_are_ambiguous() -> None:
    schema = of(("id", LongType()))
    twice = pa.schema([("ID", pa.int64()), ("id", pa.int64())])
    assert "'id' is ambiguous: the rows have 'ID', 'id'" in mismatch(schema, twice)
    assert "column 'ID' (long) is not in the table" in mismatch(schema, twice, case_sensitive=True)
    same = pa.schema([("id", pa.int64()), ("id", pa.int64())])
    assert "'id' is ambiguous" in mismatch(schema, same, case_sensitive=True)
    both = of(("a", LongType()), ("A", LongType()))
    assert "columns that differ in case only" in mismatch(both, pa.schema([("a", pa.int64())]))
    pair = pa.record_batch([pa.array([1]), pa.array([2])], ["A", "a"])
    assert conform(both, pair, case_sensitive=True).good.to_pylist() == [{"a": 2, "A": 1}]


def test_nested_values_are_cast_and_reordered() -> None:
    batch = pa.RecordBatch.from_pylist([GOOD, {**GOOD, "address": None, "tags": None, "scores": None, "visits": []}], PEOPLE_ARROW)  # fmt: skip  # noqa: E501
    first, second = conform(PEOPLE, batch).good.to_pylist()
    assert first["visits"] == [{"city": "Rome", "zip": None}, None]
    assert first["scores"] == [("x", 1), ("y", 2)]
    assert second == {"id": 1, "name": None, "address": None, "tags": None, "scores": None, "visits": []}


@pytest.mark.parametrize(
    ("change", "column", "reason"),
    [
        ({"id": None}, "id", "required value missing"),
        ({"address": {"city": None, "zip": 1}}, "address.city", "required value missing"),
        ({"address": {"city": "x", "zip": 2**31}}, "address.zip", "overflow"),
        ({"tags": ["a", None]}, "tags.element", "required value missing"),
        ({"scores": [("a", None)]}, "scores.value", "required value missing"),
        ({"scores": [("a", 1), ("b", 2**31)]}, "scores.value", "overflow"),
        ({"visits": [None, {"zip": 1, "city": None}]}, "visits.element.city", "required value missing"),
    ],
)
def test_bad_values_make_bad_rows_wherever_they_are(change: dict[str, Any], column: str, reason: str) -> None:
    rows = [GOOD, {**GOOD, **change}, {**GOOD, "address": None, "tags": None, "visits": None}, {**GOOD, **change}, GOOD]
    batch = pa.RecordBatch.from_pylist(rows, PEOPLE_ARROW)
    conformed = conform(PEOPLE, batch)
    assert faults(conformed) == [(1, column, reason), (3, column, reason)]
    assert len(conformed.good) == 3
    alone = conform(PEOPLE, batch.slice(1, 2))
    assert faults(alone) == [(0, column, reason)]
    assert len(alone.good) == 1


def test_a_row_is_bad_once_by_its_first_fault() -> None:
    schema = Schema(
        NestedField(1, "a", IntegerType(), required=True), NestedField(2, "b", IntegerType(), required=True)
    )
    batch = pa.record_batch([pa.array([2**40, 1, None]), pa.array([None, None, 2**40])], ["a", "b"])
    conformed = conform(schema, batch)
    missing = "required value missing"
    assert faults(conformed) == [(0, "a", "overflow"), (1, "b", missing), (2, "a", missing)]
    assert len(conformed.good) == 0


def test_required_structs_below_absent_parents_are_no_fault() -> None:
    inner = StructType(
        NestedField(3, "n", DecimalType(9, 2), required=True),
        NestedField(4, "l", ListType(5, LongType(), element_required=True), required=True),
        NestedField(6, "m", MapType(7, StringType(), 8, LongType(), value_required=True), required=True),
        NestedField(9, "u", UUIDType(), required=True),
        NestedField(10, "f", FixedType(2), required=True),
        NestedField(11, "t", TimestamptzType(), required=True),
    )
    outer = StructType(NestedField(2, "inner", inner, required=True))
    schema = Schema(NestedField(1, "outer", outer, required=False))
    came = arrow_schema(schema)
    batch = pa.RecordBatch.from_pylist([{"outer": None}, {"outer": {"inner": None}}, {"outer": None}], came)
    conformed = conform(schema, batch)
    assert faults(conformed) == [(1, "outer.inner", "required value missing")]
    assert conformed.good.to_pylist() == [{"outer": None}] * 2


def test_text_that_is_none_is_a_bad_row() -> None:
    text = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    conformed = conform(of(("s", StringType())), pa.record_batch([text], ["s"]))
    assert faults(conformed) == [(1, "s", "text is not UTF-8")]


def test_rows_without_a_partition_value_are_bad_too() -> None:
    schema = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", IntegerType()))
    spec = PartitionSpec(
        PartitionField(1, 1000, parse_transform("truncate[10]"), "a_trunc"),
        PartitionField(2, 1001, parse_transform("truncate[10]"), "b_trunc"),
    )
    least = -(2**31)
    batch = pa.record_batch(
        [pa.array([2**40, 11, least, 12, 5]), pa.array([least, least, least, 25, None])], ["a", "b"]
    )
    conformed = conform(schema, batch, PartitionValues(schema, spec))
    assert faults(conformed) == [
        (0, "a", "overflow"),
        (1, "b, for truncate(10, b)", "no partition value"),
        (2, "a, for truncate(10, a)", "no partition value"),
    ]
    assert conformed.good.to_pylist() == [{"a": 12, "b": 25}, {"a": 5, "b": None}]
    assert [value.to_pylist() for value in conformed.values] == [[10, 0], [20, None]]
    fine = conform(schema, batch.slice(3), PartitionValues(schema, spec))
    assert len(fine.bad) == 0
    assert [value.to_pylist() for value in fine.values] == [[10, 0], [20, None]]


def test_columns_without_a_type_are_null() -> None:
    schema = Schema(NestedField(3, "address", ADDRESS, required=False), NestedField(1, "id", LongType(), required=True))
    batch = pa.record_batch([pa.nulls(1), pa.nulls(1)], ["address", "id"])
    assert faults(conform(schema, batch)) == [(0, "id", "required value missing")]
    assert conform(schema.select("address"), batch.select(["address"])).good.to_pylist() == [{"address": None}]


def test_an_empty_batch_conforms() -> None:
    batch = pa.RecordBatch.from_pylist([], PEOPLE_ARROW)
    conformed = conform(PEOPLE, batch)
    assert (len(conformed.good), len(conformed.bad)) == (0, 0)
