"""What may happen to a Delta table: the caller's policy, the table's state, and the plan of one write.

A plan is made here and nowhere else: a write carries it out, ``explain`` and the dry run show it. Pure Python,
no Spark and no I/O; what must be asked of Delta comes in as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakeshift.delta.projection import Projection, project
from lakeshift.delta.schema import StructOf, atoms, stored_schema, structs
from lakeshift.delta.schema_diff import (
    Identical,
    Incompatible,
    Problem,
    SchemaDiff,
    TypeChange,
    check_new_schema,
    compare_schemas,
    shown_path,
)
from lakeshift.errors import ConfigError, SchemaMismatchError
from lakeshift.stack import STACKS, Capability, Stack

Setting = Literal["evolve", "freeze"]

TYPE_WIDENING_PROPERTY = "delta.enableTypeWidening"
COLUMN_MAPPING_PROPERTY = "delta.columnMapping.mode"
READERS_WARNING = (
    "Type widening makes readers that do not know it refuse the table, delta-rs and polars among them; "
    "Spark with Delta, DuckDB and ClickHouse read it."
)
_NAMES_NEED_MAPPING = frozenset(" ,;{}()\n\t=")
_SMALL_INTEGERS = frozenset({"byte", "short", "integer"})
_KEPT_IN_PROTOCOL = frozenset({"delta.minReaderVersion", "delta.minWriterVersion"})
_FEATURE_OF_TYPE = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}


@dataclass(frozen=True)
class EvolutionPolicy:
    """What a sink may change: new ``columns``, wider ``types``. Frozen unless asked for."""

    columns: Setting = "freeze"
    types: Setting = "freeze"

    @classmethod
    def of(cls, evolution: EvolutionPolicy | Mapping[str, str] | bool | None) -> EvolutionPolicy:
        """``True`` evolves both, ``False`` and ``None`` freeze both; a mapping sets them one by one."""
        if isinstance(evolution, EvolutionPolicy):
            return evolution
        if evolution is None or isinstance(evolution, bool):
            return cls("evolve", "evolve") if evolution else cls()
        if not isinstance(evolution, Mapping):
            raise ConfigError(
                f"evolution={evolution!r} is not understood; pass True, False or "
                '{"columns": "evolve" | "freeze", "types": "evolve" | "freeze"}.'
            )
        for key, value in evolution.items():
            if key not in ("columns", "types"):
                raise ConfigError(f"evolution has no setting {key!r}; it knows 'columns' and 'types'.")
            if value not in ("evolve", "freeze"):
                raise ConfigError(f"evolution[{key!r}] is {value!r}; it can be 'evolve' or 'freeze'.")
        return cls(**evolution)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, str]:
        return {"columns": self.columns, "types": self.types}


@dataclass(frozen=True)
class TableState:
    """What a plan needs to know of a table at one version."""

    table_id: str
    version: int
    schema: StructOf
    partition_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    features: frozenset[str] = frozenset()

    @property
    def type_widening(self) -> bool:
        return self.properties.get(TYPE_WIDENING_PROPERTY, "").lower() == "true"

    @property
    def column_mapping(self) -> bool:
        return has_column_mapping(self.properties)


@dataclass(frozen=True)
class WriteSettings:
    """How a sink was asked to write; the same for all of its batches."""

    policy: EvolutionPolicy
    stack: Stack
    enable_type_widening: bool = False
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WritePlan:
    """What one batch does to the table. A plan with ``refusals`` is never carried out."""

    action: Literal["create", "append", "evolve"]
    diff: SchemaDiff
    target: StructOf
    projection: Projection = field(default_factory=Projection)
    enables_type_widening: bool = False
    cast_up: tuple[TypeChange, ...] = ()
    filled: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        return bool(self.refusals)

    def raise_if_refused(self, table: str) -> None:
        if self.refused:
            lines = "\n".join(f"  {line}" for line in self.refusals)
            told = {f"! {refusal}" for refusal in self.refusals}
            shown = "\n".join(f"  {line}" for line in self.diff.lines() if line not in told)
            difference = f"\nThe difference ({type(self.diff).__name__}):\n{shown}" if shown else ""
            raise SchemaMismatchError(
                f"The batch does not fit the Delta table {table}; nothing was written.\n{lines}{difference}"
            )

    def lines(self) -> list[str]:
        """The plan as text, for people."""
        doing = {
            "create": "create the table",
            "append": "append without changing the table",
            "evolve": "append and change the table's schema in the same commit",
        }[self.action]
        shown = [f"refused ({type(self.diff).__name__})" if self.refused else f"{doing} ({type(self.diff).__name__})"]
        shown += [f"  {line}" for line in self.diff.lines()]
        if self.enables_type_widening:
            shown.append(f"  first, in a commit of its own: {TYPE_WIDENING_PROPERTY}=true")
        shown += [f"  cast up {c.column}: {c.input_type} to {c.table_type}" for c in self.cast_up]
        shown += [f"  fill {text}" for text in self.filled]
        shown += [f"  note: {note}" for note in self.notes]
        return shown + [f"  refused: {text}" for text in self.refusals]

    def to_dict(self) -> dict[str, object]:
        return {
            "action": "refuse" if self.refused else self.action,
            "diff": self.diff.to_dict(),
            "enables_type_widening": self.enables_type_widening,
            "cast_up": [{"column": c.column, "from": str(c.input_type), "to": str(c.table_type)} for c in self.cast_up],
            "filled": list(self.filled),
            "expressions": [*(text for _, text in self.projection.replaced), *self.projection.added],
            "notes": list(self.notes),
            "refusals": list(self.refusals),
        }


def has_column_mapping(properties: Mapping[str, str]) -> bool:
    return properties.get(COLUMN_MAPPING_PROPERTY, "none").lower() in ("name", "id")


def plan_write(
    state: TableState | None,
    incoming: StructOf,
    settings: WriteSettings,
    dependents: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda path: (),
) -> WritePlan:
    """Plan one batch against a table's state (``None``: there is no table yet).

    ``dependents`` names the CHECK constraints and generated columns that read a column; it is asked only about
    columns that would be widened.
    """
    incoming = stored_schema(incoming)
    if state is None:
        return _plan_creation(incoming, settings)
    comparison = compare_schemas(state.schema, incoming)
    diff = _limited_by(settings.stack, comparison.diff)
    refusals = [str(problem).removeprefix("! ") for problem in diff.problems]
    refusals += _refuse_by_policy(diff, settings.policy)
    refusals += _refuse_names(diff, state)
    refusals += _refuse_features(diff, incoming, state)
    refusals += _refuse_widening(diff, state, settings, dependents)
    projection = Projection()
    if not isinstance(diff, Incompatible):
        partitions = {name.lower() for name in state.partition_columns}
        to_fill = frozenset(f.name for f in comparison.missing if f.name.lower() in partitions)
        projection = project(incoming, comparison.merged, fill_with_null=to_fill)
    return WritePlan(
        action="append" if isinstance(diff, Identical) else "evolve",
        diff=diff,
        target=comparison.merged,
        projection=projection,
        enables_type_widening=bool(diff.widened) and not state.type_widening and not refusals,
        cast_up=comparison.cast_up,
        filled=tuple(
            f"{f.name} with its default {f.default}" if f.default else f"{f.name} with null"
            for f in comparison.missing
            if f.generated_as is None and not f.identity
        ),
        notes=_notes(diff, state, settings),
        refusals=tuple(refusals),
    )


def check_options_against(state: TableState, settings: WriteSettings, table: str) -> None:
    """Refuse creation options that an existing table contradicts: they would be ignored silently."""
    wanted, present = [n.lower() for n in settings.partition_by], [n.lower() for n in state.partition_columns]
    if wanted and wanted != present:
        actual = ", ".join(state.partition_columns) or "nothing"
        raise ConfigError(
            f"partition_by={list(settings.partition_by)}, but {table} is partitioned by {actual}. "
            "Leave partition_by out, or write to another table."
        )
    there = {key.lower(): value for key, value in state.properties.items()}
    for key, value in settings.properties.items():
        found = there.get(key.lower())
        if key.startswith("delta.feature."):  # kept as a feature of the table, not as a property
            found = value if key.removeprefix("delta.feature.") in state.features else None
        if found != value and key not in _KEPT_IN_PROTOCOL:
            raise ConfigError(
                f"properties[{key!r}] is {value!r}, but {table} has {found!r}. Properties are set when the sink "
                "creates a table; change an existing one with ALTER TABLE ... SET TBLPROPERTIES."
            )


def _plan_creation(incoming: StructOf, settings: WriteSettings) -> WritePlan:
    problems = check_new_schema(incoming)
    refusals = [str(problem).removeprefix("! ") for problem in problems]
    if not incoming.fields:
        refusals.append("the batch has no columns. A table needs at least one.")
    if not has_column_mapping(settings.properties):
        refusals += [_name_refusal(name, creating=True) for name in _unholdable_names(incoming)]
    refusals += _refuse_partitioning(incoming, settings.partition_by)
    required = [f.name for f in incoming.fields if not f.nullable]
    notes = [f"{', '.join(required)}: created nullable, as Delta does with the columns of a batch"] if required else []
    return WritePlan(
        action="create",
        diff=Incompatible(problems=problems) if problems else Identical(),
        target=incoming,
        notes=tuple(notes),
        refusals=tuple(refusals),
    )


def _refuse_partitioning(incoming: StructOf, partition_by: tuple[str, ...]) -> list[str]:
    refusals = []
    given = incoming.by_name()
    for name in partition_by:
        column = given.get(name.lower())
        if column is None:
            refusals.append(
                f"partition column {name} is not in the batch. It has {', '.join(f.name for f in incoming.fields)}."
            )
        elif not hasattr(column.type, "name"):
            refusals.append(f"partition column {name} is a {column.type}. Partition by a column without parts.")
    if partition_by and len(partition_by) >= len(incoming.fields):
        refusals.append("every column is a partition column. Delta needs one that is not.")
    return refusals


def _refuse_by_policy(diff: SchemaDiff, policy: EvolutionPolicy) -> list[str]:
    refusals = []
    if diff.new_columns and policy.columns == "freeze":
        names = ", ".join(f"{c.column} ({c.type})" for c in diff.new_columns)
        refusals.append(f'new: {names}; columns are frozen. To add them, set evolution={{"columns": "evolve"}}.')
    if diff.widened and policy.types == "freeze":
        names = ", ".join(f"{c.column} ({c.table_type} to {c.input_type})" for c in diff.widened)
        refusals.append(
            f'wider: {names}; types are frozen. To widen them, set evolution={{"types": "evolve"}}, '
            "or cast them to the table's types."
        )
    return refusals


def _refuse_names(diff: SchemaDiff, state: TableState) -> list[str]:
    if state.column_mapping:
        return []
    named = [name for c in diff.new_columns for name in [c.column, *(n for n in _unholdable_names(c.type))]]
    return [_name_refusal(name) for name in named if _NAMES_NEED_MAPPING.intersection(name)]


def _unholdable_names(data_type: object) -> list[str]:
    found = []
    for path, struct in structs(data_type):  # type: ignore[arg-type]
        found += [shown_path((*path, f.name)) for f in struct.fields if _NAMES_NEED_MAPPING.intersection(f.name)]
    return found


def _name_refusal(name: str, *, creating: bool = False) -> str:
    how = f'properties={{"{COLUMN_MAPPING_PROPERTY}": "name"}}' if creating else f"{COLUMN_MAPPING_PROPERTY}=name"
    return (
        f"{name!r} holds one of the characters ' ,;{{}}()=', tab or newline, which Delta stores only under "
        f"column mapping. Rename it, or set {how}."
    )


def _refuse_features(diff: SchemaDiff, incoming: StructOf, state: TableState) -> list[str]:
    """New types whose table feature Delta does not switch on by itself in an existing table."""
    refusals = []
    for column in diff.new_columns:
        for _, atomic in atoms(column.type):
            feature = _FEATURE_OF_TYPE.get(atomic.name)
            if feature and feature not in state.features and f"{feature}-preview" not in state.features:
                refusals.append(
                    f"{column.column} needs the table feature {feature} for its type {atomic}. "
                    f"Set the table property delta.feature.{feature}=supported, or cast the column."
                )
                break
    return refusals


def _refuse_widening(
    diff: SchemaDiff,
    state: TableState,
    settings: WriteSettings,
    dependents: Callable[[tuple[str, ...]], tuple[str, ...]],
) -> list[str]:
    refusals = []
    for change in diff.widened:
        own = state.schema.by_name().get(change.path[0].lower())
        if own is not None and own.generated_as is not None:
            refusals.append(
                f"{change.column} is generated as {own.generated_as}. Cast it to {change.table_type}, or leave it out."
            )
        for reader in dependents(change.path):
            refusals.append(
                f"{change.column} cannot be widened while {reader} reads it. Cast it to {change.table_type}, "
                "or drop that first."
            )
    switch_needed = diff.widened and settings.policy.types == "evolve" and not state.type_widening
    if switch_needed and not refusals and not settings.enable_type_widening:
        names = ", ".join(f"{c.column} ({c.table_type} to {c.input_type})" for c in diff.widened)
        refusals.append(
            f"wider: {names}; the table does not have Delta's type widening. Allow the sink to switch it on with "
            f"enable_type_widening=True. {READERS_WARNING}"
        )
    return refusals


def stack_limit(change: TypeChange, stack: Stack) -> str | None:
    """Why this stack's Delta cannot carry out a widening, or None if it can."""
    small = change.table_type.name in _SMALL_INTEGERS and change.input_type.name in _SMALL_INTEGERS
    needed = Capability.DELTA_WIDEN_SMALL_INTEGERS if small else Capability.DELTA_WIDEN_ALL
    if stack.can(needed):
        return None
    able = [f"Delta {s.delta_version.split('.')[0]} on Spark {s.line}" for s in STACKS.values() if s.can(needed)]
    here = ".".join(stack.delta_version.split(".")[:2])
    wanted = f"{change.table_type} to {change.input_type} needs {' or '.join(able)}"
    return f"{wanted}; this is Delta {here} on Spark {stack.line}"


def _limited_by(stack: Stack, diff: SchemaDiff) -> SchemaDiff:
    """The diff with every widening that the stack cannot carry out turned into a problem."""
    possible, problems = [], []
    for change in diff.widened:
        limit = stack_limit(change, stack)
        if limit is None:
            possible.append(change)
            continue
        remedy = f"Cast it to {change.table_type} before writing, or move to that stack."
        problems.append(Problem(change.column, limit, remedy, change.table_type, change.input_type))
    if not problems:
        return diff
    return Incompatible(diff.new_columns, tuple(possible), (*diff.problems, *problems))


def _notes(diff: SchemaDiff, state: TableState, settings: WriteSettings) -> tuple[str, ...]:
    notes = []
    required = [column.column for column in diff.new_columns if not column.nullable]
    if required:
        notes.append(f"{', '.join(required)}: added as nullable, since rows that are already there have no value")
    if diff.widened and not state.type_widening and settings.enable_type_widening:
        notes.append(READERS_WARNING)
    if diff.widened and state.properties.get("delta.enableChangeDataFeed", "").lower() == "true":
        notes.append("reading the change data feed across a widening fails in Delta")
    return tuple(notes)
