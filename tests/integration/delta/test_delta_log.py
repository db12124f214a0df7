"""What commits did to a table's files, and the rows that they added: read with Delta's own classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeshift.delta.log import DeltaLog


@pytest.mark.once_last
def test_rows_that_commits_added_are_told_from_files_that_were_moved(spark: Any, delta_sql: Any, table: Path) -> None:
    def append(rows: list[tuple[Any, ...]], columns: str) -> None:
        frame = spark.createDataFrame(rows, columns).coalesce(1)
        frame.write.format("delta").option("mergeSchema", "true").partitionBy("day").mode("append").save(str(table))

    append([(1, "a b", 1.5)], "id int, day string, amount double")
    append([(2, "a b", 2.5), (3, None, 3.5)], "id int, day string, amount double")
    append([(4, "c", 4.5, "x")], "id int, day string, amount double, note string")
    delta_sql.sql(f"OPTIMIZE delta.`{table}`")
    delta_sql.sql(f"DELETE FROM delta.`{table}` WHERE id = 4")
    log = DeltaLog(spark, str(table))
    changes = [log.file_changes(version) for version in range(6)]
    told = [change and (change.operation, len(change.added), change.changes_rows) for change in changes]
    assert told == [
        ("WRITE", 1, False), ("WRITE", 2, False), ("WRITE", 1, False), ("OPTIMIZE", 0, False), ("DELETE", 0, True), None
    ]  # fmt: skip
    added = [line for change in changes[1:3] if change is not None for line in change.added]
    # Some of these files are no longer in the table.
    rows = [(row["id"], row["day"], row["amount"], row["note"]) for row in log.rows_of(added).collect()]
    assert sorted(rows) == [(2, "a b", 2.5, None), (3, None, 3.5, None), (4, "c", 4.5, "x")]
