"""What commands would print of results that are hard to come by from a shell, held against the same schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from jsonschema import ValidationError
from pyiceberg.expressions import EqualTo

from lakeshift.delta.policy import EvolutionPolicy, TableState, WriteSettings, plan_write
from lakeshift.delta.schema import schema_of
from lakeshift.delta.schema_diff import diff_schemas
from lakeshift.iceberg.rewrite.diagnostics import FilterStats
from lakeshift.iceberg.rewrite.result import GroupResult, RewriteResult
from lakeshift.pipeline.step import Explanation
from lakeshift.stack import STACKS
from tests.command import valid
from tests.handmade import HandmadeTable
from tests.report_tables import hostile, report_of
from tests.unit.iceberg.rewrite.tables import BY_REGION, UNREADABLE, evolved_table, files, planning


def as_printed(result: Any) -> Any:
    return json.loads(json.dumps(result.to_dict(), default=str))


def test_a_report_of_every_kind_of_delete_and_of_hostile_names(lived_in_table: HandmadeTable, tmp_path: Path) -> None:
    facts = valid("report", as_printed(report_of(lived_in_table)))
    assert facts["deletes"]
    assert facts["next_steps"]
    assert valid("report", as_printed(report_of(hostile(tmp_path))))["partitions"]


def test_a_plan_whose_filter_could_not_be_decided(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, UNREADABLE, BY_REGION)
    table.commit(*files(table, 5, 0, "eu"), *files(table, 6, 2, "z1"))
    planned = valid("rewrite plan", as_printed(planning(table, EqualTo("region", "eu"))))
    assert [warning["concern"] for warning in planned["warnings"]] == ["unevaluable-spec"]


def test_a_rewrite_of_which_a_group_failed() -> None:
    counts = {"input_files": 5, "input_bytes": 10, "input_rows": 10, "delete_files_applied": 0}
    groups = (
        GroupResult(1, "day=1", (0, 1), 1, **counts, output_files=1, snapshot_id=7),
        GroupResult(2, "day=2", (0,), 1, **counts, error="No space left on device"),
    )
    printed = valid("rewrite run", as_printed(RewriteResult((7,), groups, 0, FilterStats(), 1.5)))
    assert printed["failed_groups"] == 1


def test_a_delta_write_with_every_kind_of_change() -> None:
    table = {"kept": pa.int32(), "wider": pa.int16(), "other": pa.string(), "narrow": pa.int64(), "gone": pa.int8()}
    batch = {"kept": pa.int32(), "wider": pa.int32(), "other": pa.int32(), "narrow": pa.int32(), "new": pa.float64()}
    before, after = (pa.schema(list(columns.items())) for columns in (table, batch))
    diff = valid("delta diff", as_printed(diff_schemas(before, after)))
    assert (diff["kind"], len(diff["new_columns"]), len(diff["widened"]), len(diff["problems"])) == (
        "Incompatible", 1, 1, 1,
    )  # fmt: skip
    state = TableState("id", 0, schema_of(before))
    plan = plan_write(state, schema_of(after), WriteSettings(EvolutionPolicy(), STACKS["4.1"]))
    printed = valid("delta write --dry-run", {"dry_run": True, "plan": as_printed(plan)})
    assert printed["plan"]["action"] == "refuse"
    # In a pipeline's plan the same stands beside the step's name.
    step = Explanation("write.t", plan.action, "t", tuple(plan.lines()), plan.to_dict())
    assert valid("run --plan", {"pipeline": "p", "inputs": {}, "nothing_new": False, "steps": [as_printed(step)]})


def test_what_an_earlier_attempt_had_done_and_what_a_step_cannot_print() -> None:
    step = {"step": "write.t", "target": "t", "found": True, "seconds": 0.1}
    run = {"pipeline": "p", "run_id": "a-1", "number": 1, "resumed_after": [], "seconds": 1}
    run |= {"arrived": {"rows": 1}, "nothing_new": False}
    counts = dict.fromkeys(("added_data_files", "added_delete_files", "removed_data_files", "removed_delete_files"), 1)
    for details in (
        {"snapshot_id": 1, "rows_written": 2, **counts},
        {"snapshot_id": 1, "rows_written": 2, "rows_quarantined": None, **counts},
        {"operation": "append", "version": None, "rows_written": None},
        {"operation": "upsert", "instant": "20260131120000000"},
    ):
        assert valid("run", {**run, "steps": [{**step, "details": details}]})
        with pytest.raises(ValidationError):
            valid("run", {**run, "steps": [{**step, "details": {**details, "rows": 2}}]})
