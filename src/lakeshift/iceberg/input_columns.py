"""How the columns of incoming rows fit a table's: matched once, on the driver; applied to every batch, on executors.

What cannot fit is one error that names all of it, before anything is written. What may fit or not is decided row by
row. Arrow schemas and batches only: no Spark, no catalog, no file, no numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from lakeshift.errors import SchemaMismatchError
from lakeshift.iceberg.arrow_schema import arrow_schema, arrow_type_of
from lakeshift.iceberg.bad_rows import BadRows, FaultFinder, Reason
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.iceberg.value_casts import ValueCast, find_cast, plain, plain_type


@dataclass(frozen=True)
class Conformed:
    """A batch as the table wants it: the good rows, their partition values if asked for, and the bad rows.

    The positions in ``bad`` are those of the batch that came.
    """

    good: pa.RecordBatch
    bad: BadRows
    values: tuple[pa.Array, ...] = ()


@dataclass(frozen=True)
class InputColumns:
    """The plan by which batches of one schema become batches of a table's schema. Picklable."""

    schema: pa.Schema
    came: pa.Schema
    _columns: tuple[_Member, ...]

    @classmethod
    def plan(
        cls, table_schema: Schema, came: pa.Schema, *, case_sensitive: bool = False, table: str = "the table"
    ) -> InputColumns:
        """Match columns by name, or raise one SchemaMismatchError that names everything that does not fit."""
        planner = _Planner(case_sensitive)
        columns = planner.members(table_schema.as_struct(), list(came), "")
        if planner.problems:
            listed = "\n".join(f"- {problem}" for problem in planner.problems)
            raise SchemaMismatchError(f"The rows do not fit {table}; nothing was written:\n{listed}")
        return cls(arrow_schema(table_schema), came, columns)

    def conform(self, batch: pa.RecordBatch, partitions: PartitionValues | None = None) -> Conformed:
        """Cast a batch to the table's schema and tell good rows from bad ones.

        With ``partitions`` the good rows' partition values come along, and rows that have none are bad.
        """
        faults = FaultFinder(len(batch))
        columns = [_member(column, batch.columns, len(batch), _Place(faults, column.name)) for column in self._columns]
        made = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        good = made if faults.good is None else made.filter(faults.good)
        if partitions is None:
            return Conformed(good, faults.bad_rows())
        computed = partitions.attempt(good)
        values = tuple(computed.values)
        if computed.uncomputable:
            came = pa.array(range(len(batch)), pa.int64())
            came = came if faults.good is None else came.filter(faults.good)
            for failure in computed.uncomputable:
                where = f"{failure.column}, for {failure.transform}"
                faults.add_rows(came.take(failure.rows), Reason.NO_PARTITION_VALUE, where)
            assert faults.good is not None
            kept = faults.good.take(came)
            good, values = good.filter(kept), tuple(value.filter(kept) for value in values)
        return Conformed(good, faults.bad_rows(), values)

    def paths(self, table_schema: Schema) -> dict[int, tuple[str, ...]]:
        """Where the values of each of the table's columns are among the rows that come, by field id.

        Columns that do not come are absent, and so is what lies inside lists and maps.
        """
        return dict(_paths(table_schema.as_struct(), self._columns, list(self.came), ()))


