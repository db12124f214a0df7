"""What steps did, in a line."""

from __future__ import annotations

from lakeshift.pipeline.summary import summarize


def test_a_step_is_told_by_its_counts_and_what_it_made() -> None:
    merged = {"rows_written": 4, "rows_deleted": 1, "rows_quarantined": 0, "added_data_files": 1, "snapshot_id": 7}
    assert summarize(merged) == "4 rows written, 1 row deleted, 1 file added, snapshot 7"
    landed = {"rows_written": 1, "evolved": True, "version": 0}
    assert summarize(landed) == "1 row written, schema changed, version 0"
    assert summarize({"rewritten_data_files": 0, "snapshot_id": None}) == "nothing to do"
