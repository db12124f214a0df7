"""DELETE by conditions at random, over files of several specs full of edges: Spark over plain rows is the oracle.

Files that are pruned may hold no row for which Spark calls the condition true; files that are dropped unread no other
rows. Just the rows are marked that Spark would take: by the kernel where the condition is exact, and elsewhere by Spark
over what is read of the files that are left.
"""

from __future__ import annotations

import functools
import itertools
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from pyspark.sql import DataFrame

from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.commit.change_set import append_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.dml.delete import ids_by_spark, plan_delete
from lakeshift.iceberg.dml.plan import plan_target
from lakeshift.iceberg.dml.rules import Operation, Rules
from lakeshift.iceberg.dml.run import Run
from lakeshift.iceberg.input_columns import InputColumns
from lakeshift.iceberg.kernels.data_files import FileLayout, to_data_file
from lakeshift.iceberg.kernels.mark import ROW_ID
from lakeshift.iceberg.kernels.position_deletes import ROW_BITS
from lakeshift.iceberg.kernels.read import FileReader
from lakeshift.iceberg.kernels.write import WriteJob, write_rows
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.partitioning import parse_partition_expression
from lakeshift.iceberg.predicates import translate
from lakeshift.iceberg.read import read_context
from lakeshift.iceberg.specs import partition_type
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.kernel import Attempt
from tests.conditions import SCHEMA, edge_rows, random_condition
from tests.conftest import FULL
from tests.property.test_conditions_beside_spark import AT_ONCE, _answers
from tests.tables import local_catalog

SECONDS = 240 if FULL else 8
# Conditions of each round whose rows flow through Spark, all of them in one job.
INEXACT = AT_ONCE if FULL else 6
NUMBERED = Schema(*SCHEMA.fields, NestedField(60, "n", LongType()))
SPECS = [[], ["s"], ["day(ts)"], ["bucket(4, l)"], ["truncate(2, dec)"], ["b", "st.a"], ["x"], ["month(d)"]]

pytestmark = pytest.mark.once_last


def edge_table(folder: Path) -> tuple[Table, pa.Table]:
    """The rows of all edges under every spec, and once more in one file each; numbered over all."""
    table = local_catalog(folder).create_table("db.edges", NUMBERED)
    parts, edges = [], edge_rows()
    for number, expressions in enumerate([*SPECS, []]):
        if number:
            with table.update_spec() as update:
                for field in table.spec().fields:
                    update.remove_field(field.name)
            with table.update_spec() as update:
                for text in expressions:
                    found = parse_partition_expression(text)
                    update.add_field(found.source, found.transform, f"{found.name}_{number}")
        numbers = pa.array(range(number * edges.num_rows, (number + 1) * edges.num_rows), pa.int64())
        rows = edges.append_column("n", numbers).cast(arrow_schema(NUMBERED))
        parts.append(rows)
        spec = table.spec()
        struct = partition_type(table.metadata, spec)
        job = WriteJob(
            FileLayout.of(table.metadata),
            InputColumns.plan(table.schema(), rows.schema),
            PartitionValues(table.schema(), spec),
            struct,
            PartitionPaths.of(spec, struct),
            DataLocations.of(table.location(), {}),
        )
        # At the end one row to a file: there bounds say all.
        pieces = [rows] if number < len(SPECS) else [rows.slice(at, 1) for at in range(rows.num_rows)]
        written = []
        for at, piece in enumerate(pieces):
            [report] = write_rows(job, table.io, iter(piece.to_batches()), Attempt(f"spec{number}", at))
            written += [to_data_file(table.metadata, file) for file in report.files]
        commit(table, append_change(table.metadata, written))
    return table, pa.concat_tables(parts)


