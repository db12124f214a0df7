"""Reading which files a table has: our ledger beside PyIceberg's `plan_files` and Java's `planFiles`.

Twice for each size: with what planning needs of a file, and with all column metrics. Java's `planFiles`
drops metrics unless told otherwise; PyIceberg always has them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from benchmarks.harness import Case, Lab
from benchmarks.many_files import create_table_of_many_files
from lakeshift.iceberg.ledger import read_ledger

PLANNING = (
    "file_path",
    "file_format",
    "spec_id",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "sequence_number",
    "split_offsets",
)
PYICEBERG = "PyIceberg plan_files"
AIM = {PYICEBERG: 25.0, "Java planFiles": 1.0}

_ALONE = """
import json, pathlib, sys
from pyiceberg.table import StaticTable
from lakeshift.iceberg.ledger import read_ledger
def peak():
    status = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) >> 10
before = peak()
table = StaticTable.from_metadata(sys.argv[1])
ledger = read_ledger(table.metadata, table.io, columns=json.loads(sys.argv[2]))
files = sum(rows.num_rows for rows in ledger.data.values())
print(json.dumps([files, before, peak()]))
"""


def cases(lab: Lab) -> Iterator[Case]:
    name, warehouse = "ledger_bench", lab.folder / "lake"
    warehouse.mkdir()
    catalog = SqlCatalog(name, uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")
    catalog.create_namespace("db")
    lab.java_catalog(name, warehouse)
    for files in (2_000,) if lab.tiny else (200_000, 1_000_000):
        table = create_table_of_many_files(catalog, f"db.files_{files}", files)
        java = _java_table(lab, f"{name}.db.files_{files}")
        large = files > 200_000
        for columns, what in ((PLANNING, "planning columns"), (None, "all columns")):
            peers = {"Java planFiles": _java(lab, java, with_metrics=not columns)}
            # PyIceberg reads all columns in any case, and takes minutes and gigabytes for the larger table.
            if columns or not large:
                peers[PYICEBERG] = _pyiceberg(table)
            yield Case(
                f"{files:,} files, {what}",
                _ours(table, columns),
                peers,
                equal=_same,
                aim={name: AIM[name] for name in peers},
                note=_memory_alone(table, columns),
                peer_repetitions={PYICEBERG: 1 if large else 2},
            )


def _ours(table: Table, columns: tuple[str, ...] | None) -> Callable[[], tuple[int, int | None]]:
    def read() -> tuple[int, int | None]:
        ledger = read_ledger(table.metadata, table.io, columns=columns)
        sizes = (pc.sum(rows.column("file_size_in_bytes")).as_py() for rows in ledger.data.values())
        return sum(rows.num_rows for rows in ledger.data.values()), sum(sizes)

    return read


def _pyiceberg(table: Table) -> Callable[[], tuple[int, int | None]]:
    def plan() -> tuple[int, int | None]:
        tasks = list(table.scan().plan_files())
        return len(tasks), sum(task.file.file_size_in_bytes for task in tasks)

    return plan


def _java(lab: Lab, java: Any, *, with_metrics: bool) -> Callable[[], tuple[int, int | None]]:
    iterables = lab.spark._jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables

    def plan() -> tuple[int, int | None]:
        scan = java.newScan().includeColumnStats() if with_metrics else java.newScan()
        tasks = scan.planFiles()
        count: int = iterables.size(tasks)
        tasks.close()
        return count, None

    return plan


def _java_table(lab: Lab, name: str) -> Any:
    return lab.spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(lab.spark._jsparkSession, name)


def _same(ours: tuple[int, int | None], peer: tuple[int, int | None]) -> bool:
    """Java only counts: py4j would take longer to ask for a size than Java to plan."""
    return ours == peer or (peer[1] is None and ours[0] == peer[0])


def _memory_alone(table: Table, columns: tuple[str, ...] | None) -> str:
    """Peak memory of reading the ledger in a process of its own, where no peer has been before."""
    arguments = [sys.executable, "-c", _ALONE, table.metadata_location, json.dumps(columns)]
    _, before, peak = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
    return f"lakeshift alone in a process: {peak} MiB at its peak, {before} of them before it read anything"
