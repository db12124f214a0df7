"""A streaming query whose process dies by SIGKILL, again and again, while its source's schema grows."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.conftest import FULL
from tests.integration.delta.streaming_process import run_stream

# Minutes of processes that start and die: on each line in the long form, else on one.
pytestmark = pytest.mark.once_last

KILLS = 12 if FULL else 3
ROWS_A_FILE = 20
FILES_A_LIFE = 4
CHILD = Path(__file__).with_name("streaming_process.py")


class Lake:
    """The folder that parent and child share, and what the parent knows of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = folder / "table"
        self.fed: dict[int, int] = {}  # row id to the number of columns it was written with
        self.files = 0
        self.columns = 0
        (folder / "source").mkdir()

    def feed(self, files: int) -> None:
        """Put files into the source; every second one brings a column that no row had before."""
        for _ in range(files):
            if self.files % 2 == 0:
                self.columns += 1
                ddl = ", ".join(["id BIGINT", *(f"c{n} BIGINT" for n in range(self.columns))])
                self._put(self.folder / "schema.ddl", ddl)
            first = len(self.fed)
            lines = []
            for row in range(first, first + ROWS_A_FILE):
                self.fed[row] = self.columns
                lines.append(json.dumps({"id": row} | {f"c{n}": row + n for n in range(self.columns)}))
            self._put(self.folder / "source" / f"{self.files:05d}.txt", "\n".join(lines))
            self.files += 1

    def data_files(self) -> set[str]:
        return {file.name for file in self.table.glob("part-*.parquet")}

    def committed_files(self) -> list[str]:
        return [action["add"]["path"] for action in self.actions() if "add" in action]

    def versions(self) -> int:
        return len(list((self.table / "_delta_log").glob("*.json")))

    def actions(self) -> Iterator[dict[str, dict[str, object]]]:
        for file in sorted((self.table / "_delta_log").glob("*.json")):
            yield from map(json.loads, file.read_text().splitlines())

    def last_batch(self) -> int:
        return max((int(str(a["txn"]["version"])) for a in self.actions() if "txn" in a), default=-1)

    def last_checkpoint(self) -> int:
        return max((int(f.name) for f in (self.folder / "checkpoint/commits").glob("[0-9]*")), default=-1)

    def _put(self, file: Path, text: str) -> None:
        draft = file.with_name(f".{file.name}.draft")
        draft.write_text(text)
        draft.rename(file)


def start(lake: Lake) -> subprocess.Popen[bytes]:
    with (lake.folder / "child.log").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, str(CHILD), str(lake.folder)], stdout=output, stderr=output, start_new_session=True
        )


def wait_until(
    lake: Lake, child: subprocess.Popen[bytes], happened: Callable[[], bool], look_every: float = 0.0005
) -> None:
    deadline = time.monotonic() + 400
    while not happened():
        alive_in_time = child.poll() is None and time.monotonic() < deadline
        assert alive_in_time, (lake.folder / "child.log").read_text()[-3000:]
        time.sleep(look_every)


def kill(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def test_every_row_is_there_once_after_any_number_of_kills(spark: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    seed = random.randrange(10**6)
    print(f"kill seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    orphans, uncheckpointed = 0, 0
    for number, moment in zip(range(KILLS), itertools.cycle(["data", "commit", "any"]), strict=False):
        lake.feed(FILES_A_LIFE)
        before = lake.versions()
        child = start(lake)
        try:
            # Let it commit something in this life, so that its death falls between growing schemas.
            target = before + chance.randint(1, FILES_A_LIFE - 2)
            wait_until(lake, child, lambda target=target: lake.versions() >= target, look_every=0.02)
            known, versions = lake.data_files(), lake.versions()
            if moment == "data":
                wait_until(lake, child, lambda known=known: bool(lake.data_files() - known))
            elif moment == "commit":
                wait_until(lake, child, lambda versions=versions: lake.versions() > versions)
            else:
                stop_at = time.monotonic() + chance.uniform(0, 2)
                wait_until(lake, child, lambda stop_at=stop_at: time.monotonic() > stop_at)
        finally:
            kill(child)
        orphans += len(lake.data_files() - set(lake.committed_files()) - known)
        uncheckpointed += lake.last_batch() > lake.last_checkpoint()
        print(f"kill {number} at {moment}: batch {lake.last_batch()}, checkpoint {lake.last_checkpoint()}")  # noqa: T201
    lake.feed(1)
    run_stream(spark, lake.folder, drain=True)  # the last restart, in this process

    assert orphans > 0, "no kill fell between the data files and their commit"
    assert uncheckpointed > 0, "no kill fell between the commit and the stream's checkpoint"
    rows = read_by_log(lake)
    assert len(rows) == len({row["id"] for row in rows}) == len(lake.fed)
    for row in rows:
        width = lake.fed[row["id"]]
        assert [row.get(f"c{n}") for n in range(lake.columns)] == [
            row["id"] + n if n < width else None for n in range(lake.columns)
        ]


def read_by_log(lake: Lake) -> list[dict[str, int]]:
    """The table's rows from its log and its Parquet files alone, without Delta."""
    paths = lake.committed_files()
    assert len(paths) == len(set(paths))
    assert not any("remove" in action for action in lake.actions())
    return [row for path in paths for row in pq.read_table(lake.table / path).to_pylist()]
