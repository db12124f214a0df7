"""Random histories played by us on one table: rows written, partitions and columns evolved, rows changed.

After every step the rows that Iceberg Java and PyIceberg read equal those of a plain model, and no file is left over.
Steps are values that mean something on whatever table they meet, so that Hypothesis can leave out those that a failure
does not need: what it prints is the shortest history it found, step by step, with what each step did. The default run
plays the same histories each time; the long form draws new ones, and begins with those that failed last time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyiceberg.types import LongType

from lakeshift.errors import ConfigError, SpecNotWritableError
from lakeshift.iceberg.schemas import to_iceberg_schema
from tests.conftest import FULL
from tests.integration.iceberg.changed_tables import Changed, Row, new_table
from tests.tables import files_under, local_catalog, referenced_files

HISTORIES, STEPS = (60, 40) if FULL else (3, 8)
MODES = ["merge-on-read", "copy-on-write"]
_DAY = datetime(2026, 1, 2)
# The first of each is what a failure is shown with, if others do as well.
VALUES: dict[str, list[Any]] = {
    "int": [0, None, 1, -1, 2, 3, -3],
    "long": [0, None, 1, -1, 2, 3, -3],
    "string": ["a", None, "", "b", "ab", "é"],
    "double": [0.0, None, -1.5, 2.25],
    "timestamp": [None, *(datetime(2026, 1, 1) + timedelta(hours=hours) for hours in (0, 5, 24, 47, 60))],
}

Condition = tuple[str, Callable[[Row], bool]]


class Where(NamedTuple):
    """A condition, by its place among those that a table's columns allow."""

    which: int
    number: int
    key: int


picks = st.integers(0, 30)
rows = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=6), min_size=1, max_size=6)
wheres = st.builds(Where, which=picks, number=st.integers(-2, 3), key=picks)
modes = st.sampled_from(MODES)


def _has_rows(history: History) -> bool:
    return bool(history.changed.model)


def _has_few_rows(history: History) -> bool:
    return len(history.changed.model) < 8


