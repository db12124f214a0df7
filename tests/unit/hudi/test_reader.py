"""The options of a read, without Spark."""

from __future__ import annotations

import pytest

from lakeshift.errors import ConfigError, StackError
from lakeshift.hudi.reader import HudiReadPath, HudiTable, _query_options


def test_each_kind_of_query_has_its_options() -> None:
    assert _query_options(None, None, None, False) == {"hoodie.datasource.query.type": "snapshot"}
    assert _query_options(None, None, None, True) == {"hoodie.datasource.query.type": "read_optimized"}
    assert _query_options("2026-01-31", None, None, False) == {"as.of.instant": "2026-01-31"}
    assert _query_options(None, "20260101", "20260201", False) == {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": "20260101",
        "hoodie.datasource.read.end.instanttime": "20260201",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("2026-01-31", "0", None, False), "as_of and incremental_from exclude each other"),
        (("2026-01-31", None, None, True), "as_of and read_optimized exclude each other"),
        ((None, "0", None, True), "incremental_from and read_optimized exclude each other"),
        ((None, None, "9", False), "incremental_to='9' needs incremental_from"),
    ],
)
def test_two_kinds_at_once_are_refused(
    arguments: tuple[str | None, str | None, str | None, bool], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        _query_options(*arguments)


def test_a_read_path_reads_as_a_sentence() -> None:
    assert str(HudiReadPath("t", False, "bootstrap tables stay on V1")) == (
        "t: V1 (FileScan), since bootstrap tables stay on V1"
    )


def test_a_line_without_a_bundle_is_refused_with_the_reason() -> None:
    class Spark41:
        version = "4.1.4"

    with pytest.raises(StackError, match=r"Hudi publishes no bundle for Spark 4\.1\. Use Spark 3\.5"):
        HudiTable(Spark41(), "./trips")  # type: ignore[arg-type]
