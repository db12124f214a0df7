"""What an incoming schema would change in a table's: the pure comparison, without Spark, policy or stack.

``diff_schemas`` looks at each column once, recursively through structs, arrays and maps, and never at rows.
What the installed Delta can carry out, and what the caller allows, is decided in ``policy``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakeshift.delta.schema import (
    ArrayOf,
    Atomic,
    DataType,
    Field,
    MapOf,
    StructOf,
    as_stored,
    atoms,
    is_delta_type,
    schema_of,
    structs,
    type_of,
)

_INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 19}  # name to decimal digits
_WIDER = {
    "byte": ("short", "integer", "long"),
    "short": ("integer", "long"),
    "integer": ("long",),
    "float": ("double",),
    "string": ("large_string",),
    "binary": ("large_binary",),
}
# Exact conversions that are no widening of a table: an incoming value keeps its meaning in the wider column.
_ALSO_FITS = {"byte": ("float", "double"), "short": ("float", "double"), "integer": ("double",)}
_REMEDY_BY_TYPE = {
    "void": "Give it a type with cast(), or drop it: a column of nulls only has none.",
    "uint8": "Cast it to int16.",
    "uint16": "Cast it to int32.",
    "uint32": "Cast it to int64.",
    "uint64": "Cast it to decimal(20,0), or to int64 if it fits.",
    "halffloat": "Cast it to float.",
}


@dataclass(frozen=True)
class NewColumn:
    """A column, or a field of a struct, that the table does not have."""

    column: str
    type: DataType
    nullable: bool = True

    def __str__(self) -> str:
        return f"+ {self.column}: {self.type}"

    def to_dict(self) -> dict[str, object]:
        return {"column": self.column, "type": str(self.type)}


@dataclass(frozen=True)
class TypeChange:
    """A column whose incoming type is wider than the table's."""

    column: str
    table_type: Atomic
    input_type: Atomic
    path: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"~ {self.column}: {self.table_type} -> {self.input_type}"

    def to_dict(self) -> dict[str, object]:
        return {"column": self.column, "from": str(self.table_type), "to": str(self.input_type)}


@dataclass(frozen=True)
class Problem:
    """A column that no policy and no stack can fit to the table, with the way out."""

    column: str
    reason: str
    remedy: str
    table_type: DataType | None = None
    input_type: DataType | None = None

    def __str__(self) -> str:
        return f"! {self.column}: {self.reason}. {self.remedy}"

    def to_dict(self) -> dict[str, object]:
        types = {"table_type": self.table_type, "input_type": self.input_type}
        shown = {key: str(value) for key, value in types.items() if value is not None}
        return {"column": self.column, "reason": self.reason, "remedy": self.remedy, **shown}


@dataclass(frozen=True)
class SchemaDiff:
    """The outcome of a comparison: always one of the five kinds below."""

    new_columns: tuple[NewColumn, ...] = ()
    widened: tuple[TypeChange, ...] = ()
    problems: tuple[Problem, ...] = ()

    def lines(self) -> list[str]:
        return [str(change) for change in (*self.new_columns, *self.widened, *self.problems)]

    def to_dict(self) -> dict[str, object]:
        return {
            "kind": type(self).__name__,
            "new_columns": [column.to_dict() for column in self.new_columns],
            "widened": [change.to_dict() for change in self.widened],
            "problems": [problem.to_dict() for problem in self.problems],
        }


class Identical(SchemaDiff):
    """Nothing in the table needs to change (columns may be missing or narrower)."""


class NewColumns(SchemaDiff):
    """The input has columns that the table lacks."""


class TypeWidening(SchemaDiff):
    """The input has wider types."""


class Mixed(SchemaDiff):
    """The input has new columns and wider types."""


class Incompatible(SchemaDiff):
    """At least one column cannot be brought into the table; every such column is named."""


