"""Random histories of batches through a sink, against a table kept as plain Python rows."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from lakeshift.delta.sink import DeltaSink
from lakeshift.errors import SchemaMismatchError
from lakeshift.stack import Capability, Stack
from tests.conftest import FULL

SECONDS = 300 if FULL else 5
WIDTHS = ["byte", "short", "int", "long"]


@pytest.mark.once_first
def test_random_histories_end_as_the_model_says(spark: Any, stack: Stack, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"history seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    widths = WIDTHS if stack.can(Capability.DELTA_WIDEN_ALL) else WIDTHS[:3]
    deadline, history = time.monotonic() + SECONDS, 0
    while history == 0 or time.monotonic() < deadline:
        play(spark, tmp_path / str(history), chance, widths, deadline)
        history += 1


def play(spark: Any, table: Path, chance: random.Random, widths: list[str], deadline: float) -> None:
    """One history: random batches of integer columns; the model knows each column's width and every row."""
    known: dict[str, int] = {}
    rows: list[dict[str, int | None]] = []
    evolution = {"columns": chance.choice(["evolve", "freeze"]), "types": chance.choice(["evolve", "freeze"])}
    options: dict[str, Any] = {"txn_app_id": "history", "properties": {"delta.enableTypeWidening": "true"}}
    with DeltaSink(spark, table, evolution, **options) as sink:
        for step in range(12):
            names = chance.sample([*"abcdef"], chance.randint(1, 4))
            batch = {name: (chance.randrange(len(widths)), chance.randrange(100)) for name in names}
            clash = chance.random() < 0.15
            shown = [f"cast({value} AS {widths[width]}) AS {name}" for name, (width, value) in batch.items()]
            frame = spark.sql("SELECT " + ", ".join([*shown, *(["'text' AS clash"] if clash else [])]))
            new = {name for name in names if name not in known} | ({"clash"} if clash else set())
            wider = {name for name in names if name in known and batch[name][0] > known[name]}
            created = not known
            refused = not created and (
                (new and evolution["columns"] == "freeze") or (wider and evolution["types"] == "freeze")
            )
            if clash and not refused:
                frame = frame.drop("clash")  # keep to integers, so that the model stays small
            try:
                sink.write_batch(frame, txn_version=step)
            except SchemaMismatchError:
                assert refused, (known, batch, evolution)
            else:
                assert not refused, (known, batch, evolution)
                for name, (width, _) in batch.items():
                    known[name] = max(width, known.get(name, width))
                rows.append({name: value for name, (_, value) in batch.items()})
                if chance.random() < 0.2:
                    assert sink.write_batch(frame, txn_version=step).skipped
            if time.monotonic() > deadline:
                break
    found = spark.read.format("delta").load(str(table))
    kinds = {field.name: field.dataType.typeName() for field in found.schema.fields}
    names_of = {"byte": "byte", "short": "short", "int": "integer", "long": "long"}
    assert kinds == {name: names_of[widths[width]] for name, width in known.items()}
    expected = sorted(str([row.get(name) for name in sorted(known)]) for row in rows)
    assert sorted(str([row[name] for name in sorted(known)]) for row in found.collect()) == expected
