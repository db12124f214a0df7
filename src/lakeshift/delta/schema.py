"""The schema model of the Delta room: what a Spark schema and an Arrow schema have in common.

Types are named as Delta's log names them. A schema comes in as a pyspark ``StructType``, as the JSON of one
(which is also what Delta's log holds) or as a ``pyarrow.Schema``. Neither Spark nor a JVM is needed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

# Types that a Delta table can hold, by the name they have in its log; decimals carry their digits in the name.
DELTA_ATOMIC_TYPES = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "boolean", "string", "binary"}
    | {"date", "timestamp", "timestamp_ntz", "variant"}
)
_SHOWN_AS = {"integer": "int"}
_GENERATED, _DEFAULT, _IDENTITY = "delta.generationExpression", "CURRENT_DEFAULT", "delta.identity.start"


@dataclass(frozen=True, slots=True)
class Atomic:
    """A type without parts, such as ``integer`` or ``decimal(10,2)``."""

    name: str

    def __str__(self) -> str:
        return _SHOWN_AS.get(self.name, self.name)

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale, if this is a decimal."""
        if not self.name.startswith("decimal("):
            return None
        precision, scale = self.name[8:-1].split(",")
        return int(precision), int(scale)


@dataclass(frozen=True, slots=True)
class ArrayOf:
    element: DataType

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapOf:
    key: DataType
    value: DataType

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A column or a field of a struct. ``default`` and ``generated_as`` are the SQL texts the table has for it."""

    name: str
    type: DataType
    nullable: bool = True
    default: str | None = None
    generated_as: str | None = None
    identity: bool = False


@dataclass(frozen=True, slots=True)
class StructOf:
    """A struct, and a whole schema: names are matched without regard to case, as Delta does."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(f'{field.name}: {field.type}' for field in self.fields)}>"

    def by_name(self) -> dict[str, Field]:
        return {field.name.lower(): field for field in self.fields}


DataType = Atomic | ArrayOf | MapOf | StructOf


def schema_of(schema: object) -> StructOf:
    """The model of a pyspark ``StructType``, of its JSON (text or parsed) or of a ``pyarrow.Schema``."""
    match schema:
        case StructOf():
            return schema
        case pa.Schema():
            return StructOf(tuple(_arrow_field(field) for field in schema))
        case str():
            return _struct(json.loads(schema))
        case Mapping():
            return _struct(schema)
    if hasattr(schema, "jsonValue"):
        return _struct(schema.jsonValue())
    raise TypeError(f"{type(schema).__name__} is not a schema; pass a pyspark StructType or a pyarrow Schema.")


def type_of(data_type: object) -> DataType:
    """The model of one type: a pyspark ``DataType``, a ``pyarrow.DataType`` or the name Delta's log has for it."""
    match data_type:
        case Atomic() | ArrayOf() | MapOf() | StructOf():
            return data_type
        case pa.DataType():
            return _arrow_type(data_type)
        case str():
            return _spark_type(data_type)
    if hasattr(data_type, "jsonValue"):
        return _spark_type(data_type.jsonValue())
    raise TypeError(f"{type(data_type).__name__} is not a type; pass a pyspark or pyarrow data type.")


def as_stored(data_type: DataType) -> DataType:
    """The type as Delta stores it: one string and one binary type, where Arrow has a large form of each."""
    match data_type:
        case Atomic("large_string"):
            return Atomic("string")
        case Atomic("large_binary"):
            return Atomic("binary")
        case ArrayOf(element):
            return ArrayOf(as_stored(element))
        case MapOf(key, value):
            return MapOf(as_stored(key), as_stored(value))
        case StructOf():
            return stored_schema(data_type)
    return data_type


def stored_schema(schema: StructOf) -> StructOf:
    return StructOf(tuple(Field(f.name, as_stored(f.type), f.nullable) for f in schema.fields))


