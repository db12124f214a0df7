"""A data file's columns as a table's: found by field id, or by the name mapping, and brought to the table's types.

Iceberg's rules of evolution, over Arrow: renamed and reordered columns are found by id, dropped ones are not
looked at, added ones are null or have their initial default, widened ones are cast. What lies in a file as the
table wants it is passed on as it is. No file is opened here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias
from uuid import UUID

import pyarrow as pa
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from lakeshift.errors import UnsupportedTableError
from lakeshift.iceberg.arrow_schema import FIELD_ID

# From an array of the file to one of the table; None if they are the same.
Conversion: TypeAlias = Callable[[Any], Any] | None


@dataclass(frozen=True)
class FileField:
    """A field of a file: its Iceberg id if it has one, and where its first leaf is among the file's leaves."""

    field_id: int | None
    name: str
    kind: pa.DataType
    children: tuple[FileField, ...]
    leaf: int


@dataclass(frozen=True)
class FileFields:
    """The top-level fields of a file, and whether their ids are the file's own or come from the name mapping."""

    fields: tuple[FileField, ...]
    own_ids: bool

    def by_id(self, field_id: int) -> FileField | None:
        """The top-level field of an id."""
        return next((field for field in self.fields if field.field_id == field_id), None)

    def leaf(self, path: Sequence[int]) -> FileField | None:
        """The field that a path of ids leads to through structs."""
        fields, found = self.fields, None
        for field_id in path:
            found = next((field for field in fields if field.field_id == field_id), None)
            if found is None:
                return None
            fields = found.children
        return found


def file_fields(schema: pa.Schema, mapping: NameMapping | None, location: str) -> FileFields:
    """The fields of a Parquet file. A file without ids needs the table's name mapping."""
    leaves = count()
    own = tuple(_by_metadata(field, leaves) for field in schema)
    if any(map(_has_id, own)) or not own:
        return FileFields(own, own_ids=True)
    if mapping is None:
        raise UnsupportedTableError(
            f"{location} was written without Iceberg's field ids, and the table has no property "
            "schema.name-mapping.default that says which column is which. Set it, and read again."
        )
    return FileFields(tuple(_mapped(field, mapping.root) for field in own), own_ids=False)


def _by_metadata(field: pa.Field, leaves: count[int]) -> FileField:
    first = next(leaves) if not pa.types.is_nested(field.type) else -1
    children = tuple(_by_metadata(child, leaves) for child in _children(field.type))
    number = (field.metadata or {}).get(FIELD_ID)
    # Writers without ids, Arrow's among them, may write -1.
    field_id = int(number) if number is not None and int(number) >= 0 else None
    return FileField(field_id, field.name, field.type, children, children[0].leaf if children else first)


