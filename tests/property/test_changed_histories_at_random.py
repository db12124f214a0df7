"""Random histories played by us on one table: rows written, partitions and columns evolved, rows changed.

After every step the rows that Iceberg Java and PyIceberg read equal those of a plain model.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lakeshift.iceberg.schemas import to_iceberg_schema
from tests.conftest import FULL
from tests.integration.iceberg.changed_tables import Changed, new_table
from tests.tables import files_under, local_catalog, referenced_files

SECONDS = 1800 if FULL else 12
STEPS = 40 if FULL else 12
MODES = ["merge-on-read", "copy-on-write"]
_DAY = datetime(2026, 1, 2)

Row = dict[str, Any]
Condition = tuple[str, Callable[[Row], bool]]


class Play:
    """One table, its model, and chance."""

    def __init__(self, changed: Changed, seed: int) -> None:
        self.changed = changed
        self.chance = random.Random(seed)
        self.next_id = 0
        self.fresh_names = (f"c{n}" for n in range(10**6))
        self.told: list[str] = []

    def step(self) -> None:
        moves = [self.append] * 3 + [self.delete, self.update, self.merge] * 2
        moves += [self.evolve, self.evolve, self.add_column, self.rename_column, self.drop_column, self.widen_column]
        move = self.append if len(self.changed.model) < 5 else self.chance.choice(moves)
        self.told.append(move.__name__)
        move()

    def types(self) -> dict[str, str]:
        return {field.name: str(field.field_type) for field in self.changed.table.schema().fields}

    def value(self, kind: str) -> Any:
        if self.chance.random() < 0.2:
            return None
        match kind:
            case "int" | "long":
                return self.chance.randint(-3, 3)
            case "string":
                return self.chance.choice(["", "a", "b", "ab", "é"])
            case "double":
                return self.chance.choice([0.0, -1.5, 2.25])
            case _:
                return datetime(2026, 1, 1) + timedelta(hours=self.chance.randint(0, 60))

    def rows(self, count: int) -> list[Row]:
        found = []
        for _ in range(count):
            found.append({name: self.value(kind) for name, kind in self.types().items()} | {"id": self.next_id})
            self.next_id += 1
        return found

    def frame(self, rows: list[Row], names: list[str]) -> Any:
        kinds = {"long": "bigint", "timestamp": "timestamp_ntz"}
        types = self.types()
        schema = ", ".join(f"{name} {kinds.get(types[name], types[name])}" for name in names)
        return self.changed.spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)

    def append(self) -> None:
        rows = self.rows(self.chance.randint(1, 6))
        specs = [None, *self.changed.table.specs()]
        spec_id = self.chance.choice(specs)
        from lakeshift.errors import SpecNotWritableError

        frame = self.frame(rows, list(self.types()))
        try:
            self.changed.ours.append(frame, spec_id)
        except SpecNotWritableError:
            self.changed.ours.append(frame)
        self.changed.model.update({row["id"]: row for row in rows})

    def evolve(self) -> None:
        fields = [field.name for field in self.changed.table.spec().fields if str(field.transform) != "void"]
        drop = self.chance.sample(fields, self.chance.randint(0, len(fields)))
        column, kind = self.chance.choice(list(self.types().items()))
        forms = {"timestamp": ["day({})", "hour({})"], "double": ["{}"]}
        text = self.chance.choice(forms.get(kind, ["{}", "bucket(3, {})", "truncate(2, {})"])).format(column)
        from lakeshift.errors import ConfigError

        try:
            self.changed.ours.evolve_partitions(add=[text], drop=drop)
        except ConfigError:  # the field is there already, under this or another name
            if drop:
                self.changed.ours.evolve_partitions(drop=drop)

    def add_column(self) -> None:
        name, kind = next(self.fresh_names), self.chance.choice(["int", "string", "double"])
        table = self.changed.table
        with table.update_schema() as update:
            update.add_column(name, to_iceberg_schema(f"x {kind}").fields[0].field_type)
        for row in self.changed.model.values():
            row[name] = None

    def free_columns(self) -> list[str]:
        """Columns that the default spec does not use."""
        table = self.changed.table
        used = {field.source_id for field in table.spec().fields}
        return [f.name for f in table.schema().fields if f.field_id not in used and f.name != "id"]

    def rename_column(self) -> None:
        names = [name for name in self.types() if name != "id"]
        if names:
            old, new = self.chance.choice(names), next(self.fresh_names)
            with self.changed.table.update_schema() as update:
                update.rename_column(old, new)
            for row in self.changed.model.values():
                row[new] = row.pop(old)

    def drop_column(self) -> None:
        free = self.free_columns()
        if len(free) > 1:
            name = self.chance.choice(free)
            with self.changed.table.update_schema() as update:
                update.delete_column(name)
            for row in self.changed.model.values():
                row.pop(name)

    def widen_column(self) -> None:
        from pyiceberg.types import LongType

        narrow = [name for name, kind in self.types().items() if kind == "int"]
        if narrow:
            with self.changed.table.update_schema() as update:
                update.update_column(self.chance.choice(narrow), field_type=LongType())

    def condition(self, prefix: str = "") -> Condition:
        number = self.chance.randint(-2, 3)
        some = self.chance.randint(0, max(self.next_id, 1))
        found: list[Condition] = [
            (f"{prefix}id % 3 = {abs(number) % 3}", lambda r: r["id"] % 3 == abs(number) % 3),
            (f"{prefix}id < {some}", lambda r: r["id"] < some),
            (f"{prefix}id IN ({some}, {some + 1})", lambda r: r["id"] in (some, some + 1)),
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
        return self.chance.choice(found)

    def delete(self) -> None:
        text, matches = self.condition()
        mode = self.chance.choice(MODES)
        self.told.append(f"{text} {mode}")
        assert self.changed.ours.delete(text, mode).rows_deleted == self.changed.delete(matches)

    def assignment(self) -> tuple[str, str, Any]:
        """A column, its new value as SQL, and as the model has it."""
        name, kind = self.chance.choice([item for item in self.types().items() if item[0] != "id"])
        value = self.value(kind)
        if value is None:
            return name, "null", value
        sql = {"string": f"'{value}'", "double": f"{value}D", "timestamp": f"TIMESTAMP_NTZ'{value}'"}
        return name, sql.get(kind, str(value)), value

    def update(self) -> None:
        text, matches = self.condition()
        name, sql, value = self.assignment()
        mode = self.chance.choice(MODES)
        self.told.append(f"{name} = {sql} where {text} {mode}")
        result = self.changed.ours.update({name: sql}, text, mode)
        assert result.rows_deleted == self.changed.update(matches, **{name: lambda _: value})

    def merge(self) -> None:
        names = list(self.types())
        known = self.chance.sample(sorted(self.changed.model), min(4, len(self.changed.model)))
        source = [{**row, "id": key} for row, key in zip(self.rows(len(known)), known, strict=True)] + self.rows(2)
        text, matches = self.condition("target.")
        mode = self.chance.choice(MODES)
        by_source = self.chance.random() < 0.3
        self.told.append(f"{text} {mode} by source {by_source}")
        merge = (
            self.changed.ours.merge(self.frame(source, names), "target.id = source.id", mode)
            .when_matched_delete(text)
            .when_matched_update()
            .when_not_matched_insert()
        )
        gone = by_source and self.condition("target.")
        if gone:
            merge.when_not_matched_by_source_delete(gone[0])
        merge.execute()
        keys = {row["id"] for row in source}
        if gone:
            self.changed.delete(lambda r: r["id"] not in keys and gone[1](r))
        for row in source:
            if row["id"] in self.changed.model and matches(self.changed.model[row["id"]]):
                del self.changed.model[row["id"]]
            else:
                self.changed.model[row["id"]] = row


def test_the_table_is_the_model_after_every_step(spark: Any, java_catalog: Callable[..., str], tmp_path: Path) -> None:
    name = java_catalog(tmp_path)
    catalog = local_catalog(tmp_path, name)
    end = time.monotonic() + SECONDS
    steps = 0
    while not steps or time.monotonic() < end:
        seed = random.SystemRandom().randrange(2**32)
        print(f"seed {seed}")  # noqa: T201 - shown when the test fails, to play it again
        schema = to_iceberg_schema("id bigint, a int, s string, t timestamp_ntz, d double")
        changed = new_table(spark, name, tmp_path, catalog, schema=schema, partition_by=["s"])
        play = Play(changed, seed)
        for _ in range(STEPS):
            play.step()
            steps += 1
            try:
                changed.check("java", "pyiceberg")
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, {'; '.join(play.told)}: {error}") from error
            if time.monotonic() > end:
                break
        assert files_under(changed.table.location()) == referenced_files(changed.table)
    print(f"{steps} steps")  # noqa: T201
