"""With the gate open, every read gives what Hudi's own source gives, by another scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeshift.hudi.reader import HudiTable
from tests.conftest import FULL
from tests.integration.hudi import matrix
from tests.integration.hudi.plans import V1_SCAN, V2_SCAN, files_read, scans
from tests.integration.hudi.tables import HudiFixture


def test_the_pairwise_choice_has_every_pair() -> None:
    chosen = matrix.pairwise()
    assert set().union(*map(matrix.pairs, chosen)) == set().union(*map(matrix.pairs, matrix.ALL))
    assert len(chosen) < len(matrix.ALL) / 4


@pytest.mark.parametrize("case", matrix.ALL if FULL else matrix.pairwise(), ids="-".join)
def test_v2_equals_v1(case: matrix.Case, spark: Any, hudi_table: Callable[..., HudiFixture]) -> None:
    kind, layout, query, shape = case
    table = hudi_table(kind, layout)
    reader = HudiTable(spark, table.path)
    arguments = matrix.QUERIES[query](table)
    ours, theirs = (matrix.SHAPES[shape](reader.read(dsv2=dsv2, **arguments)) for dsv2 in (True, False))

    assert ours.schema == theirs.schema
    found, expected = (sorted(map(repr, df.collect())) for df in (ours, theirs))
    assert found == expected
    assert found, "an empty result would prove nothing"

    assert set(scans(ours)) == {V2_SCAN}
    assert set(scans(theirs)) == {V1_SCAN}
    assert files_read(ours) == files_read(theirs)
    if shape == "filtered" and layout != "unpartitioned":
        assert sum(files_read(ours)) == 1