@pytest.mark.parametrize("zone", ["Europe/Berlin"])
def test_deletes_at_random_take_the_rows_that_spark_would(spark: Any, tmp_path: Path, zone: str) -> None:
    seed = random.SystemRandom().randrange(2**32)
    chance = random.Random(seed)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails, to play it again
    table, rows = edge_table(tmp_path / "lake")
    pq.write_table(rows, tmp_path / "rows.parquet")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.read.option("datetimeRebaseMode", "CORRECTED").parquet(str(tmp_path / "rows.parquet"))
        frame = frame.coalesce(1).orderBy("n").localCheckpoint()
        deadline = time.monotonic() + SECONDS
        asked = exact = whole = by_spark = 0
        while not asked or time.monotonic() < deadline:
            conditions = [random_condition(chance, depth=min(asked // AT_ONCE, 3)) for _ in range(AT_ONCE)]
            asked += AT_ONCE
            inexact: dict[str, set[int]] = {}
            for condition, answers in _answers(frame, conditions):
                expected = {number for number, is_true in enumerate(answers) if is_true}
                found = _delete(table, condition, zone)
                where = f"seed {seed}: {condition}"
                assert found.dropped <= expected, where
                assert not expected & found.pruned, where
                if found.exact:
                    assert found.dropped | found.marked == expected, where
                else:
                    inexact[condition] = expected
                exact += found.exact
                whole += bool(found.dropped)
            checked = dict(itertools.islice(inexact.items(), INEXACT))
            marked = _marked_by_spark(spark, table, list(checked))
            for condition, expected in checked.items():
                assert marked[condition] == expected, f"seed {seed}: {condition}"
            by_spark += len(checked)
        print(f"{asked} asked, {exact} exact, {by_spark} by Spark, {whole} with files dropped unread")  # noqa: T201
        assert exact > asked * 0.1
        assert whole
        assert by_spark
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


class _Delete:
    def __init__(self, dropped: set[int], pruned: set[int], marked: set[int], exact: bool) -> None:
        self.dropped, self.pruned, self.marked, self.exact = dropped, pruned, marked, exact


_numbers: dict[str, list[int]] = {}


def _delete(table: Table, condition: str, zone: str) -> _Delete:
    said = translate(condition, table.schema(), session_time_zone=zone)
    target = plan_target(table.metadata, table.io, "main", said.pushed, drop_whole=said.exact)
    numbers = _all_numbers(table)
    kept = {file.read.path for file in (*target.candidates, *target.whole)}
    marked: set[int] = set()
    if said.exact:
        context = read_context(table.metadata, table.schema(), ("n",), said.pushed, exact=True)
        reader = FileReader(context, table.io)
        for file in target.candidates:
            for batch in reader.read(file.read):
                marked.update(batch.column("n").to_pylist())
    return _Delete(
        {number for file in target.whole for number in numbers[file.read.path]},
        {number for path, found in numbers.items() if path not in kept for number in found},
        marked,
        said.exact,
    )


def _marked_by_spark(spark: Any, table: Table, conditions: list[str]) -> dict[str, set[int]]:
    """The numbers of the rows that a DELETE marks by each of these conditions, in one job."""
    if not conditions:
        return {}
    run = Run(spark, table, Rules.of(table.metadata, Operation.DELETE, None, None, {}))
    planned = [plan_delete(run, condition) for condition in conditions]
    frames = [
        ids_by_spark(run, target, condition).selectExpr(f"{at} AS condition", ROW_ID)
        for at, (condition, target) in enumerate(planned)
    ]
    found: dict[str, set[int]] = {condition: set() for condition in conditions}
    numbers = _all_numbers(table)
    for at, row in functools.reduce(DataFrame.unionAll, frames).collect():
        path = planned[at][1].by_number()[row >> ROW_BITS].read.path
        found[conditions[at]].add(numbers[path][row & (2**ROW_BITS - 1)])
    return found


def _all_numbers(table: Table) -> dict[str, list[int]]:
    """The numbers of the rows of each file."""
    if not _numbers:
        for task in table.scan().plan_files():
            path = task.file.file_path
            _numbers[path] = pq.read_table(path.removeprefix("file://"), columns=["n"])["n"].to_pylist()
    return _numbers
