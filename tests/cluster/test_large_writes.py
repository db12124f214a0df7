"""A frame ten times as large as all the executors' memory, written by a driver with 1 GB of heap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

import lakeshift

pytestmark = pytest.mark.full

EXECUTORS, EXECUTOR_MIB = 2, 512
# Text that neither Spark nor Parquet can make small.
ROW_BYTES = 1_000
ROWS = 10 * EXECUTORS * EXECUTOR_MIB * 1024 * 1024 // ROW_BYTES
PARTITIONS = 2_000


@pytest.fixture(scope="module")
def master() -> str:
    return f"local-cluster[{EXECUTORS},1,{EXECUTOR_MIB}]"


@pytest.fixture(scope="module")
def executor_memory() -> str:
    return f"{EXECUTOR_MIB}m"


def largest_worker(spark: Any) -> int:
    """The largest resident size, in MiB, of a Python process below this one's."""
    found = 0
    for child in psutil.Process().children(recursive=True):
        try:
            if "python" in child.name():
                found = max(found, child.memory_info().rss >> 20)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("mode", ["none", "hash"])
def test_memory_does_not_grow_with_the_frame(spark: Any, tmp_path: Path, mode: str) -> None:
    lake = lakeshift.connect(warehouse=tmp_path / "lake", spark=spark)
    table = lake.create_iceberg_table(
        "db.large", "id bigint, part int, text string", ["part"], {"write.distribution-mode": mode}
    )
    text = " , ".join(f"sha2(string(id * {n} + {n}), 512)" for n in range(1, ROW_BYTES // 128 + 1))
    frame = spark.range(0, ROWS, 1, 8).selectExpr(
        "id", f"CAST(pmod(hash(id), {PARTITIONS}) AS INT) AS part", f"concat({text}) AS text"
    )
    peak = 0

    def watch(done: int, total: int) -> None:
        nonlocal peak
        peak = max(peak, largest_worker(spark))

    result = table.append(frame, progress=watch)
    assert result.rows_written == ROWS
    assert table.table.scan().count() == ROWS
    assert 0 < peak < 1024
    if mode == "hash":
        assert result.added_data_files == PARTITIONS
