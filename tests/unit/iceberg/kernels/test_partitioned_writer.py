"""The writer of data files: what it writes, how much it holds, and what it leaves behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, StructType

from lakeshift.iceberg.kernels.data_files import FileLayout, WrittenFile
from lakeshift.iceberg.kernels.partitioned_writer import PartitionedWriter
from lakeshift.iceberg.metrics import MetricsPlan
from lakeshift.iceberg.parquet_options import ParquetOptions
from lakeshift.kernel import Attempt

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "text", StringType(), required=False))
STRUCT = StructType(NestedField(1000, "p", DoubleType(), required=False))


@pytest.fixture(autouse=True)
def local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def a_writer(folder: Path, *, waiting_bytes: int = 1 << 30, **properties: str) -> PartitionedWriter:
    layout = FileLayout(SCHEMA, ParquetOptions.of(SCHEMA, properties), MetricsPlan.of(SCHEMA, properties), 0)
    return PartitionedWriter(
        layout,
        3,
        STRUCT,
        lambda partition, name: f"{folder}/p={partition[0]}/{name}",
        PyArrowFileIO(),
        Attempt("operation", 0),
        waiting_bytes=waiting_bytes,
    )


def rows(layout_ids: Sequence[int], width: int = 1) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(layout_ids), "text": [str(i) * width for i in layout_ids]})


def chunk(*pieces: tuple[float | None, pa.RecordBatch]) -> tuple[list[tuple[Any, pa.RecordBatch]], int]:
    return [((value,), batch) for value, batch in pieces], sum(batch.nbytes for _, batch in pieces)


def ids(files: Sequence[WrittenFile]) -> Iterator[int]:
    for file in files:
        yield from pq.read_table(file.location, partitioning=None).column("id").to_pylist()


def test_each_partition_has_one_file_with_its_rows_in_order(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    writer.add(*chunk((1.0, rows([1, 2])), (2.0, rows([3]))))
    writer.add(*chunk((2.0, rows([4])), (None, rows([5])), (1.0, rows([6]))))
    files = {file.location.split("/")[-2]: file for file in writer.finish()}
    assert {name: list(ids([file])) for name, file in files.items()} == {
        "p=1.0": [1, 2, 6],
        "p=2.0": [3, 4],
        "p=None": [5],
    }
    assert {file.spec_id for file in files.values()} == {3}
    assert all(file.size == Path(file.location).stat().st_size for file in files.values())
    assert all(len(file.split_offsets) == 1 for file in files.values())


def test_nan_is_one_partition_and_minus_zero_another_than_zero(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    writer.add(*chunk((float("nan"), rows([1])), (0.0, rows([2])), (-0.0, rows([3]))))
    writer.add(*chunk((-float("nan"), rows([4]))))
    assert sorted(list(ids([file])) for file in writer.finish()) == [[1, 4], [2], [3]]


def test_files_carry_field_ids_and_the_schema(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    writer.add(*chunk((1.0, rows([1]))))
    [file] = writer.finish()
    parquet = pq.ParquetFile(file.location)
    assert [field.metadata[b"PARQUET:field_id"] for field in parquet.schema_arrow] == [b"1", b"2"]
    assert b'"name":"text"' in parquet.metadata.metadata[b"iceberg.schema"]


def test_waiting_rows_move_to_local_disk_and_come_back_in_order(tmp_path: Path, local_disk: Path) -> None:
    writer = a_writer(tmp_path, waiting_bytes=1)
    for start in range(0, 30, 3):
        writer.add(*chunk((1.0, rows([start])), (2.0, rows([start + 1])), (1.0, rows([start + 2]))))
        assert len(list(local_disk.glob("*/*.arrow"))) == start // 3 + 1
    first, second = writer.finish()
    assert list(ids([first])) == [i for i in range(30) if i % 3 != 1]
    assert list(ids([second])) == list(range(1, 30, 3))
    assert list(local_disk.iterdir()) == []


def test_a_partition_that_is_finished_waits_no_more(tmp_path: Path) -> None:
    """Its rows, from disk and from memory, are in a file at once; those that come later have another one."""
    writer = a_writer(tmp_path, waiting_bytes=60)
    writer.add(*chunk((float("nan"), rows([1, 2])), (2.0, rows([3, 4]))))
    writer.add(*chunk((float("nan"), rows([5]))))
    writer.finish_partition((float("nan"),))
    writer.finish_partition((7.0,))  # nobody has seen it
    (finished,) = tmp_path.rglob("*.parquet")
    assert pq.read_table(finished, partitioning=None).column("id").to_pylist() == [1, 2, 5]
    writer.add(*chunk((float("nan"), rows([6]))))
    assert [list(ids([file])) for file in writer.finish()] == [[1, 2, 5], [3, 4], [6]]


def test_two_thousand_partitions_make_two_thousand_files_whatever_may_wait(tmp_path: Path) -> None:
    writer = a_writer(tmp_path, waiting_bytes=100_000)
    for round_number in range(3):
        pieces = [(float(p), rows([p + 2000 * round_number], width=10)) for p in range(2000)]
        writer.add(*chunk(*pieces))
    files = writer.finish()
    assert len(files) == 2000
    assert sorted(ids(files)) == list(range(6000))
    assert {len(file.split_offsets) for file in files} == {1}


def test_rows_that_share_memory_count_until_the_last_of_them_is_written(tmp_path: Path, local_disk: Path) -> None:
    # One partition fills row groups quickly while another holds a sliver of every chunk.
    writer = a_writer(tmp_path, waiting_bytes=500_000, **{"write.parquet.row-group-size-bytes": "50000"})
    for start in range(0, 100_000, 10_000):
        both = rows(range(start, start + 10_000))
        writer.add([((1.0,), both.slice(0, 9_999)), ((2.0,), both.slice(9_999))], both.nbytes)
    assert list(local_disk.glob("*/*.arrow")), "the slivers hold all the memory, so they must have been moved"
    first, second = writer.finish()
    assert (first.rows, second.rows) == (99_990, 10)
    assert len(first.split_offsets) > 5


@pytest.mark.parametrize("target", [20_000, 60_000])
def test_files_roll_at_the_target_size(tmp_path: Path, target: int) -> None:
    import random

    random.seed(0)
    writer = a_writer(tmp_path, **{"write.target-file-size-bytes": str(target)})
    total = 0
    for start in range(0, 20_000, 1_000):
        batch = pa.RecordBatch.from_pydict(
            {"id": range(start, start + 1_000), "text": [random.randbytes(20).hex() for _ in range(1_000)]}
        )
        total += batch.nbytes
        writer.add(*chunk((1.0, batch)))
    files = writer.finish()
    assert list(ids(files)) == list(range(20_000))
    sizes = [file.size for file in files]
    assert len(sizes) > 3
    assert all(0.7 * target <= size <= 1.5 * target for size in sizes[1:-1]), sizes


def test_abort_leaves_nothing_behind(tmp_path: Path, local_disk: Path) -> None:
    writer = a_writer(tmp_path / "table", waiting_bytes=1, **{"write.parquet.row-group-size-bytes": "10"})
    writer.add(*chunk((1.0, rows(range(100))), (2.0, rows([1]))))
    assert list((tmp_path / "table").rglob("*.parquet"))
    writer.abort()
    assert not list((tmp_path / "table").rglob("*.parquet"))
    assert list(local_disk.iterdir()) == []