def _children(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_nested(kind):
        return [kind.value_field]
    return []


def _has_id(field: FileField) -> bool:
    return field.field_id is not None or any(map(_has_id, field.children))


def _mapped(field: FileField, mapping: Sequence[MappedField], name: str | None = None) -> FileField:
    found = next((entry for entry in mapping if (name or field.name) in entry.names), None)
    # Not by truth: a mapped field without inner fields counts as false.
    inner, field_id = (found.fields, found.field_id) if found is not None else ([], None)
    # A mapping calls the parts of lists and maps by these names, whatever the file calls them.
    if pa.types.is_map(field.kind):
        names: list[str | None] = ["key", "value"]
    elif pa.types.is_struct(field.kind):
        names = [None] * len(field.children)
    else:
        names = ["element"]
    children = tuple(_mapped(child, inner, part) for child, part in zip(field.children, names, strict=False))
    return FileField(field_id, field.name, field.kind, children, field.leaf)


def conversion(have: FileField, wanted: NestedField, arrow: pa.DataType, location: str) -> Conversion:
    """How an array of a file's field becomes one of the table's field."""
    return _conversion(have, wanted.field_type, arrow, f"{location}: column {wanted.name!r}")


def _conversion(have: FileField, wanted: IcebergType, arrow: pa.DataType, where: str) -> Conversion:
    match wanted:
        case StructType():
            if not pa.types.is_struct(have.kind):
                raise _mismatch(where, have.kind, wanted)
            return _struct(have, wanted, arrow, where)
        case ListType():
            if not (pa.types.is_list(have.kind) or pa.types.is_large_list(have.kind)):
                raise _mismatch(where, have.kind, wanted)
            return _list(have, wanted, arrow, where)
        case MapType():
            if not pa.types.is_map(have.kind):
                raise _mismatch(where, have.kind, wanted)
            return _map(have, wanted, arrow, where)
        case _:
            return _primitive(have.kind, wanted, arrow, where)


def _struct(have: FileField, wanted: StructType, arrow: pa.StructType, where: str) -> Conversion:
    positions = {child.field_id: position for position, child in enumerate(have.children)}
    steps: list[tuple[int | None, Conversion, pa.Scalar]] = []
    for index, field in enumerate(wanted.fields):
        kind = arrow.field(index).type
        position = positions.get(field.field_id)
        if position is None:
            steps.append((None, None, missing_value(field, kind, where)))
        else:
            inner = _conversion(have.children[position], field.field_type, kind, f"{where}.{field.name}")
            steps.append((position, inner, None))
    same = [step[:2] for step in steps] == [(position, None) for position in range(len(have.children))]
    if same and have.kind == arrow:
        return None

    def convert(array: pa.StructArray) -> pa.StructArray:
        children = [
            _converted(array.field(position), inner) if position is not None else pa.repeat(value, len(array))
            for position, inner, value in steps
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=mask)

    return convert


def _list(have: FileField, wanted: ListType, arrow: pa.ListType, where: str) -> Conversion:
    inner = _conversion(have.children[0], wanted.element_type, arrow.value_type, f"{where}.element")
    if inner is None and have.kind == arrow:
        return None
    plain = pa.list_(have.kind.value_field)

    def convert(array: Any) -> pa.ListArray:
        array = array if pa.types.is_list(array.type) else array.cast(plain)
        # The values lie under the list whatever its own offset is, so that only they have to change.
        validity, offsets = array.buffers()[:2]
        values = _converted(array.values, inner)
        return pa.Array.from_buffers(
            arrow, len(array), [validity, offsets], array.null_count, array.offset, children=[values]
        )

    return convert


def _map(have: FileField, wanted: MapType, arrow: pa.MapType, where: str) -> Conversion:
    keys = _conversion(have.children[0], wanted.key_type, arrow.key_type, f"{where}.key")
    values = _conversion(have.children[1], wanted.value_type, arrow.item_type, f"{where}.value")
    if keys is None and values is None and have.kind == arrow:
        return None

    def convert(array: pa.MapArray) -> pa.MapArray:
        entries = pa.StructArray.from_arrays(
            [_converted(array.keys, keys), _converted(array.items, values)], fields=[arrow.key_field, arrow.item_field]
        )
        validity, offsets = array.buffers()[:2]
        return pa.Array.from_buffers(
            arrow, len(array), [validity, offsets], array.null_count, array.offset, children=[entries]
        )

    return convert


def _primitive(have: pa.DataType, wanted: IcebergType, arrow: pa.DataType, where: str) -> Conversion:
    if have == arrow:
        return None
    if isinstance(have, pa.BaseExtensionType):
        inner = _primitive(have.storage_type, wanted, arrow, where)
        return lambda array: _converted(array.storage, inner)
    if pa.types.is_dictionary(have):
        return lambda array: array.cast(arrow)
    if not _widens(have, arrow):
        raise _mismatch(where, have, wanted)
    return lambda array: array.cast(arrow)


def _widens(have: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type are values of another: Iceberg's promotions, and other spellings of the same type."""
    types: Any = pa.types
    allowed: Any
    if types.is_signed_integer(have) and types.is_signed_integer(wanted):
        allowed = have.bit_width <= wanted.bit_width
    elif types.is_unsigned_integer(have) and types.is_signed_integer(wanted):
        allowed = have.bit_width < wanted.bit_width
    elif types.is_floating(have) and types.is_floating(wanted):
        allowed = have.bit_width <= wanted.bit_width
    elif types.is_decimal(have) and types.is_decimal(wanted):
        allowed = have.scale == wanted.scale and have.precision <= wanted.precision
    elif types.is_timestamp(wanted):
        # A cast that would lose digits raises.
        allowed = types.is_timestamp(have) or types.is_date32(have)
    elif types.is_time64(wanted):
        allowed = types.is_time(have)
    elif _is_bytes(have) and _is_bytes(wanted):
        allowed = not types.is_fixed_size_binary(wanted) or not types.is_string(have)
    else:
        allowed = types.is_null(have)
    return bool(allowed)


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_binary_view(kind)
    )


def missing_value(field: NestedField, arrow: pa.DataType, where: str) -> pa.Scalar:
    """What rows have in a field that their file does not: its initial default, or null."""
    if field.initial_default is not None:
        return scalar(field.initial_default, arrow)
    if field.required:
        raise UnsupportedTableError(
            f"{where}: the required field {field.name!r} (id {field.field_id}) is not in the file and has no initial "
            "default. Give it a default, make it optional, or rewrite the file."
        )
    return pa.scalar(None, arrow)


def scalar(value: Any, arrow: pa.DataType) -> pa.Scalar:
    """A value of metadata as a scalar of a column's type."""
    value = value.bytes if isinstance(value, UUID) else value
    return pa.scalar(value, arrow)


def _converted(array: Any, step: Conversion) -> Any:
    return array if step is None else step(array)


def _mismatch(where: str, have: pa.DataType, wanted: IcebergType) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"{where} is of type {have} in the file, which cannot be read as {wanted}. "
        "Rewrite the file with the table's types."
    )


class ColumnPlan:
    """Which of a file's columns to read for the wanted fields, and how they become the table's."""

    def __init__(self, fields: FileFields, wanted: Sequence[NestedField], arrow: Sequence[pa.DataType], location: str):
        self._own_ids = fields.own_ids
        self._location = location
        self._steps: list[tuple[NestedField, pa.DataType, str | None, Conversion]] = []
        for field, kind in zip(wanted, arrow, strict=True):
            have = fields.by_id(field.field_id)
            step = None if have is None else conversion(have, field, kind, location)
            self._steps.append((field, kind, have.name if have else None, step))

    def names(self, identity: Mapping[int, Any]) -> list[str]:
        """The columns to read from the file, each once."""
        found = (
            name for field, _, name, _ in self._steps if name is not None and not self._by_partition(field, identity)
        )
        return list(dict.fromkeys(found))

    def arrays(self, batch: pa.RecordBatch, identity: Mapping[int, Any]) -> list[Any]:
        """The wanted columns of a batch. ``identity`` has the values of columns that the file is partitioned by."""
        return [
            pa.repeat(self._constant(field, kind, identity), batch.num_rows)
            if name is None or self._by_partition(field, identity)
            else _converted(batch.column(name), step)
            for field, kind, name, step in self._steps
        ]

    def _by_partition(self, field: NestedField, identity: Mapping[int, Any]) -> bool:
        # A name says less than metadata: files that were imported may hold anything in a partition's column.
        return not self._own_ids and field.field_id in identity

    def _constant(self, field: NestedField, kind: pa.DataType, identity: Mapping[int, Any]) -> pa.Scalar:
        if field.field_id in identity:
            return scalar(identity[field.field_id], kind)
        return missing_value(field, kind, self._location)