class History(RuleBasedStateMachine):
    """One table and its model. Every number that a step has is taken modulo what there is to choose from."""

    def __init__(self, new: Callable[[str], Changed]) -> None:
        super().__init__()
        self.new = new
        self.next_id = 0
        self.fresh_names = (f"c{n}" for n in range(10**6))

    @initialize(version=st.sampled_from(["2", "1"]), first=rows)
    def create(self, version: str, first: list[list[int]]) -> None:
        self.version = version
        self.changed = self.new(version)
        self.append(first, None)

    @invariant()
    def every_engine_reads_the_model(self) -> None:
        self.changed.check("java", "pyiceberg")
        table = self.changed.table
        assert files_under(table.location()) == referenced_files(table)

    @precondition(_has_few_rows)
    @rule(drawn=rows, spec=st.none() | picks)
    def append(self, drawn: list[list[int]], spec: int | None) -> None:
        came = self.rows(drawn)
        spec_id = None if spec is None else _of(sorted(self.changed.table.specs()), spec)
        note(f"append {came} under spec {spec_id}")
        frame = self.frame(came)
        try:
            self.changed.ours.append(frame, spec_id)
        except SpecNotWritableError:
            self.changed.ours.append(frame)
        self.changed.model.update({row["id"]: row for row in came})

    @rule(drop=st.sets(st.integers(0, 2)), column=picks, form=picks)
    def evolve(self, drop: set[int], column: int, form: int) -> None:
        fields = [field.name for field in self.changed.table.spec().fields if str(field.transform) != "void"]
        dropped = [name for number, name in enumerate(fields) if number in drop]
        name, kind = _of(list(self.types().items()), column)
        forms = {"timestamp": ["day({})", "hour({})"], "double": ["{}"]}
        added = _of(forms.get(kind, ["{}", "bucket(3, {})", "truncate(2, {})"]), form).format(name)
        note(f"evolve partitions: add {added}, drop {dropped}")
        try:
            self.changed.ours.evolve_partitions(add=[added], drop=dropped)
        except ConfigError:  # the field is there already, under this or another name
            if dropped:
                self.changed.ours.evolve_partitions(drop=dropped)

    @rule(how=st.sampled_from(["add", "rename", "drop", "widen"]), column=picks)
    def alter(self, how: str, column: int) -> None:
        table, types = self.changed.table, self.types()
        used = {field.source_id for field in table.spec().fields}
        found = {
            "add": ["int", "string", "double"],
            "rename": [name for name in types if name != "id"],
            "drop": [f.name for f in table.schema().fields if f.field_id not in used and f.name != "id"][1:],
            "widen": [name for name, kind in types.items() if kind == "int"],
        }[how]
        if not found:
            return
        name, fresh = _of(found, column), next(self.fresh_names)
        note(f"{how} column: {name}" + (f", {fresh}" if how in ("add", "rename") else ""))
        with table.update_schema() as update:
            match how:
                case "add":
                    update.add_column(fresh, to_iceberg_schema(f"x {name}").fields[0].field_type)
                case "rename":
                    update.rename_column(name, fresh)
                case "drop":
                    update.delete_column(name)
                case _:
                    update.update_column(name, field_type=LongType())
        if how != "widen":
            for row in self.changed.model.values():
                old = None if how == "add" else row.pop(name)
                if how != "drop":
                    row[fresh] = old

    @precondition(_has_rows)
    @rule(where=wheres, mode=modes)
    def delete(self, where: Where, mode: str) -> None:
        text, matches = self.condition(where)
        note(f"delete where {text}, {mode}")
        assert self.changed.ours.delete(text, self.mode(mode)).rows_deleted == self.changed.delete(matches)

    @precondition(_has_rows)
    @rule(where=wheres, mode=modes, column=picks, value=picks)
    def update(self, where: Where, mode: str, column: int, value: int) -> None:
        text, matches = self.condition(where)
        name, kind = _of([item for item in self.types().items() if item[0] != "id"], column)
        new = _of(VALUES[kind], value)
        sql = {"string": f"'{new}'", "double": f"{new}D", "timestamp": f"TIMESTAMP_NTZ'{new}'"}.get(kind, str(new))
        sql = "null" if new is None else sql
        note(f"update set {name} = {sql} where {text}, {mode}")
        result = self.changed.ours.update({name: sql}, text, self.mode(mode))
        assert result.rows_deleted == self.changed.update(matches, **{name: lambda _: new})

    @precondition(_has_rows)
    @rule(drawn=rows, keys=st.lists(picks, max_size=4), where=wheres, gone=st.none() | wheres, mode=modes)
    def merge(self, drawn: list[list[int]], keys: list[int], where: Where, gone: Where | None, mode: str) -> None:
        """Some rows of the source have keys of the table, each at most once; the others are new."""
        known = dict.fromkeys(_of(sorted(self.changed.model), key) for key in keys)
        source = self.rows(drawn)
        for row, key in zip(source, known, strict=False):
            row["id"] = key
        text, matches = self.condition(where, "target.")
        merge = (
            self.changed.ours.merge(self.frame(source), "target.id = source.id", self.mode(mode))
            .when_matched_delete(text)
            .when_matched_update()
            .when_not_matched_insert()
        )
        note(f"merge {source}, delete matched if {text}, update and insert others, {mode}")
        ids = {row["id"] for row in source}
        if gone is not None:
            unwanted, is_unwanted = self.condition(gone, "target.")
            note(f"... and delete rows without a source row if {unwanted}")
            merge.when_not_matched_by_source_delete(unwanted)
            self.changed.delete(lambda r: r["id"] not in ids and is_unwanted(r))
        merge.execute()
        for row in source:
            if row["id"] in self.changed.model and matches(self.changed.model[row["id"]]):
                del self.changed.model[row["id"]]
            else:
                self.changed.model[row["id"]] = row

    @precondition(lambda self: FULL)
    @rule()
    def compact(self) -> None:
        note("rewrite data files")
        self.changed.ours.rewrite_data_files(rewrite_all=True)

    def types(self) -> dict[str, str]:
        return {field.name: str(field.field_type) for field in self.changed.table.schema().fields}

    def mode(self, drawn: str) -> str | None:
        return drawn if self.version == "2" else None

    def rows(self, drawn: list[list[int]]) -> list[Row]:
        found = []
        for numbers in drawn:
            values = enumerate(self.types().items())
            row = {name: _of(VALUES[kind], numbers[at % len(numbers)]) for at, (name, kind) in values}
            found.append(row | {"id": self.next_id})
            self.next_id += 1
        return found

    def frame(self, rows: list[Row]) -> Any:
        kinds = {"long": "bigint", "timestamp": "timestamp_ntz"}
        schema = ", ".join(f"{name} {kinds.get(kind, kind)}" for name, kind in self.types().items())
        return self.changed.spark.createDataFrame([tuple(row[name] for name in self.types()) for row in rows], schema)

    def condition(self, where: Where, prefix: str = "") -> Condition:
        number, key = where.number, where.key % (self.next_id + 1)
        found: list[Condition] = [
            (f"{prefix}id % 3 = {abs(number) % 3}", lambda r: r["id"] % 3 == abs(number) % 3),
            (f"{prefix}id < {key}", lambda r: r["id"] < key),
            (f"{prefix}id IN ({key}, {key + 1})", lambda r: r["id"] in (key, key + 1)),
        ]
        for name, kind in self.types().items():
            column = f"{prefix}{name}"
            if kind in ("int", "long", "double") and name != "id":
                found += [
                    (f"{column} > {number}", lambda r, n=name: r[n] is not None and r[n] > number),
                    (f"NOT ({column} = {number})", lambda r, n=name: r[n] is not None and r[n] != number),
                    (f"coalesce({column}, 0) = 0", lambda r, n=name: (r[n] or 0) == 0),
                ]
            if kind == "string":
                found += [
                    (f"{column} = 'a'", lambda r, n=name: r[n] == "a"),
                    (f"{column} IS NULL", lambda r, n=name: r[n] is None),
                    (f"{column} LIKE 'a%'", lambda r, n=name: r[n] is not None and r[n].startswith("a")),
                ]
            if kind == "timestamp":
                since = f"{column} >= TIMESTAMP_NTZ'2026-01-02'"
                found.append((since, lambda r, n=name: r[n] is not None and r[n] >= _DAY))
        return _of(found, where.which)


def _of(choices: list[Any], number: int) -> Any:
    return choices[number % len(choices)]


@pytest.mark.once_first
def test_the_table_is_the_model_after_every_step(spark: Any, java_catalog: Callable[..., str], tmp_path: Path) -> None:
    name = java_catalog(tmp_path)
    catalog = local_catalog(tmp_path, name)
    schema = to_iceberg_schema("id bigint, a int, s string, t timestamp_ntz, d double")

    def new(version: str) -> Changed:
        properties = {"format-version": version}
        return new_table(spark, name, tmp_path, catalog, schema, partition_by=["s"], properties=properties)

    run_state_machine_as_test(
        lambda: History(new),
        settings=settings(
            max_examples=HISTORIES,
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            # Not the phase that explains: it plays every history many times more.
            phases=[Phase.reuse, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