def _paths(
    wanted: StructType, members: Sequence[_Member], came: Sequence[pa.Field], path: tuple[str, ...]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    for field_, member in zip(wanted.fields, members, strict=True):
        if member.position is not None:
            arrived = came[member.position]
            yield field_.field_id, (*path, arrived.name)
            if isinstance(member.node, _Struct) and isinstance(field_.field_type, StructType):
                yield from _paths(field_.field_type, member.node.members, list(arrived.type), (*path, arrived.name))


# The plan: a tree like the table's schema, each node saying how a value there is made from one that came.


@dataclass(frozen=True)
class _Leaf:
    cast: ValueCast


@dataclass(frozen=True)
class _Struct:
    members: tuple[_Member, ...]
    type: pa.DataType


@dataclass(frozen=True)
class _List:
    element: _Member
    type: pa.DataType


@dataclass(frozen=True)
class _Map:
    key: _Member
    value: _Member
    type: pa.DataType


@dataclass(frozen=True)
class _Nothing:
    """From a column that has no type because it has no values."""

    type: pa.DataType


_Node: TypeAlias = "_Leaf | _Struct | _List | _Map | _Nothing"


@dataclass(frozen=True)
class _Member:
    """A column, a struct's field, a list's element, a map's key or value.

    ``position`` is where it is among the members that came; None where it did not come, and is ``absent`` instead.
    """

    name: str
    required: bool
    type: pa.DataType
    position: int | None
    node: _Node | None
    absent: pa.Scalar | None = None


@dataclass
class _Planner:
    case_sensitive: bool
    problems: list[str] = field(default_factory=list)

    def members(self, wanted: StructType, came: Sequence[pa.Field], path: str) -> tuple[_Member, ...]:
        found: dict[str, list[int]] = {}
        for position, arrived in enumerate(came):
            found.setdefault(self._key(arrived.name), []).append(position)
        members, keys = [], set()
        for member in wanted.fields:
            key, name = self._key(member.name), f"{path}{member.name}"
            positions = found.get(key, [])
            if len(positions) > 1 or key in keys:
                names = ", ".join(repr(came[position].name) for position in positions)
                self.problems.append(
                    f"{name!r} is ambiguous: the rows have {names}"
                    + (", and the table has columns that differ in case only" if key in keys else "")
                    + ". Rename all but one, or match names case-sensitively."
                )
            elif positions:
                members.append(self._present(member, positions[0], came[positions[0]].type, name))
            elif absent := self._absent(member, name):
                members.append(absent)
            keys.add(key)
        for key, positions in found.items():
            if key not in keys:
                for position in positions:
                    self._extra(came[position], wanted, path)
        return tuple(members)

    def _key(self, name: str) -> str:
        return name if self.case_sensitive else name.lower()

    def _present(self, member: NestedField, position: int | None, kind: pa.DataType, path: str) -> _Member:
        node = self._node(member.field_type, kind, path)
        return _Member(member.name, member.required, arrow_type_of(member.field_type), position, node)

    def _absent(self, member: NestedField, path: str) -> _Member | None:
        kind = arrow_type_of(member.field_type)
        default = member.write_default
        if default is None and member.required:
            self.problems.append(f"required column {path!r} ({member.field_type}) is missing. Add it to the rows.")
            return None
        return _Member(member.name, member.required, kind, None, None, _default(default, kind))

    def _extra(self, arrived: pa.Field, wanted: StructType, path: str) -> None:
        text = f"column {path + arrived.name!r} ({describe_type(arrived.type)}) is not in the table. "
        alike = [member.name for member in wanted.fields if member.name.lower() == arrived.name.lower()]
        if alike:
            text += f"It differs from {path + alike[0]!r} in case only: rename it, or match without regard to case."
        else:
            text += "Drop it from the rows, or add it to the table."
        self.problems.append(text)

    def _node(self, wanted: IcebergType, came: pa.DataType, path: str) -> _Node | None:
        came, kind = plain_type(came), arrow_type_of(wanted)
        match wanted:
            case StructType() if pa.types.is_struct(came):
                return _Struct(self.members(wanted, list(came), f"{path}."), kind)
            case ListType() if _is_list(came):
                element = self._present(wanted.element_field, None, came.value_type, f"{path}.element")
                return _List(element, kind)
            case MapType() if pa.types.is_map(came):
                key = self._present(wanted.key_field, None, came.key_type, f"{path}.key")
                value = self._present(wanted.value_field, None, came.item_type, f"{path}.value")
                return _Map(key, value, kind)
            case _ if wanted.is_primitive and (cast := find_cast(came, wanted)):
                return _Leaf(cast)
            case _ if pa.types.is_null(came):
                return _Nothing(kind)
        self.problems.append(
            f"column {path!r}: the rows have {describe_type(came)}, the table has {wanted}, and no cast between them "
            f"keeps every value. Cast it yourself to {wanted}, as you want it done."
        )
        return None


def describe_type(kind: pa.DataType) -> str:
    """An Arrow type in Iceberg's words, where it has words for it."""
    kind = plain_type(kind)
    if pa.types.is_timestamp(kind):
        return f"timestamp{'' if kind.tz is None else 'tz'}{'' if kind.unit == 'us' else f' in {kind.unit}'}"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{member.name}: {describe_type(member.type)}' for member in kind)}>"
    if _is_list(kind):
        return f"list<{describe_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{describe_type(kind.key_type)}, {describe_type(kind.item_type)}>"
    return _NAMES.get(str(kind), str(kind))


_NAMES = {
    "bool": "boolean",
    "int32": "int",
    "int64": "long",
    "date32[day]": "date",
    "large_string": "string",
    "string_view": "string",
    "large_binary": "binary",
    "binary_view": "binary",
}


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def _default(value: Any, kind: pa.DataType) -> pa.Scalar:
    if value is not None and pa.types.is_temporal(kind) and isinstance(value, int):
        return pa.array([value], pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)[0]
    return pa.scalar(value, kind)


# Applying it.


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
    member: _Member, came: Sequence[pa.Array], length: int, place: _Place, parents: pa.Array | None = None
) -> pa.Array:
    """A member made from its siblings that came; ``parents`` says where its struct is present, if not everywhere."""
    if member.position is None:
        assert member.absent is not None
        return pa.repeat(member.absent, length) if member.absent.is_valid else _nothing(length, member.type)
    return _value(member, came[member.position], place, parents)