@dataclass(frozen=True)
class Comparison:
    """A diff and what else the walk over both schemas has seen.

    ``merged`` is the table's schema after the change, ``cast_up`` the columns that are narrower than the table's,
    ``missing`` the top-level columns that the input lacks.
    """

    diff: SchemaDiff
    merged: StructOf
    cast_up: tuple[TypeChange, ...]
    missing: tuple[Field, ...]


def diff_schemas(table_schema: object, input_schema: object) -> SchemaDiff:
    """Compare an incoming schema with a table's. Both may be pyspark, Arrow or JSON schemas."""
    return compare_schemas(schema_of(table_schema), schema_of(input_schema)).diff


def compare_schemas(table: StructOf, incoming: StructOf) -> Comparison:
    walk = _Walk()
    merged = walk.merge_structs(table, incoming, ())
    names = {field.name.lower() for field in incoming.fields}
    missing = tuple(field for field in table.fields if field.name.lower() not in names)
    return Comparison(walk.diff(), merged, tuple(walk.cast_up), missing)


def check_new_schema(incoming: StructOf) -> tuple[Problem, ...]:
    """What keeps this schema from becoming a new table's."""
    walk = _Walk()
    walk.check_new(StructOf(incoming.fields), ())
    return tuple(walk.problems)


def is_safe_widening(from_type: object, to_type: object) -> bool:
    """Whether every value of the first type has the same meaning in the second, which Delta may take its place."""
    before, after = type_of(from_type), type_of(to_type)
    return isinstance(before, Atomic) and isinstance(after, Atomic) and after.name in _WIDER.get(before.name, ())


def fits_into(input_type: Atomic, table_type: Atomic) -> bool:
    """Whether a narrower incoming value can be cast to the table's type without losing anything."""
    before, after = as_stored(input_type), as_stored(table_type)
    assert isinstance(before, Atomic)
    assert isinstance(after, Atomic)
    if before == after or before.name == "void" or is_safe_widening(before, after):
        return True
    if after.name in _ALSO_FITS.get(before.name, ()):
        return True
    if after.decimal is None:
        return False
    precision, scale = after.decimal
    digits, decimals = before.decimal or (_INTEGERS.get(before.name, 99), 0)
    return scale >= decimals and precision - scale >= digits - decimals


def shown_path(path: Iterable[str]) -> str:
    return ".".join(f"`{part}`" if "." in part or "`" in part else part for part in path)


