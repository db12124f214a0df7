"""Steps on Iceberg tables as far as they need no Spark: what a run has committed, and what a rewrite would do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakeshift
from lakeshift.errors import ConfigError
from lakeshift.lake import Lake
from lakeshift.pipeline.iceberg_steps import IcebergWriteStep, RewriteStep, find_snapshots
from lakeshift.pipeline.model import IcebergAppend, Rewrite
from lakeshift.pipeline.plan import explain_steps
from lakeshift.pipeline.step import RunMarks

RUN = RunMarks("trips", "5e1f", 3)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = lakeshift.connect(warehouse=tmp_path / "lake")
    lake.create_iceberg_table("db.t", "id bigint")
    yield lake
    lake.catalog.engine.dispose()  # type: ignore[attr-defined]


def append(lake: Lake, marks: RunMarks | None, step: str = "write.t") -> int:
    table = lake.iceberg("db.t").table
    table.append(pa.table({"id": [1, 2]}), snapshot_properties=marks.properties(step) if marks else {})
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def step(lake: Lake, name: str = "write.t", table: str = "db.t", branch: str | None = None) -> IcebergWriteStep:
    model = IcebergAppend.model_validate(
        {"format": "iceberg", "mode": "append", "from": "rows", "table": table, "branch": branch}
    )
    return IcebergWriteStep(name, lake, Path(), None, model)  # type: ignore[arg-type]


def test_a_step_knows_its_own_commit_under_later_ones(lake: Lake) -> None:
    assert step(lake).committed(RUN) is None
    mine = append(lake, RUN)
    append(lake, None)
    done = step(lake).committed(RUN)
    assert done is not None
    assert (done["snapshot_id"], done["rows_written"], done["added_data_files"]) == (mine, 2, 1)


def test_commits_of_other_steps_runs_and_states_are_not_its_own(lake: Lake) -> None:
    append(lake, RUN, "write.other")
    append(lake, RunMarks("trips", "5e1f", 2))
    append(lake, RunMarks("trips", "ffff", 3))
    assert step(lake).committed(RUN) is None
    assert step(lake, table="db.none").committed(RUN) is None


def test_only_ancestors_of_the_branch_count(lake: Lake) -> None:
    first = append(lake, None)
    mine = append(lake, RUN)
    table = lake.iceberg("db.t").table
    table.manage_snapshots().create_branch(first, "audit").commit()
    metadata = lake.iceberg("db.t").table.metadata
    assert [s.snapshot_id for s in find_snapshots(metadata, None, RUN.run_id, "write.t")] == [mine]
    assert find_snapshots(metadata, "audit", RUN.run_id, "write.t") == []
    assert find_snapshots(metadata, "nowhere", RUN.run_id, "write.t") == []


def test_a_rewrite_is_explained_from_metadata(lake: Lake) -> None:
    for _ in range(3):
        append(lake, None)
    rewrite = RewriteStep("maintain.t", lake, Rewrite(table="db.t", options={"min-input-files": 2}))
    told = rewrite.explain()
    assert told.lines == ("1 group: 3 files would become about 1, in the table as it is before the writes",)
    assert (told.facts["input_files"], told.facts["input_rows"]) == (3, 6)
    absent = RewriteStep("maintain.n", lake, Rewrite(table="db.none")).explain()
    assert absent.lines == ("after the table was created",)
    unknown = RewriteStep("maintain.t", lake, Rewrite(table="db.t", options={"min-files": 2}))
    with pytest.raises(ConfigError, match="^maintain.t: A rewrite has no option 'min_files'"):
        explain_steps([unknown], (), None)


def test_a_rewrite_that_has_committed_is_done_unless_it_commits_in_parts(lake: Lake) -> None:
    mine = append(lake, RUN, "maintain.t")
    done = RewriteStep("maintain.t", lake, Rewrite(table="db.t")).committed(RUN)
    assert done is not None
    assert done["snapshot_id"] == mine
    in_parts = Rewrite(table="db.t", options={"partial-progress.enabled": True})
    assert RewriteStep("maintain.t", lake, in_parts).committed(RUN) is None


def test_done_and_committed_steps_are_told_as_such(lake: Lake) -> None:
    append(lake, RUN)
    first, second = step(lake, "write.first"), step(lake)
    told = explain_steps([first, second], {"write.first": {}}, RUN)
    assert [(each.step, each.action) for each in told] == [("write.first", "done"), ("write.t", "done")]
    assert told[1].lines == ("committed, and to be recorded",)
