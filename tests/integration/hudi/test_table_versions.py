"""Tables of version 6, which older Hudi releases write, read as the current ones do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeshift.hudi.reader import HudiTable
from tests.conftest import FULL
from tests.integration.hudi import matrix
from tests.integration.hudi.plans import V2_SCAN, files_read, scans
from tests.integration.hudi.tables import HudiFixture
from tests.integration.hudi.test_statistics import stats

VERSION_6 = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}


@pytest.mark.parametrize("query", list(matrix.QUERIES))
@pytest.mark.parametrize("kind", ["cow", "mor_logs", *(["mor_deletes"] if FULL else [])])
def test_version_6_reads_equal_v1(spark: Any, hudi_table: Callable[..., HudiFixture], kind: str, query: str) -> None:
    table = hudi_table(kind, "hive_style", **VERSION_6)
    assert "hoodie.table.version=6" in Path(table.path, ".hoodie", "hoodie.properties").read_text()
    reader = HudiTable(spark, table.path)
    arguments = matrix.QUERIES[query](table)
    for shape in matrix.SHAPES if FULL else ("filtered" if query == "as_of" else "aggregated",):
        ours, theirs = (matrix.SHAPES[shape](reader.read(dsv2=dsv2, **arguments)) for dsv2 in (True, False))
        found = sorted(map(repr, ours.collect()))
        assert found == sorted(map(repr, theirs.collect()))
        assert found
        assert set(scans(ours)) == {V2_SCAN}
        assert files_read(ours) == files_read(theirs)


def test_version_6_log_files_have_no_row_bound(spark: Any, hudi_table: Callable[..., HudiFixture]) -> None:
    """Several commits append to one log file there, so counting by file name could count too little."""
    assert stats(HudiTable(spark, hudi_table("mor_logs", "hive_style", **VERSION_6).path).read())[1] is None
    cow = HudiTable(spark, hudi_table("cow", "hive_style", **VERSION_6).path).read()
    assert stats(cow)[1] == cow.count()
