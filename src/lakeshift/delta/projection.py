"""How incoming columns become the table's: SQL expressions that cast up, fill and rename. Text only, no Spark.

Only columns that need it are touched. A struct is rebuilt by name, never cast as a whole: Spark would match its
fields by position.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from lakeshift.delta.schema import ArrayOf, Atomic, DataType, MapOf, StructOf
from lakeshift.spark.frames import quoted


@dataclass(frozen=True)
class Projection:
    """``replaced``: incoming column name to the expression that takes its place. ``added``: columns to append."""

    replaced: tuple[tuple[str, str], ...] = ()
    added: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.replaced or self.added)

    def select_list(self, input_names: list[str]) -> list[str]:
        """The select list that applies this projection to a frame with these columns."""
        if not self.replaced:
            return ["*", *self.added]
        replaced = dict(self.replaced)
        return [*(replaced.get(name) or quoted(name) for name in input_names), *self.added]


def project(incoming: StructOf, target: StructOf, *, fill_with_null: frozenset[str] = frozenset()) -> Projection:
    """The projection from an incoming schema to the table's, which must already hold every incoming column.

    Columns that the input lacks are left to Delta, which reads them as null, except those with a default and
    those named in ``fill_with_null`` (partition columns, which Delta wants to see).
    """
    numbers = itertools.count()
    given = incoming.by_name()
    replaced, added = [], []
    for column in target.fields:
        match = given.get(column.name.lower())
        if match is not None:
            if match.name != column.name or _differs(match.type, column.type):
                expression = _convert(quoted(match.name), match.type, column.type, numbers)
                replaced.append((match.name, f"{expression} AS {quoted(column.name)}"))
        elif column.generated_as is not None or column.identity:
            continue
        elif column.default is not None:
            added.append(f"CAST({column.default} AS {type_sql(column.type)}) AS {quoted(column.name)}")
        elif column.name in fill_with_null:
            added.append(f"CAST(NULL AS {type_sql(column.type)}) AS {quoted(column.name)}")
    return Projection(tuple(replaced), tuple(added))


def type_sql(data_type: DataType) -> str:
    match data_type:
        case Atomic(name):
            return name
        case ArrayOf(element):
            return f"array<{type_sql(element)}>"
        case MapOf(key, value):
            return f"map<{type_sql(key)}, {type_sql(value)}>"
        case StructOf(fields):
            return f"struct<{', '.join(f'{quoted(f.name)}: {type_sql(f.type)}' for f in fields)}>"


def _differs(incoming: DataType, target: DataType) -> bool:
    """Whether a value must be converted. Fields that are only missing or in another order need nothing."""
    match incoming, target:
        case StructOf(), StructOf():
            wanted = target.by_name()
            return any(
                field.name != wanted[field.name.lower()].name or _differs(field.type, wanted[field.name.lower()].type)
                for field in incoming.fields
            )
        case ArrayOf(element), ArrayOf(other):
            return _differs(element, other)
        case MapOf(key, value), MapOf(other_key, other_value):
            return _differs(key, other_key) or _differs(value, other_value)
    return incoming != target


def _convert(value: str, incoming: DataType, target: DataType, numbers: Iterator[int]) -> str:
    if not _differs(incoming, target):
        return value
    match incoming, target:
        case StructOf(), StructOf():
            given = incoming.by_name()
            parts = []
            for field in target.fields:
                match = given.get(field.name.lower())
                part = (
                    f"CAST(NULL AS {type_sql(field.type)})"
                    if match is None
                    else _convert(f"{value}.{quoted(match.name)}", match.type, field.type, numbers)
                )
                parts.append(f"{_literal(field.name)}, {part}")
            return f"IF({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
        case ArrayOf(element), ArrayOf(other):
            name = f"e{next(numbers)}"
            return f"transform({value}, {name} -> {_convert(name, element, other, numbers)})"
        case MapOf(key, item), MapOf(other_key, other_item):
            if _differs(key, other_key):
                k, v = f"k{next(numbers)}", f"v{next(numbers)}"
                value = f"transform_keys({value}, ({k}, {v}) -> {_convert(k, key, other_key, numbers)})"
            if _differs(item, other_item):
                k, v = f"k{next(numbers)}", f"v{next(numbers)}"
                value = f"transform_values({value}, ({k}, {v}) -> {_convert(v, item, other_item, numbers)})"
            return value
    return f"CAST({value} AS {type_sql(target)})"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
