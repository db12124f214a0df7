"""Random batches, cut into partitions and fitted to random tables, against a plain model of both."""

from __future__ import annotations

import io
import itertools
import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.bad_rows import Reason
from lakeshift.iceberg.input_columns import InputColumns
from lakeshift.iceberg.partition_split import split_by_partition
from tests.conftest import FULL

pytestmark = pytest.mark.plain

EXAMPLES = 1500 if FULL else 150

# Few distinct values, so that partitions have several rows.
PARTITION_VALUES = {
    pa.string(): st.sampled_from(["", "a", "b", "null", "é😀"]),
    pa.int32(): st.sampled_from([-(2**31), -1, 0, 1]),
    pa.float64(): st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, 1.5]),
    pa.float32(): st.sampled_from([0.0, -0.0, math.nan, 1.5]),
    pa.bool_(): st.booleans(),
    pa.binary(): st.sampled_from([b"", b"\x00", b"a"]),
    pa.decimal128(9, 2): st.sampled_from([Decimal("0.00"), Decimal("-1.25")]),
}


def model_key(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return value


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_every_row_goes_to_its_partition_in_its_order(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(PARTITION_VALUES)), max_size=3), "types")
    count = data.draw(st.integers(0, 40), "rows")
    columns = [
        data.draw(st.lists(st.none() | PARTITION_VALUES[kind], min_size=count, max_size=count)) for kind in kinds
    ]
    if data.draw(st.booleans(), "sorted"):
        order = sorted(range(count), key=lambda row: [str(model_key(column[row])) for column in columns])
        columns = [[column[row] for row in order] for column in columns]
    skipped = data.draw(st.integers(0, count), "offset")
    batch = pa.record_batch([pa.array(range(count), pa.int64())], ["row"]).slice(skipped)
    arrays = [pa.array(column, kind).slice(skipped) for column, kind in zip(columns, kinds, strict=True)]

    expected: dict[Any, list[int]] = {}
    for row in range(skipped, count):
        expected.setdefault(tuple(model_key(array[row - skipped].as_py()) for array in arrays), []).append(row)
    found = [
        (tuple(map(model_key, partition)), part["row"].to_pylist())
        for partition, part in split_by_partition(batch, arrays)
    ]
    assert found == list(expected.items())


@dataclass(frozen=True)
class Fit:
    """A table's type, the type in which its values come, values for it, and what becomes of each."""

    wanted: IcebergType
    came: pa.DataType
    values: st.SearchStrategy[Any]


_ids = itertools.count(100)

LEAVES = [
    Fit(IntegerType(), pa.int64(), st.sampled_from([0, -1, 2**31 - 1, 2**31, -(2**31) - 1])),
    Fit(IntegerType(), pa.int16(), st.sampled_from([0, -1, 2**15 - 1])),
    Fit(LongType(), pa.int64(), st.sampled_from([0, 2**63 - 1])),
    Fit(
        DecimalType(4, 1), pa.decimal128(6, 2), st.sampled_from([Decimal("1.20"), Decimal("1.23"), Decimal("1000.00")])
    ),
    Fit(StringType(), pa.large_string(), st.sampled_from(["", "é😀"])),
    Fit(StringType(), pa.string(), st.sampled_from(["", "abc"])),
    Fit(TimestampType(), pa.timestamp("ns"), st.sampled_from([0, 1000, -1000, 1])),
]


def fits(depth: int) -> st.SearchStrategy[Fit]:
    leaves = st.sampled_from(LEAVES)
    if depth == 0:
        return leaves
    return st.one_of(leaves, lists(depth), maps(depth), structs(depth))


def lists(depth: int) -> st.SearchStrategy[Fit]:
    def make(element: Fit, required: bool) -> Fit:
        wanted = ListType(next(_ids), element.wanted, element_required=required)
        return Fit(wanted, pa.list_(element.came), st.lists(st.none() | element.values, max_size=3))

    return st.builds(make, fits(depth - 1), st.booleans())


def maps(depth: int) -> st.SearchStrategy[Fit]:
    def make(value: Fit, required: bool) -> Fit:
        wanted = MapType(next(_ids), StringType(), next(_ids), value.wanted, value_required=required)
        entries = st.dictionaries(st.sampled_from("xyz"), st.none() | value.values, max_size=2)
        return Fit(wanted, pa.map_(pa.string(), value.came), entries.map(lambda found: list(found.items())))

    return st.builds(make, fits(depth - 1), st.booleans())


