"""How many tasks a write gets."""

from __future__ import annotations

import pytest

from lakeshift.iceberg.distribution import task_count


@pytest.mark.parametrize(("rows", "tasks"), [(None, 16), (0, 4), (100_000, 4), (250_000, 5), (10_000_000, 16)], ids=str)
def test_few_rows_go_to_few_tasks(rows: int | None, tasks: int) -> None:
    assert task_count(4, rows) == tasks