def _value(member: _Member, came: pa.Array, place: _Place, parents: pa.Array | None = None) -> pa.Array:
    # Only where the parent is present does a missing value matter; and it is missing in what came, not in what a
    # failed cast made of it.
    if member.required and came.null_count:
        missing = came.is_null()
        place.report(missing if parents is None else pc.and_(missing, parents), Reason.REQUIRED)
    assert member.node is not None
    made = _apply(member.node, came, place)
    # Parquet refuses nulls in a required field even where the parent is absent or the row is bad anyway.
    return _filled(made) if member.required and made.null_count else made


def _apply(node: _Node, came: pa.Array, place: _Place) -> pa.Array:
    match node:
        case _Leaf():
            made, faults = node.cast.apply(came)
            for mask, reason in faults:
                place.report(mask, reason)
            return made
        case _Nothing():
            return _nothing(len(came), node.type)
        case _Struct():
            return _struct(node, plain(came), place)
        case _List():
            return _list(node, plain(came), place)
        case _Map():
            return _map(node, plain(came), place)


def _struct(node: _Struct, came: pa.StructArray, place: _Place) -> pa.Array:
    parents = came.is_valid() if came.null_count else None
    children = came.flatten()  # each null where the struct is
    made = [_member(member, children, len(came), place.below(member.name), parents) for member in node.members]
    if not made:
        return came
    mask = None if parents is None else pc.invert(parents)
    return pa.StructArray.from_arrays(made, fields=list(node.type), mask=mask)


def _list(node: _List, came: pa.Array, place: _Place) -> pa.Array:
    if not pa.types.is_list(came.type):
        came = came.cast(pa.list_(came.type.value_type))
    values = came.flatten()  # without those that lie below a null
    made = _value(node.element, values, place.within("element", pc.list_parent_indices(came)))
    return pa.ListArray.from_arrays(_offsets(came), made, type=node.type, mask=_nulls(came))


def _map(node: _Map, came: pa.MapArray, place: _Place) -> pa.Array:
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
        return _default(0, kind)
    return pa.scalar(0, kind)
