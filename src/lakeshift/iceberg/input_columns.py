"""How the columns of incoming rows fit a table's: matched once, on the driver; applied to every batch, on executors.

What cannot fit is one error that names all of it, before anything is written. What may fit or not is decided row by
row. Arrow schemas and batches only: no Spark, no catalog, no file, no numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from lakeshift.errors import SchemaMismatchError
from lakeshift.iceberg.arrow_schema import arrow_schema, arrow_type_of
from lakeshift.iceberg.bad_rows import BadRows, FaultFinder, Reason
from lakeshift.iceberg.conforming import Leaf, List, Map, Member, Node, Nothing, Struct, make_column
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.iceberg.value_casts import find_cast, plain_type


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
    _columns: tuple[Member, ...]

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
        columns = [make_column(column, batch, faults) for column in self._columns]
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
    wanted: StructType, members: Sequence[Member], came: Sequence[pa.Field], path: tuple[str, ...]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    for field_, member in zip(wanted.fields, members, strict=True):
        if member.position is not None:
            arrived = came[member.position]
            yield field_.field_id, (*path, arrived.name)
            if isinstance(member.node, Struct) and isinstance(field_.field_type, StructType):
                yield from _paths(field_.field_type, member.node.members, list(arrived.type), (*path, arrived.name))


@dataclass
class _Planner:
    case_sensitive: bool
    problems: list[str] = field(default_factory=list)

    def members(self, wanted: StructType, came: Sequence[pa.Field], path: str) -> tuple[Member, ...]:
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

    def _present(self, member: NestedField, position: int | None, kind: pa.DataType, path: str) -> Member:
        node = self._node(member.field_type, kind, path)
        return Member(member.name, member.required, arrow_type_of(member.field_type), position, node)

    def _absent(self, member: NestedField, path: str) -> Member | None:
        kind = arrow_type_of(member.field_type)
        default = member.write_default
        if default is None and member.required:
            self.problems.append(f"required column {path!r} ({member.field_type}) is missing. Add it to the rows.")
            return None
        return Member(member.name, member.required, kind, None, None, _default(default, kind))

    def _extra(self, arrived: pa.Field, wanted: StructType, path: str) -> None:
        text = f"column {path + arrived.name!r} ({describe_type(arrived.type)}) is not in the table. "
        alike = [member.name for member in wanted.fields if member.name.lower() == arrived.name.lower()]
        if alike:
            text += f"It differs from {path + alike[0]!r} in case only: rename it, or match without regard to case."
        else:
            text += "Drop it from the rows, or add it to the table."
        self.problems.append(text)

    def _node(self, wanted: IcebergType, came: pa.DataType, path: str) -> Node | None:
        came, kind = plain_type(came), arrow_type_of(wanted)
        match wanted:
            case StructType() if pa.types.is_struct(came):
                return Struct(self.members(wanted, list(came), f"{path}."), kind)
            case ListType() if _is_list(came):
                element = self._present(wanted.element_field, None, came.value_type, f"{path}.element")
                return List(element, kind)
            case MapType() if pa.types.is_map(came):
                key = self._present(wanted.key_field, None, came.key_type, f"{path}.key")
                value = self._present(wanted.value_field, None, came.item_type, f"{path}.value")
                return Map(key, value, kind)
            case _ if wanted.is_primitive and (cast := find_cast(came, wanted)):
                return Leaf(cast)
            case _ if pa.types.is_null(came):
                return Nothing(kind)
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