def atoms(data_type: DataType, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Atomic]]:
    """Every atomic type inside a type, with the path that leads to it (``element``, ``key`` and ``value`` included)."""
    match data_type:
        case Atomic():
            yield path, data_type
        case ArrayOf(element):
            yield from atoms(element, (*path, "element"))
        case MapOf(key, value):
            yield from atoms(key, (*path, "key"))
            yield from atoms(value, (*path, "value"))
        case StructOf(fields):
            for field in fields:
                yield from atoms(field.type, (*path, field.name))


def structs(data_type: DataType, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], StructOf]]:
    """Every struct inside a type, itself included, with the path that leads to it."""
    match data_type:
        case ArrayOf(element):
            yield from structs(element, (*path, "element"))
        case MapOf(key, value):
            yield from structs(key, (*path, "key"))
            yield from structs(value, (*path, "value"))
        case StructOf(fields):
            yield path, data_type
            for field in fields:
                yield from structs(field.type, (*path, field.name))


def is_delta_type(atomic: Atomic) -> bool:
    return atomic.name in DELTA_ATOMIC_TYPES or atomic.decimal is not None


def spark_json(data_type: DataType) -> object:
    """The JSON that pyspark's ``StructType.fromJson`` takes; nullable throughout, as Delta stores data it is given."""
    match data_type:
        case Atomic(name):
            return name
        case ArrayOf(element):
            return {"type": "array", "elementType": spark_json(element), "containsNull": True}
        case MapOf(key, value):
            kinds = {"keyType": spark_json(key), "valueType": spark_json(value)}
            return {"type": "map", **kinds, "valueContainsNull": True}
        case StructOf(fields):
            members = [{"name": f.name, "type": spark_json(f.type), "nullable": True, "metadata": {}} for f in fields]
            return {"type": "struct", "fields": members}


def _struct(value: Mapping[str, Any]) -> StructOf:
    fields = []
    for member in value["fields"]:
        metadata = member.get("metadata") or {}
        fields.append(
            Field(
                member["name"],
                _spark_type(member["type"]),
                member["nullable"],
                metadata.get(_DEFAULT),
                metadata.get(_GENERATED),
                _IDENTITY in metadata,
            )
        )
    return StructOf(tuple(fields))


_KNOWN = {name: Atomic(name) for name in DELTA_ATOMIC_TYPES}


def _spark_type(value: Any) -> DataType:
    if isinstance(value, str):
        if value.startswith("string collate "):
            return Atomic("string")  # a collation orders strings; it does not change what is stored
        return _KNOWN.get(value) or Atomic("integer" if value == "int" else value)
    match value.get("type"):
        case "struct":
            return _struct(value)
        case "array":
            return ArrayOf(_spark_type(value["elementType"]))
        case "map":
            return MapOf(_spark_type(value["keyType"]), _spark_type(value["valueType"]))
    return Atomic(f"{value.get('type')} {value.get('class') or value.get('pyClass') or ''}".strip())


def _arrow_field(field: pa.Field) -> Field:
    return Field(field.name, _arrow_type(field.type), field.nullable)


_ARROW_ATOMIC = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.string_view(): "string",
    pa.large_string(): "large_string",
    pa.binary(): "binary",
    pa.binary_view(): "binary",
    pa.large_binary(): "large_binary",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.date64(): "date",
    pa.null(): "void",
}


def _arrow_type(kind: pa.DataType) -> DataType:
    known = _ARROW_ATOMIC.get(kind)
    if known is not None:
        return Atomic(known)
    if pa.types.is_dictionary(kind):
        return _arrow_type(kind.value_type)
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return Atomic(f"decimal({kind.precision},{kind.scale})")
    if pa.types.is_fixed_size_binary(kind):
        return Atomic("binary")
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return Atomic("timestamp_ntz" if kind.tz is None else "timestamp")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return ArrayOf(_arrow_type(kind.value_type))
    if pa.types.is_map(kind):
        return MapOf(_arrow_type(kind.key_type), _arrow_type(kind.item_type))
    if pa.types.is_struct(kind):
        return StructOf(tuple(_arrow_field(kind.field(i)) for i in range(kind.num_fields)))
    return Atomic(str(kind))
