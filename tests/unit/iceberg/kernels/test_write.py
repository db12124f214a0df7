"""The write kernel on rows of which some are bad: the others are written, or nothing is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StructType

from lakeshift.iceberg.bad_rows import Quarantine
from lakeshift.iceberg.input_columns import InputColumns
from lakeshift.iceberg.kernels import write
from lakeshift.iceberg.kernels.data_files import FileLayout
from lakeshift.iceberg.kernels.write import QuarantineFolder, WriteJob, WriteReport, write_rows
from lakeshift.iceberg.metrics import MetricsPlan
from lakeshift.iceberg.parquet_options import ParquetOptions
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.kernel import Attempt

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
CAME = pa.schema([pa.field("id", pa.int64())])


def run(folder: Path, *batches: list[int | None], quarantine: bool) -> WriteReport:
    marks = Quarantine("op", datetime(2026, 1, 1, tzinfo=UTC), None)
    job = WriteJob(
        FileLayout(SCHEMA, ParquetOptions.of(SCHEMA, {}), MetricsPlan.of(SCHEMA, {}), 0),
        InputColumns.plan(SCHEMA, CAME),
        PartitionValues(SCHEMA, UNPARTITIONED_PARTITION_SPEC),
        StructType(),
        PartitionPaths(()),
        DataLocations(str(folder / "data")),
        QuarantineFolder(str(folder / "bad"), marks) if quarantine else None,
    )
    rows = (pa.RecordBatch.from_pydict({"id": values}, schema=CAME) for values in batches)
    [report] = write_rows(job, PyArrowFileIO(), rows, Attempt("op", 0))
    return report


@pytest.fixture(autouse=True)
def one_batch_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "_CHUNK_ROWS", 1)


def test_good_rows_beside_and_after_bad_ones_are_written(tmp_path: Path) -> None:
    report = run(tmp_path, [1, None], [2], [None, 3], quarantine=True)
    [file] = report.files
    assert pq.read_table(file.location).column("id").to_pylist() == [1, 2, 3]
    assert report.bad_rows.rows == 2
    [bad] = report.quarantine_files
    assert pq.read_table(bad).column("_reason").to_pylist() == ["required value missing"] * 2


def test_without_a_quarantine_bad_rows_are_all_counted_and_nothing_stays(tmp_path: Path) -> None:
    report = run(tmp_path, [1], [None], [2, None], quarantine=False)
    assert (report.files, report.bad_rows.rows) == ([], 2)
    assert list(tmp_path.rglob("*.parquet")) == []
