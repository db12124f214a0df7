"""Planning a compaction: ours beside PyIceberg's `plan_files` and Java's own planner, of tables with very many files.

PyIceberg has no planner of rewrites: it only finds the files, which is the least that a plan needs. Java's pools
the files of old specs, so that it makes other groups; all sides must come to the same number of files.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from benchmarks.harness import Case, Lab
from benchmarks.many_files import create_table_of_many_files
from lakeshift.iceberg.rewrite.planner import RewriteDataFilesPlanner

PYICEBERG, JAVA = "PyIceberg plan_files", "Java planner"
AIM = {PYICEBERG: 25.0, JAVA: 1.0}

_ALONE = """
import json, pathlib, sys
from pyiceberg.table import StaticTable
from lakeshift.iceberg.rewrite.planner import RewriteDataFilesPlanner
def peak():
    status = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) >> 10
before = peak()
table = StaticTable.from_metadata(sys.argv[1])
result = RewriteDataFilesPlanner(table.metadata, table.io, where=sys.argv[2] or None).plan_with_stats()
print(json.dumps([result.plan.input_files, before, peak()]))
"""


def cases(lab: Lab) -> Iterator[Case]:
    name, warehouse = "plan_bench", lab.folder / "lake"
    warehouse.mkdir()
    catalog = SqlCatalog(name, uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")
    catalog.create_namespace("db")
    lab.java_catalog(name, warehouse)
    for files in (2_000,) if lab.tiny else (200_000, 1_000_000):
        table = create_table_of_many_files(catalog, f"db.files_{files}", files)
        java = _java_table(lab, f"{name}.db.files_{files}")
        yield Case(
            f"{files:,} files in 2 specs",
            _ours(table, None),
            {JAVA: _java(lab, java, None), PYICEBERG: _pyiceberg(table)},
            aim=AIM,
            note=_memory_alone(table, None),
            # PyIceberg takes minutes and gigabytes for the larger table.
            peer_repetitions={PYICEBERG: 1 if files > 200_000 else 2},
        )
        # On a column that both specs leave to the bounds of each file.
        bound = files // 2
        yield Case(
            f"{files:,} files in 2 specs, filtered by metrics",
            _ours(table, f"id < {bound}"),
            {JAVA: _java(lab, java, bound)},
            aim={JAVA: AIM[JAVA]},
            note=_memory_alone(table, f"id < {bound}"),
        )


def _ours(table: Table, where: str | None) -> Callable[[], int]:
    return lambda: RewriteDataFilesPlanner(table.metadata, table.io, where=where).plan().input_files


def _pyiceberg(table: Table) -> Callable[[], int]:
    return lambda: len(list(table.scan().plan_files()))


def _java(lab: Lab, java: Any, bound: int | None) -> Callable[[], int]:
    """Java's planner of its rewrite action, with its defaults; only counts come back through py4j."""
    jvm = lab.spark._jvm
    expressions = jvm.org.apache.iceberg.expressions.Expressions
    # py4j makes the narrowest Java number of a Python int, which a column of longs does not take.
    where = (
        expressions.alwaysTrue()
        if bound is None
        else expressions.lessThan("id", jvm.java.lang.Long.valueOf(str(bound)))
    )

    def plan() -> int:
        planner = jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(java, where)
        planner.init(jvm.java.util.HashMap())
        return sum(group.inputFileNum() for group in _each(planner.plan().groups().iterator()))

    return plan


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def _java_table(lab: Lab, name: str) -> Any:
    return lab.spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(lab.spark._jsparkSession, name)


def _memory_alone(table: Table, where: str | None) -> str:
    """Peak memory of planning in a process of its own, where no peer has been before."""
    arguments = [sys.executable, "-c", _ALONE, table.metadata_location, where or ""]
    _, before, peak = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
    return f"lakeshift alone in a process: {peak} MiB at its peak, {before} of them before it read anything"
