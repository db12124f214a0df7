"""How a MERGE runs: rows of a source meet the table's, and clauses say what becomes of those that do, and do not.

The join sees only the columns of the target that it needs. What it finds is kept, so that every condition is
evaluated once: rows are marked by it, whole rows are read by the marks, and new rows are made of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression

from lakeshift.errors import ConfigError, MergeCardinalityError, SchemaMismatchError
from lakeshift.iceberg.commit.result import CommitResult
from lakeshift.iceberg.dml.assignments import ACTION, Assignments, Case, check_case, project
from lakeshift.iceberg.dml.conditions import check_condition
from lakeshift.iceberg.dml.failures import sql_errors
from lakeshift.iceberg.dml.merge_clauses import Clause, Kind, needs_cardinality_check
from lakeshift.iceberg.dml.merge_keys import SOURCE, TARGET, KeyPair, key_pairs, key_range, named_columns, target_only
from lakeshift.iceberg.dml.plan import Target, plan_target
from lakeshift.iceberg.dml.run import (
    Marks,
    Preview,
    Run,
    apply,
    mark_frame,
    rows_by_marks,
    spark_schema,
    target_frame,
)
from lakeshift.iceberg.dml.update import update_case
from lakeshift.iceberg.kernels.mark import ACTS, ROW_ID, Keys, PackedKeys, pack_keys
from lakeshift.iceberg.kernels.position_deletes import ROW_BITS
from lakeshift.iceberg.specs import writable_spec
from lakeshift.spark.frames import analyse, check_expression, cores_of, is_case_sensitive, quoted
from lakeshift.spark.jobs import run_over_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SOURCE_ROW = "__lakeshift_source_row"
_MATCH = "__lakeshift_match"

# What a join may send to every executor. Spark's own guesses for these frames are wrong, so the hint is explicit.
BROADCAST_BYTES = 64 * 1024 * 1024
_TASKS_PER_CORE = 4
# What a key takes on its way through the driver, at most about.
KEY_BYTES = 64


@dataclass(frozen=True)
class Met:
    """The source as it was evaluated once, and what it met."""

    source: DataFrame
    source_rows: int
    small_source: bool
    where: BooleanExpression
    target: Target
    matches: DataFrame
    marks: Marks


@dataclass(frozen=True)
class Merging:
    run: Run
    given: DataFrame
    on: str | Column
    clauses: tuple[Clause, ...]

    def check(self) -> None:
        """Find what is wrong with the clauses before anything runs."""
        check_expression(self.on, "The condition of MERGE")
        schema = self.run.table.schema()
        names = [name if self._case_sensitive else name.lower() for name in self.given.columns]
        doubles = sorted({name for name in names if names.count(name) > 1})
        if doubles:
            raise ConfigError(f"The source has several columns named {', '.join(doubles)}. Rename all but one of each.")
        writable_spec(self.run.table.metadata)
        empty = self.run.spark.createDataFrame([], spark_schema(schema)).alias(TARGET)
        source = self.given.alias(SOURCE)
        with sql_errors(f"the condition of MERGE {str(self.on)!r}"):
            joined = empty.join(source, _column(self.on), "inner")
            analyse(joined)
        for clause in self.clauses:
            frame = {Kind.MATCHED: joined, Kind.NOT_MATCHED: source, Kind.NOT_MATCHED_BY_SOURCE: empty}[clause.kind]
            if clause.condition is not None:
                check_condition(frame, clause.condition, f"the condition of {clause},")
            if not clause.is_delete:
                check_case(frame, schema, self._case(clause), str(clause))

    def execute(self) -> CommitResult:
        met = self.meet()
        try:
            rows = self.new_rows(met)
        except BaseException:
            met.marks.remove(self.run.table)
            raise
        # A row that is marked may be written anew, and a source row may be inserted.
        most = met.marks.rows + met.source_rows
        return apply(self.run, met.target, met.marks, rows, new_row_count=most, where=met.where, moves_rows=True)

    def preview(self) -> Preview:
        met = self.meet(dry=True)
        inserts = self._inserts(met)
        updates = [clause.number for clause in self.clauses if not clause.is_delete]
        moved = met.matches.filter(_is_one_of(ACTION, updates)).count() if updates else 0
        return Preview.of(self.run, met.target, met.marks, (inserts.count() if inserts is not None else 0) + moved)

    def meet(self, *, dry: bool = False) -> Met:
        """Evaluate the source once, join it with what it can match, and mark the rows that clauses change."""
        from pyspark.sql import functions

        run = self.run
        # Stored as it is, not as a plan that might be run again with another result.
        source = self.given.withColumn(_SOURCE_ROW, functions.monotonically_increasing_id()).localCheckpoint()
        pairs = self._pairs(source)
        where, rows = self._where(source, pairs)
        target = plan_target(run.table.metadata, run.table.io, run.rules.branch, where)
        small = rows * _width(source) <= BROADCAST_BYTES
        keys = self._keys(source, pairs, rows) if target.candidates else None
        matches = self._matches(source, target, where, small, keys)
        marks = Marks()
        if self._changes_target:
            marks = self._mark(matches, target, in_place=small, dry=dry)
            if marks.found_twice:
                marks.remove(run.table)
                raise MergeCardinalityError(
                    f"MERGE into {run.name}: {marks.found_twice} more source rows match target rows that another "
                    f"source row matches already, by {str(self.on)!r}; which of them should win is not defined. "
                    "Nothing was committed. Leave one source row for each target row, for instance with "
                    "dropDuplicates on the key."
                )
        return Met(source, rows, small, where, target, matches, marks)

    def _pairs(self, source: DataFrame) -> list[KeyPair]:
        """Columns that must be equal for rows to meet, unless rows that meet nothing matter as well."""
        schema = self.run.table.schema()
        types = {field.name: field.dataType.simpleString() for field in source.schema.fields}
        target = {field.name: field.dataType.simpleString() for field in spark_schema(schema).fields}
        return [] if self._looks_at_all else key_pairs(self.on, schema, types, target)

    def _keys(self, source: DataFrame, pairs: Sequence[KeyPair], rows: int) -> Keys | None:
        """The source's keys, where they are few enough to send along with every task."""
        if not pairs or rows * KEY_BYTES > BROADCAST_BYTES:
            return None
        packed = run_over_frame(
            source.select(quoted(pairs[0].source)),
            pack_keys,
            PackedKeys,
            operation_id=self.run.operation_id,
            title=f"Keys for {self.run.name}",
        )
        streams = tuple(record.stream for report in packed for record in report.records)
        return Keys(pairs[0].target, streams) if streams else None

    def _where(self, source: DataFrame, pairs: Sequence[KeyPair]) -> tuple[BooleanExpression, int]:
        """What target rows must pass to meet a source row, and the number of source rows."""
        from pyspark.sql import functions

        schema = self.run.table.schema()
        found = source.agg(
            functions.count(functions.lit(1)),
            *(edge(functions.col(quoted(pair.source))) for pair in pairs for edge in (functions.min, functions.max)),
        ).collect()[0]
        if self._looks_at_all:
            return AlwaysTrue(), found[0]
        edges = list(found)[1:]
        ranges = {pair.source: (edges[2 * n], edges[2 * n + 1]) for n, pair in enumerate(pairs)}
        alone = target_only(
            self.on,
            schema,
            case_sensitive=self._case_sensitive,
            session_time_zone=self.run.spark.conf.get("spark.sql.session.timeZone"),
        )
        where = key_range(pairs, ranges)
        return (where if alone == AlwaysTrue() else And(where, alone)), found[0]

    def _matches(
        self, source: DataFrame, target: Target, where: BooleanExpression, small_source: bool, keys: Keys | None
    ) -> DataFrame:
        """Every pair that meets, with what becomes of it; with clauses for them, target rows that met nothing too."""
        from pyspark.sql import functions

        left = target_frame(
            self.run, target, self._joined_columns, where, only_matching=not self._looks_at_all, keys=keys
        )
        right = source.withColumnRenamed(_SOURCE_ROW, _MATCH).alias(SOURCE)
        rows = sum(file.read.record_count for file in target.candidates)
        if small_source:
            right = functions.broadcast(right)
        elif not self._looks_at_all and rows * _width(left) <= BROADCAST_BYTES:
            left = functions.broadcast(left)
        else:
            right = right.hint("merge")
        joined = left.alias(TARGET).join(right, _column(self.on), "left" if self._looks_at_all else "inner")
        met = functions.col(_MATCH).isNotNull()
        action = functions.lit(None).cast("int")
        for clause in reversed([clause for clause in self.clauses if clause.kind is not Kind.NOT_MATCHED]):
            applies = met if clause.kind is Kind.MATCHED else ~met
            if clause.condition is not None:
                applies = applies & functions.coalesce(_column(clause.condition), functions.lit(False))
            action = functions.when(applies, functions.lit(clause.number)).otherwise(action)
        own = [functions.col(f"{TARGET}.{quoted(name)}") for name in (*self._joined_columns, ROW_ID)]
        found = joined.select(*own, functions.col(_MATCH), action.alias(ACTION))
        return found.filter(f"{ACTION} is not null or {_MATCH} is not null").localCheckpoint()

    def _mark(self, matches: DataFrame, target: Target, *, in_place: bool, dry: bool) -> Marks:
        from pyspark.sql import functions

        acts = functions.col(ACTION).isNotNull()
        if needs_cardinality_check(self.clauses):
            rows = matches.filter(f"{_MATCH} is not null or {ACTION} is not null").select(ROW_ID, acts.alias(ACTS))
        else:
            rows = matches.filter(acts).select(ROW_ID)
        if not target.candidates:
            return Marks()
        tasks = None
        if not in_place:
            # A join that exchanged rows has scattered those of a file.
            tasks = max(1, min(len(target.candidates), cores_of(self.run.spark) * _TASKS_PER_CORE))
            rows = rows.repartition(tasks, functions.expr(f"shiftright({ROW_ID}, {ROW_BITS})"))
        return mark_frame(self.run, target, rows, tasks=tasks, dry=dry)

    def new_rows(self, met: Met) -> DataFrame | None:
        """Updated and inserted rows."""
        frames = [frame for frame in (self._updates(met), self._inserts(met)) if frame is not None]
        return reduce(lambda left, right: left.unionByName(right), frames) if frames else None

    def _updates(self, met: Met) -> DataFrame | None:
        from pyspark.sql import functions

        updates = [clause for clause in self.clauses if clause.kind is not Kind.NOT_MATCHED and not clause.is_delete]
        if not updates or not met.marks.counts:
            return None
        cases = [self._case(clause) for clause in updates]
        moved = met.matches.filter(_is_one_of(ACTION, [clause.number for clause in updates]))
        if not self._columns_of_updates <= set(self._joined_columns):
            moved = moved.select(ROW_ID, _MATCH, ACTION)
            if met.marks.rows * _width(moved) <= BROADCAST_BYTES:
                moved = functions.broadcast(moved)
            moved = rows_by_marks(self.run, met.target, met.marks, "marked").join(moved, ROW_ID, "inner")
        source = met.source.alias(SOURCE)
        source = functions.broadcast(source) if met.small_source else source.hint("merge")
        both = moved.alias(TARGET).join(source, functions.col(_MATCH) == functions.col(_SOURCE_ROW), "left")
        return project(both, self.run.table.schema(), cases, "MERGE")

    def _inserts(self, met: Met) -> DataFrame | None:
        from pyspark.sql import functions

        inserts = [clause for clause in self.clauses if clause.kind is Kind.NOT_MATCHED]
        if not inserts:
            return None
        matched = met.matches.filter(functions.col(_MATCH).isNotNull()).select(_MATCH)
        # A source row may have met any number of target rows.
        is_small = matched.count() * _width(matched) <= BROADCAST_BYTES
        rest = met.source.join(
            functions.broadcast(matched) if is_small else matched.hint("merge"),
            functions.col(_MATCH) == functions.col(_SOURCE_ROW),
            "left_anti",
        ).alias(SOURCE)
        action = functions.lit(None).cast("int")
        for clause in reversed(inserts):
            applies = functions.lit(True) if clause.condition is None else _column(clause.condition)
            applies = functions.coalesce(applies, functions.lit(False))
            action = functions.when(applies, functions.lit(clause.number)).otherwise(action)
        rows = rest.select("*", action.alias(ACTION)).filter(f"{ACTION} is not null").alias(SOURCE)
        return project(rows, self.run.table.schema(), [self._case(clause) for clause in inserts], "MERGE")

    def _case(self, clause: Clause) -> Case:
        schema, what = self.run.table.schema(), str(clause)
        assigned = self._by_name(what) if clause.takes_all else clause.assigned
        assert assigned is not None
        if clause.kind is not Kind.NOT_MATCHED:
            return update_case(clause.number, assigned, self.run, what, qualifier=f"{TARGET}.")
        found = Assignments.of(assigned, schema, case_sensitive=self._case_sensitive, what=what).values
        missing = [f.name for f in schema.fields if f.required and f.name not in found and f.write_default is None]
        if missing:
            raise SchemaMismatchError(f"The {what} leaves out {', '.join(missing)}, which the table requires.")
        return Case(clause.number, found)

    def _by_name(self, what: str) -> dict[str, str]:
        names = {name if self._case_sensitive else name.lower(): name for name in self.given.columns}
        found, missing = {}, []
        for field in self.run.table.schema().fields:
            name = names.get(field.name if self._case_sensitive else field.name.lower())
            if name is None:
                missing.append(field.name)
            else:
                found[field.name] = f"{SOURCE}.{quoted(name)}"
        if missing:
            raise SchemaMismatchError(
                f"The {what} takes every column from the source, which has no {', '.join(missing)}; it has "
                f"{', '.join(self.given.columns)}. Add them to the source, or name the columns to take."
            )
        return found

    @property
    def _case_sensitive(self) -> bool:
        return is_case_sensitive(self.run.spark)

    @property
    def _looks_at_all(self) -> bool:
        return any(clause.kind is Kind.NOT_MATCHED_BY_SOURCE for clause in self.clauses)

    @property
    def _changes_target(self) -> bool:
        return any(clause.kind is not Kind.NOT_MATCHED for clause in self.clauses)

    @cached_property
    def _joined_columns(self) -> tuple[str, ...]:
        texts = [self.on, *(clause.condition for clause in self.clauses if clause.kind is not Kind.NOT_MATCHED)]
        return named_columns(texts, self.run.table.schema())

    @cached_property
    def _columns_of_updates(self) -> set[str]:
        """The target's columns that updated rows are made of."""
        cases = [self._case(c) for c in self.clauses if c.kind is not Kind.NOT_MATCHED and not c.is_delete]
        texts = [
            value
            for case in cases
            for column, value in case.values.items()
            # What comes from the source is not the target's, though their names may be alike.
            if not (isinstance(value, str) and value == f"{SOURCE}.{quoted(column)}")
        ]
        kept = {column for case in cases for column in case.kept}
        return {*kept, *named_columns(texts, self.run.table.schema())}


def _column(expression: str | Column) -> Column:
    from pyspark.sql import functions

    return functions.expr(expression) if isinstance(expression, str) else expression


def _is_one_of(column: str, numbers: list[int]) -> str:
    return f"{column} in ({', '.join(map(str, numbers))})"


def _width(frame: DataFrame) -> int:
    """About how many bytes a row of a frame has."""
    from pyspark.sql.types import AtomicType, BinaryType, StringType

    return sum(
        8 if isinstance(field.dataType, AtomicType) and not isinstance(field.dataType, (StringType, BinaryType)) else 40
        for field in frame.schema.fields
    )
