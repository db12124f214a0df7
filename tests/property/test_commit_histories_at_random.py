"""Random histories of commits, spec changes and other committers, against a plain model of the rows."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, IdentityTransform, TruncateTransform

from lakeshift.iceberg.commit.change_set import (
    ChangeSet,
    RemovedFile,
    append_change,
    overwrite_change,
    replace_change,
    row_delta_change,
)
from lakeshift.iceberg.commit.commit import commit
from tests.conftest import FULL
from tests.tables import (
    EVENTS,
    data_file,
    events,
    files_under,
    ids,
    live_entries,
    local_catalog,
    position_deletes,
    referenced_files,
)

pytestmark = pytest.mark.plain

SECONDS = 120 if FULL else 8
FIELDS = [
    ("ts", DayTransform(), "d"),
    ("ts", HourTransform(), "h"),
    ("region", IdentityTransform(), "r"),
    ("id", BucketTransform(3), "b"),
    ("region", TruncateTransform(1), "t"),
    ("amount", IdentityTransform(), "a"),
]


class Play:
    """One table and the rows that its files should have."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        properties = {
            "format-version": self.chance.choice(["1", "2", "2"]),
            "commit.manifest.min-count-to-merge": str(self.chance.randint(2, 5)),
            "commit.manifest.target-size-bytes": self.chance.choice(["9000", "8388608"]),
            "commit.retry.min-wait-ms": "1",
            "commit.retry.max-wait-ms": "1",
        }
        spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "d"))
        catalog = local_catalog(folder)
        self.table = catalog.create_table("db.t", EVENTS, partition_spec=spec, properties=properties)
        self.files: dict[str, tuple[DataFile, dict[int, int]]] = {}
        self.next_id = 0

    def step(self) -> None:
        move = self.chance.choice(["append", "append", "evolve", "overwrite", "delete", "compact"])
        if move == "evolve":
            self.evolve()
            return
        rows = dict(self.files)
        change = self.change(move, rows)
        intruder = [self.intrude] if self.chance.random() < 0.3 else []

        def meanwhile(*_: object) -> None:
            if intruder:
                intruder.pop()()

        before = set(self.files)
        commit(self.table, change, validations=[meanwhile])
        came = {path: value for path, value in self.files.items() if path not in before}
        self.files = {**rows, **came}

    def evolve(self) -> None:
        present = {field.name: str(field.transform) for field in self.table.spec().fields}
        source, transform, name = self.chance.choice(FIELDS)
        with self.table.update_spec() as update:
            if present.get(name, "void") != "void":
                update.remove_field(name)
            elif name not in present:
                update.add_field(source, transform, name)

    def new_file(self, rows: dict[str, tuple[DataFile, dict[int, int]]], spec_id: int | None = None) -> DataFile:
        chance = self.chance
        spec_id = chance.choice(sorted(self.table.specs())) if spec_id is None else spec_id
        day, hour, region = chance.randint(1, 3), chance.randint(0, 2), chance.choice(["eu", "us", None])
        content = [
            {**row, "amount": 1, "id": self.next_id + 3 * n}  # one bucket and one amount, as one partition needs
            for n, row in enumerate(events(day, chance.randint(1, 3), region=region, hour=hour))
        ]
        content = content[:1] if "b" in [field.name for field in self.table.specs()[spec_id].fields] else content
        self.next_id += 10
        file = data_file(self.table, content, spec_id)
        rows[file.file_path] = (file, {position: row["id"] for position, row in enumerate(content)})
        return file

    def change(self, move: str, rows: dict[str, tuple[DataFile, dict[int, int]]]) -> ChangeSet:
        metadata, chance = self.table.metadata, self.chance
        whole = [f for f, left in rows.values() if len(left) == f.record_count]
        if move == "append" or not whole:
            return append_change(metadata, [self.new_file(rows) for _ in range(chance.randint(1, 4))])
        chosen = chance.sample(whole, min(len(whole), chance.randint(1, 3)))
        if move == "delete" and self.table.format_version > 1:
            deletes = []
            for file in chosen:
                position = chance.randrange(file.record_count)
                rows[file.file_path] = (file, {p: n for p, n in rows[file.file_path][1].items() if p != position})
                deletes.append(position_deletes(self.table, file, [position]))
            return row_delta_change(metadata, [self.new_file(rows)] if chance.random() < 0.5 else [], deletes)
        if move == "compact":
            old = chosen[0]
            entry = live_entries(self.table)[old.file_path]
            arrow = self.table.io.new_input(old.file_path)
            copied = DataFile(*old._data)
            copied._data[1] = old.file_path.replace(".parquet", f"-{self.next_id}.parquet")
            with arrow.open() as source, self.table.io.new_output(copied.file_path).create() as target:
                target.write(source.read())
            copied.spec_id = old.spec_id
            self.next_id += 10
            rows[copied.file_path] = (copied, rows.pop(old.file_path)[1])
            number = entry.sequence_number if self.table.format_version > 1 else None
            return replace_change(metadata, [copied], [RemovedFile.of(old)], data_sequence_number=number)
        for file in chosen:
            del rows[file.file_path]
        return overwrite_change(metadata, [self.new_file(rows)], [RemovedFile.of(file) for file in chosen])

    def intrude(self) -> None:
        """Another committer: it changes the spec, or appends, or both."""
        play = object.__new__(Play)
        play.__dict__.update(self.__dict__)
        play.table = self.table.catalog.load_table(self.table.name())
        if self.chance.random() < 0.5:
            play.evolve()
        commit(play.table, append_change(play.table.metadata, [play.new_file(self.files)]))
        self.next_id = play.next_id

    def check(self) -> None:
        assert ids(self.table) == sorted(number for _, left in self.files.values() for number in left.values())


@pytest.mark.parametrize("number", range(2))
def test_the_table_is_the_model(tmp_path: Path, number: int) -> None:
    end = time.monotonic() + SECONDS / 2
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        seed = random.SystemRandom().randrange(2**32)
        print(f"seed {seed}")  # noqa: T201 - shown when the test fails, to play it again
        play = Play(tmp_path / str(rounds), seed)
        for _ in range(12):
            play.step()
            play.check()
        table: Table = play.table.refresh()
        assert files_under(table.location()) == referenced_files(table)
        for snapshot in table.snapshots():
            for manifest in snapshot.manifests(table.io):
                specs = {entry.data_file.spec_id for entry in manifest.fetch_manifest_entry(table.io)}
                assert specs <= {manifest.partition_spec_id}
        rounds += 1