class _Walk:
    """One pass over two schemas; collects what it meets."""

    def __init__(self) -> None:
        self.new_columns: list[NewColumn] = []
        self.widened: list[TypeChange] = []
        self.cast_up: list[TypeChange] = []
        self.problems: list[Problem] = []

    def diff(self) -> SchemaDiff:
        kind: type[SchemaDiff]
        if self.problems:
            kind = Incompatible
        elif self.new_columns and self.widened:
            kind = Mixed
        elif self.new_columns:
            kind = NewColumns
        else:
            kind = TypeWidening if self.widened else Identical
        return kind(tuple(self.new_columns), tuple(self.widened), tuple(self.problems))

    def merge(self, table: DataType, incoming: DataType, path: tuple[str, ...]) -> DataType:
        match table, incoming:
            case StructOf(), StructOf():
                return self.merge_structs(table, incoming, path)
            case ArrayOf(element), ArrayOf(other):
                return ArrayOf(self.merge(element, other, (*path, "element")))
            case MapOf(key, value), MapOf(other_key, other_value):
                return MapOf(
                    self.merge(key, other_key, (*path, "key")), self.merge(value, other_value, (*path, "value"))
                )
            case Atomic(), Atomic():
                return self._merge_atomic(table, incoming, path)
            case _, Atomic("void"):
                return table
        self._clash(table, incoming, path)
        return table

    def merge_structs(self, table: StructOf, incoming: StructOf, path: tuple[str, ...]) -> StructOf:
        given = self._unique_names(incoming, path)
        fields = []
        for known in table.fields:
            column = (*path, known.name)
            match = given.pop(known.name.lower(), None)
            if match is None:
                self._check_missing(known, column, top_level=not path)
                fields.append(known)
                continue
            if not known.nullable and match.type == Atomic("void"):
                self._add_problem(
                    column,
                    "the table has it NOT NULL and the input holds only nulls",
                    "Fill it.",
                    known.type,
                    match.type,
                )
            if known.identity:
                reason = "it is an identity column, whose values Delta assigns"
                self._add_problem(column, reason, "Drop it from the input.", known.type, match.type)
            merged = self.merge(known.type, match.type, column)
            fields.append(Field(known.name, merged, known.nullable, known.default, known.generated_as, known.identity))
        for added in given.values():
            self.check_new(added.type, (*path, added.name))
            self.new_columns.append(NewColumn(shown_path((*path, added.name)), as_stored(added.type), added.nullable))
            fields.append(Field(added.name, as_stored(added.type)))
        return StructOf(tuple(fields))

    def check_new(self, data_type: DataType, path: tuple[str, ...]) -> None:
        """Note what keeps a new column out of any Delta table."""
        for inside, atomic in atoms(data_type, path):
            stored = as_stored(atomic)
            assert isinstance(stored, Atomic)
            if not is_delta_type(stored):
                reason = "it has no type (void)" if stored.name == "void" else f"Delta has no type {stored}"
                self._add_problem(inside, reason, self._remedy_for(stored), None, atomic)
        for inside, struct in structs(data_type, path):
            self._unique_names(struct, inside)
            if not struct.fields:
                self._add_problem(inside, "it is a struct without fields", "Drop it, or give it a field.", None, struct)

    def _merge_atomic(self, table: Atomic, incoming: Atomic, path: tuple[str, ...]) -> DataType:
        if table == incoming:
            return table
        if is_safe_widening(table, incoming):
            self.widened.append(TypeChange(shown_path(path), table, incoming, path))
            return incoming
        if fits_into(incoming, table):
            self.cast_up.append(TypeChange(shown_path(path), table, incoming, path))
            return table
        self._clash(table, incoming, path)
        return table

    def _clash(self, table: DataType, incoming: DataType, path: tuple[str, ...]) -> None:
        if table == Atomic("void"):
            remedy = "An earlier write left the table's column without a type; drop it from the table and write again."
        elif isinstance(incoming, Atomic) and incoming.name in _REMEDY_BY_TYPE:
            remedy = _REMEDY_BY_TYPE[incoming.name]
        else:
            remedy = f"Cast it to {table} before writing, or write it under another name."
        self._add_problem(path, f"the table has {table}, the input {incoming}", remedy, table, incoming)

    def _check_missing(self, known: Field, column: tuple[str, ...], *, top_level: bool) -> None:
        filled_by_delta = top_level and (known.default or known.generated_as or known.identity)
        if not known.nullable and not filled_by_delta:
            self._add_problem(
                column, "the table has it NOT NULL and the input lacks it", "Add it to the input.", known.type, None
            )

    def _unique_names(self, struct: StructOf, path: tuple[str, ...]) -> dict[str, Field]:
        found: dict[str, Field] = {}
        for member in struct.fields:
            other = found.setdefault(member.name.lower(), member)
            if other is not member:
                same = "twice" if other.name == member.name else f"as {other.name!r} too"
                self._add_problem(
                    (*path, member.name),
                    f"the input has it {same}, and Delta does not tell names apart by case",
                    "Rename or drop one of them.",
                    None,
                    member.type,
                )
        return found

    def _remedy_for(self, stored: Atomic) -> str:
        if stored.name.startswith(("timestamp[ns", "time", "duration")):
            return "Cast it to timestamp[us], or to a number."
        return _REMEDY_BY_TYPE.get(stored.name, "Cast it to a type Delta has, or drop it.")

    def _add_problem(
        self, path: tuple[str, ...], reason: str, remedy: str, table: DataType | None, incoming: DataType | None
    ) -> None:
        self.problems.append(Problem(shown_path(path), reason, remedy, table, incoming))
