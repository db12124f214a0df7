"""Applies the plan of `input_columns` to a batch: casts, rebuilds what is nested, and notes every fault.

The plan is a tree like the table's schema, each node saying how a value there is made from one that came. Arrow
compute alone: no Spark, no catalog, no file, no numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeshift.iceberg.bad_rows import FaultFinder, Reason
from lakeshift.iceberg.value_casts import ValueCast, plain


@dataclass(frozen=True)
class Leaf:
    cast: ValueCast


@dataclass(frozen=True)
class Struct:
    members: tuple[Member, ...]
    type: pa.DataType


@dataclass(frozen=True)
class List:
    element: Member
    type: pa.DataType


@dataclass(frozen=True)
class Map:
    key: Member
    value: Member
    type: pa.DataType


@dataclass(frozen=True)
class Nothing:
    """From a column that has no type because it has no values."""

    type: pa.DataType


Node: TypeAlias = "Leaf | Struct | List | Map | Nothing"


@dataclass(frozen=True)
class Member:
    """A column, a struct's field, a list's element, a map's key or value.

    ``position`` is where it is among the members that came; None where it did not come, and is ``absent`` instead.
    """

    name: str
    required: bool
    type: pa.DataType
    position: int | None
    node: Node | None
    absent: pa.Scalar | None = None


def make_column(column: Member, batch: pa.RecordBatch, faults: FaultFinder) -> pa.Array:
    """A column of the table from the batch that came; what is wrong with it goes to ``faults``."""
    return _member(column, batch.columns, len(batch), _Place(faults, column.name))


@dataclass(frozen=True)
class _Place:
    """Where in the rows we are: the column's path, and the row that each value belongs to if there is not one a row."""

    faults: FaultFinder
    path: str
    rows: pa.Array | None = None

    def below(self, name: str) -> _Place:
        return _Place(self.faults, f"{self.path}.{name}", self.rows)

    def within(self, name: str, parents: pa.Array) -> _Place:
        rows = parents if self.rows is None else self.rows.take(parents)
        return _Place(self.faults, f"{self.path}.{name}", rows)

    def report(self, mask: pa.Array, reason: Reason) -> None:
        if self.rows is None:
            self.faults.add(mask, reason, self.path)
        else:
            self.faults.add_rows(self.rows.filter(mask), reason, self.path)


def _member(
    member: Member, came: Sequence[pa.Array], length: int, place: _Place, parents: pa.Array | None = None
) -> pa.Array:
    """A member made from its siblings that came; ``parents`` says where its struct is present, if not everywhere."""
    if member.position is None:
        assert member.absent is not None
        return pa.repeat(member.absent, length) if member.absent.is_valid else _nothing(length, member.type)
    return _value(member, came[member.position], place, parents)


def _value(member: Member, came: pa.Array, place: _Place, parents: pa.Array | None = None) -> pa.Array:
    # Only where the parent is present does a missing value matter; and it is missing in what came, not in what a
    # failed cast made of it.
    if member.required and came.null_count:
        missing = came.is_null()
        place.report(missing if parents is None else pc.and_(missing, parents), Reason.REQUIRED)
    assert member.node is not None
    made = _apply(member.node, came, place)
    # Parquet refuses nulls in a required field even where the parent is absent or the row is bad anyway.
    return _filled(made) if member.required and made.null_count else made


def _apply(node: Node, came: pa.Array, place: _Place) -> pa.Array:
    match node:
        case Leaf():
            made, faults = node.cast.apply(came)
            for mask, reason in faults:
                place.report(mask, reason)
            return made
        case Nothing():
            return _nothing(len(came), node.type)
        case Struct():
            return _struct(node, plain(came), place)
        case List():
            return _list(node, plain(came), place)
        case Map():
            return _map(node, plain(came), place)


def _struct(node: Struct, came: pa.StructArray, place: _Place) -> pa.Array:
    parents = came.is_valid() if came.null_count else None
    children = came.flatten()  # each null where the struct is
    made = [_member(member, children, len(came), place.below(member.name), parents) for member in node.members]
    if not made:
        return came
    mask = None if parents is None else pc.invert(parents)
    return pa.StructArray.from_arrays(made, fields=list(node.type), mask=mask)


def _list(node: List, came: pa.Array, place: _Place) -> pa.Array:
    if not pa.types.is_list(came.type):
        came = came.cast(pa.list_(came.type.value_type))
    values = came.flatten()  # without those that lie below a null
    made = _value(node.element, values, place.within("element", pc.list_parent_indices(came)))
    return pa.ListArray.from_arrays(_offsets(came), made, type=node.type, mask=_nulls(came))


def _map(node: Map, came: pa.MapArray, place: _Place) -> pa.Array:
    entry = pa.struct([pa.field("key", came.type.key_type, nullable=False), pa.field("value", came.type.item_type)])
    entries = came.cast(pa.list_(entry))
    parents = pc.list_parent_indices(entries)
    keys, values = entries.flatten().flatten()
    made_keys = _value(node.key, keys, place.within("key", parents))
    made_values = _value(node.value, values, place.within("value", parents))
    return pa.MapArray.from_arrays(_offsets(entries), made_keys, made_values, type=node.type, mask=_nulls(came))


def _offsets(lists: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths.cast(pa.int32()))])


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _nothing(length: int, kind: pa.DataType) -> pa.Array:
    """Nulls; what is required below them is there all the same, as `_value` has it."""
    if not pa.types.is_struct(kind):
        return pa.nulls(length, kind)
    children = [_nothing(length, member.type) for member in kind]
    made = [child if member.nullable else _filled(child) for member, child in zip(kind, children, strict=True)]
    return pa.StructArray.from_arrays(made, fields=list(kind), mask=pa.repeat(True, length))


def _filled(array: pa.Array) -> pa.Array:
    """The array with something harmless in place of null."""
    kind = array.type
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([array.field(n) for n in range(kind.num_fields)], fields=list(kind))
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(_offsets(array), array.flatten(), type=kind)
    if pa.types.is_map(kind):
        entries = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        keys, values = entries.flatten().flatten()
        return pa.MapArray.from_arrays(_offsets(entries), keys, values, type=kind)
    return pc.fill_null(array, _zero(kind))


def _zero(kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(kind):
        return pa.scalar("", kind)
    if pa.types.is_binary(kind):
        return pa.scalar(b"", kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.scalar(b"\0" * kind.byte_width, kind)
    if pa.types.is_boolean(kind):
        return pa.scalar(False)
    if pa.types.is_temporal(kind):
        return pa.array([0], pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)[0]
    return pa.scalar(0, kind)
