"""One of many committers: a process of its own that appends, replaces and deletes on a shared table."""

from __future__ import annotations

from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile

from lakeshift.errors import CommitConflictError
from lakeshift.iceberg.commit.change_set import (
    ChangeSet,
    RemovedFile,
    append_change,
    overwrite_change,
    row_delta_change,
)
from lakeshift.iceberg.commit.commit import commit
from tests.tables import data_file, events, position_deletes


@dataclass
class Report:
    """What one committer did: the ids that must be in the table because of it, and how its commits ended."""

    worker: int
    ids: list[int] = field(default_factory=list)
    landed: int = 0
    refused: int = 0
    errors: list[str] = field(default_factory=list)


def work(worker: int, commits: int, catalog: dict[str, Any], gate: Any, reports: Queue[Report]) -> None:
    """Wait for the others, then commit as fast as possible."""
    report = Report(worker)
    lake = SqlCatalog(**catalog)
    try:
        table = lake.load_table("db.events")
        specs = sorted(table.specs())
        gate.wait()
        mine: list[tuple[DataFile, list[int]]] = []
        for turn in range(commits):
            first = (worker * commits + turn) * 10
            file = data_file(table, events(1 + worker, 3, first=first), specs[(worker + turn) % len(specs)])
            kept = [*mine, (file, [first, first + 1, first + 2])]
            change: ChangeSet
            kind = (worker + turn) % 3 if mine else 0
            if kind == 1:  # a file goes, another one comes
                change = overwrite_change(table.metadata, [file], [RemovedFile.of(mine[-1][0])])
                kept = [*mine[:-1], kept[-1]]
            elif kind == 2:  # a row goes
                change = row_delta_change(table.metadata, [file], [position_deletes(table, mine[-1][0], [0])])
                kept = [*mine[:-1], (mine[-1][0], mine[-1][1][1:]), kept[-1]]
            else:
                change = append_change(table.metadata, [file])
            try:
                commit(table, change)
            except CommitConflictError:
                report.refused += 1
                continue
            report.landed += 1
            mine = kept
        report.ids = [number for _, numbers in mine for number in numbers]
    except BaseException as error:
        report.errors.append(f"{type(error).__name__}: {error}")
    finally:
        lake.close()
        reports.put(report)
