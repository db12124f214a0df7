"""The columns that a condition names: found in a schema by name, as Spark would find them.

No Spark here, and no literals: those are in `predicate_values`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, NestedField, PrimitiveType, StructType

from lakeshift.errors import ConfigError

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True)
class Column:
    """A column of a primitive type, by its full name in the schema."""

    name: str
    kind: PrimitiveType
    # Iceberg takes a required field for one that is never null, but the struct around it may be.
    null_by_parent: bool

    @property
    def is_floating(self) -> bool:
        return isinstance(self.kind, (FloatType, DoubleType))


class Names:
    """Finds columns by the names that conditions use. A name that is not there, or there twice, is a ConfigError."""

    def __init__(self, schema: Schema, case_sensitive: bool) -> None:
        self._schema = schema
        self._case_sensitive = case_sensitive

    def top_level(self, parts: list[str]) -> str:
        """The top-level column that a name, which may go on into it, belongs to."""
        return self._path(parts)[0].name

    def find(self, parts: list[str]) -> Column | None:
        """The column of a name; None if it is of no primitive type, or inside a list or map."""
        path = self._path(parts)
        field = path[-1]
        if len(path) < len(parts) or not isinstance(field.field_type, PrimitiveType):
            return None
        name = self._schema.find_column_name(field.field_id)
        assert name is not None
        optional_parent = any(parent.optional for parent in path[:-1])
        return Column(name, field.field_type, null_by_parent=field.required and optional_parent)

    def _path(self, parts: list[str]) -> list[NestedField]:
        """The fields that a name leads through, as far as there are only structs on the way."""
        path = [self._among(self._schema.fields, parts[0], parts)]
        for part in parts[1:]:
            kind = path[-1].field_type
            if isinstance(kind, PrimitiveType):
                raise ConfigError(
                    f"The condition names {'.'.join(parts)!r}, but column {path[-1].name!r} is of type {kind} and has "
                    "no fields."
                )
            if not isinstance(kind, StructType):
                break
            path.append(self._among(kind.fields, part, parts))
        return path

    def _among(self, fields: tuple[NestedField, ...], name: str, parts: list[str]) -> NestedField:
        def comparable(text: str) -> str:
            return text if self._case_sensitive else text.lower()

        found = [field for field in fields if comparable(field.name) == comparable(name)]
        if len(found) == 1:
            return found[0]
        there = ", ".join(field.name for field in fields)
        problem = "is ambiguous" if found else "does not exist"
        raise ConfigError(f"The column {'.'.join(parts)!r} of the condition {problem}; there are: {there}.")


def name_parts(node: exp.Expr) -> list[str] | None:
    """``a.b.c`` as its parts; None if it is not a plain name."""
    from sqlglot import exp

    if isinstance(node, exp.Column) and all(isinstance(part, exp.Identifier) for part in node.parts):
        return [part.name for part in node.parts]
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = name_parts(node.this)
        return None if before is None else [*before, node.expression.name]
    return None


def needed_columns(condition: exp.Expr, names: Names) -> set[str] | None:
    """The top-level columns that a condition names; None if that cannot be told.

    A name inside a function may be something else than a column, such as a unit of time: it is Spark's to judge.
    """
    from sqlglot import exp

    if condition.find(exp.Query, exp.Star):
        return None
    needed: set[str] = set()
    uncertain = False
    for column in condition.find_all(exp.Column):
        whole: exp.Expr = column
        while isinstance(whole.parent, exp.Dot) and whole.parent.this is whole:
            whole = whole.parent
        parts = name_parts(whole) or name_parts(column)
        if parts is None:
            return None
        try:
            needed.add(names.top_level(parts))
        except ConfigError:
            if not _inside_function(whole):
                raise
            uncertain = True
    return None if uncertain else needed


def _inside_function(node: exp.Expr) -> bool:
    from sqlglot import exp

    plain = (exp.Connector, exp.Paren, exp.Not, exp.Predicate)
    ancestor = node.parent
    while ancestor is not None:
        if isinstance(ancestor, exp.Func) and not isinstance(ancestor, exp.Connector):
            return True
        if not isinstance(ancestor, plain):
            return True
        ancestor = ancestor.parent
    return False