def structs(depth: int) -> st.SearchStrategy[Fit]:
    def make(members: list[tuple[Fit, bool]]) -> Fit:
        names = [f"m{n}" for n in range(len(members))]
        fields = [
            NestedField(next(_ids), name, member.wanted, required=required)
            for name, (member, required) in zip(names, members, strict=True)
        ]
        came = pa.struct([(name, member.came) for name, (member, _) in zip(names, members, strict=True)][::-1])
        values = {name: st.none() | member.values for name, (member, _) in zip(names, members, strict=True)}
        return Fit(StructType(*fields), came, st.fixed_dictionaries(values))

    return st.builds(make, st.lists(st.tuples(fits(depth - 1), st.booleans()), min_size=1, max_size=3))


class Bad(Exception):  # noqa: N818 - not an error of the test
    pass


def model(wanted: IcebergType, came: pa.DataType, value: Any, required: bool, path: str) -> Any:
    """What a value becomes in the table, or Bad with the reason and the path: the first in the order of the schema."""
    if value is None:
        if required:
            raise Bad(Reason.REQUIRED.value, path)
        return None
    match wanted:
        case StructType():
            return {
                f.name: model(f.field_type, came.field(f.name).type, value[f.name], f.required, f"{path}.{f.name}")
                for f in wanted.fields
            }
        case ListType():
            return [
                model(wanted.element_type, came.value_type, item, wanted.element_required, f"{path}.element")
                for item in value
            ]
        case MapType():
            return [
                (key, model(wanted.value_type, came.item_type, item, wanted.value_required, f"{path}.value"))
                for key, item in value
            ]
        case IntegerType() if not -(2**31) <= value < 2**31:
            raise Bad(Reason.OVERFLOW.value, path)
        case DecimalType() if abs(value) >= 1000:
            raise Bad(Reason.OVERFLOW.value, path)
        case DecimalType() if value * 10 % 1:
            raise Bad(Reason.DIGITS_LOST.value, path)
        case TimestampType():
            if value % 1000:
                raise Bad(Reason.DIGITS_LOST.value, path)
            return value // 1000
    return value


def stored(value: Any) -> Any:
    """Arrow's Python values as the model has them."""
    if isinstance(value, dict):
        return {key: stored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [stored(item) for item in value]
    if isinstance(value, tuple):
        return tuple(stored(item) for item in value)
    if hasattr(value, "microsecond"):
        return value.microsecond if value.year == 1970 else value.microsecond - 1_000_000
    return value


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_good_rows_are_cast_and_bad_ones_found(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.tuples(fits(2), st.booleans()), min_size=1, max_size=3), "columns")
    names = [f"c{n}" for n in range(len(chosen))]
    schema = Schema(
        *(
            NestedField(n + 1, name, fit.wanted, required=required)
            for n, (name, (fit, required)) in enumerate(zip(names, chosen, strict=True))
        )
    )
    rows = data.draw(st.lists(st.tuples(*(st.none() | fit.values for fit, _ in chosen)), max_size=12), "rows")
    arrays = [pa.array([row[n] for row in rows], fit.came) for n, (fit, _) in enumerate(chosen)]
    skipped = data.draw(st.integers(0, len(rows)), "offset")
    batch = pa.record_batch(arrays, names).slice(skipped)

    good, bad = [], {}
    for number, row in enumerate(rows[skipped:]):
        made, faults = {}, []
        for name, value, (fit, required) in zip(names, row, chosen, strict=True):
            try:
                made[name] = model(fit.wanted, fit.came, value, required, name)
            except Bad as fault:
                faults.append(fault.args)
        if faults:
            bad[number] = faults[0][1].split(".")[0]
        else:
            good.append(made)

    conformed = InputColumns.plan(schema, batch.schema).conform(batch)
    assert conformed.bad.rows.to_pylist() == list(bad)
    assert [column.split(".")[0] for column in conformed.bad.columns.to_pylist()] == list(bad.values())
    assert [stored(row) for row in conformed.good.to_pylist()] == good
    assert conformed.good.schema.equals(arrow_schema(schema), check_metadata=True)
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([conformed.good]), file)
    assert [stored(row) for row in pq.read_table(file).to_pylist()] == good
