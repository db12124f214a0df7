"""Pipelines on real tables: planned, run, broken between commit and record at every step, and resumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import lakeshift
from lakeshift.cli.app import app
from lakeshift.cli.options import settings
from lakeshift.errors import ConfigError, InvalidStateError, LakeshiftError, SchemaMismatchError
from lakeshift.pipeline.runner import open_pipeline
from lakeshift.pipeline.state import PipelineState
from lakeshift.stack import Stack
from tests.command import valid
from tests.integration.hudi.tables import QUICK
from tests.integration.pipeline.cities import STEPS, go_on, make, tables

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def call(spark: Any) -> Any:
    def run(*arguments: str) -> Result:
        settings.json = settings.debug = False
        return CliRunner().invoke(app, ["run", *arguments])

    return run


class Killed(BaseException):
    """Stands for a kill in this process: nothing may handle it."""


@pytest.mark.once_first
def test_the_example_is_planned_and_run_and_tells_what_it_did(
    call: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIPS_LAKE", "hidden-lake")
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("lakehouse", ".lakeshift"))
    file = tmp_path / "examples" / "trips.yaml"
    before = sorted(tmp_path.rglob("*.*"))

    planned = call(str(file), "--plan")
    assert planned.exit_code == 0, planned.output
    assert "create the table (Identical)" in planned.output
    assert "create db.trips, partitioned by month(started_at)" in planned.output
    assert [path for path in sorted(tmp_path.rglob("*.*")) if path.suffix != ".pyc"] == before

    told = call(str(file))
    assert told.exit_code == 0, (told.output, told.exception)
    assert "write.landing -> " in told.output
    assert "8 rows written, " in told.output
    assert "Run 1 finished" in told.output
    lake = lakeshift.connect(warehouse=tmp_path / "examples" / "hidden-lake", spark=spark)
    trips = {row["id"]: row["fare"] for row in lake.iceberg("db.trips").read().collect()}
    assert trips == {1: 54.0, 2: 19.9, 3: 31.5, 5: 12.1, 6: 140.0, 7: 99.0}

    # Another arrival, with another column: the plan says what it would change, and the run does just that.
    arrivals = tmp_path / "examples" / "trips" / "arrivals.csv"
    arrivals.write_text("id,started_at,city,km,fare,tip\n8,2026-02-03 00:00:00,Oslo,1.0,10.0,2.5\n")
    file.write_text(file.read_text().replace("km double, fare double", "km double, fare double, tip double"))
    plan = valid("run --plan", json.loads(call(str(file), "--plan", "--json").stdout))
    landing, merge, compact = plan["steps"]
    assert [column["column"] for column in landing["diff"]["new_columns"]] == ["tip"]
    assert (merge["action"], merge["spec"]) == ("merge", ["month(started_at)"])
    assert compact["action"] == "rewrite"
    result = valid("run", json.loads(call(str(file), "--json").stdout))
    done = {step["step"]: step["details"] for step in result["steps"]}
    assert done["write.landing"]["evolved"] is True
    assert (done["write.trips"]["rows_written"], done["write.trips"]["rows_deleted"]) == (1, 0)
    assert done["maintain.compact"]["filter_stats"] is not None
    lines = (tmp_path / "examples/.lakeshift/trips/runs.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    (tmp_path / "examples" / "copy.yaml").write_text("""\
name: copy
lake: {warehouse: "${TRIPS_LAKE}"}
read:
  all_trips: {format: delta, path: "${TRIPS_LAKE}/landing"}
  first_trips: {format: delta, path: "${TRIPS_LAKE}/landing", version: 0}
transform:
  counts:
    sql: SELECT (SELECT count(*) FROM all_trips) AS n, (SELECT count(*) FROM first_trips) AS first_n
write:
  counts: {format: iceberg, mode: overwrite, from: counts, table: db.counts, create: {}}
""")
    lakeshift.run_pipeline(tmp_path / "examples" / "copy.yaml", spark=spark)
    assert [tuple(row) for row in lake.iceberg("db.counts").read().collect()] == [(9, 8)]
    # What came from the environment is in no record and in nothing that was shown.
    assert not any("hidden-lake" in text for text in (*lines, planned.output, told.output, json.dumps(plan)))
    assert records[2]["target"].endswith("/${TRIPS_LAKE}/landing")
    assert [record["event"] for record in records].count("step-done") == 6
    assert records[-2]["details"] == done["maintain.compact"]


@pytest.mark.full
def test_a_death_between_commit_and_record_changes_nothing(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = make(tmp_path / "undisturbed")
    for _ in range(2):
        go_on(undisturbed, spark)
    disturbed = make(tmp_path / "disturbed")
    append = PipelineState.append
    for number in (1, 2):

        def die_at_the_last_step(self: PipelineState, event: str, *, run: int = number, **facts: Any) -> None:
            if event == "step-done" and facts["step"] == STEPS[-1]:
                raise Killed
            if event != "step-done" or run == 2:  # The first run dies with all committed and nothing recorded.
                append(self, event, **facts)

        with monkeypatch.context() as patch:
            patch.setattr(PipelineState, "append", die_at_the_last_step)
            with pytest.raises(Killed):
                go_on(disturbed, spark)
        if number == 1:
            # What arrives meanwhile belongs to the next run.
            (disturbed.parent / "in" / "9.csv").write_text("id,city,amount\n99,late,1.0\n")
            with pytest.raises(InvalidStateError, match=r"Run 1 .* did not finish, 0 steps done.*--resume"):
                lakeshift.run_pipeline(disturbed, spark=spark)
        result = go_on(disturbed, spark)
        if number == 1:
            assert result.resumed_after == ()
            # The compaction has nothing to do in the first run: it commits nothing, and is simply done again.
            assert [step.found for step in result.steps] == [True, True, True, True, False]
            (disturbed.parent / "in" / "9.csv").unlink()
        else:
            assert result.resumed_after == tuple(STEPS[:-1])
            assert [step.found for step in result.steps] == [True]
    expected = tables(undisturbed.parent, spark)
    assert tables(disturbed.parent, spark) == expected
    assert len(expected["bad"]) == 6
    assert {row[2] for row in expected["totals"]} == {60}


@pytest.mark.once_first
def test_a_failed_run_is_resumed_after_the_file_was_mended(call: Any, spark: Any, tmp_path: Path) -> None:
    file = make(tmp_path / "a")
    (tmp_path / "a" / "in" / "4.csv").write_text("id,city,amount\n1,c1,much\n")
    failed = call(str(file))
    assert failed.exit_code == 1
    assert isinstance(failed.exception, LakeshiftError)
    assert "This was write.landing in run 1 (" in str(failed.exception)
    assert f"lakeshift run {file} --resume" in str(failed.exception)
    run = open_pipeline(file).state.last_run()
    assert run is not None
    assert (run.status, run.failed_step, run.steps) == ("failed", "write.landing", {})
    (tmp_path / "a" / "in" / "4.csv").write_text("id,city,amount\n1,c1,2.5\n")
    resumed = call(str(file), "--resume")
    assert resumed.exit_code == 0, (resumed.output, resumed.exception)
    assert "goes on from its first step; left: write.landing, write.raw" in resumed.output
    nothing = call(str(file), "--resume")
    assert isinstance(nothing.exception, InvalidStateError)
    assert "its last run, 1, is finished" in str(nothing.exception)


def test_mistakes_are_found_before_anything_is_written(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make(tmp_path / "a")
    text = file.read_text()
    monkeypatch.setenv("PIPELINE_SECRET", "hunter22")

    def refusal(old: str, new: str, kind: type[Exception] = ConfigError) -> str:
        assert old in text
        file.write_text(text.replace(old, new, 1))
        with pytest.raises(kind) as raised:
            lakeshift.run_pipeline(file, spark=spark)
        return str(raised.value)

    assert "read.arrivals cannot be read as csv: [PATH_NOT_FOUND]" in refusal("in/*.csv", "nowhere/*.csv")
    told = refusal("in/*.csv", "nowhere/${PIPELINE_SECRET}")
    assert "hunter22" not in told
    assert "nowhere/${PIPELINE_SECRET}" in told
    assert "`wher` cannot be resolved" in refusal("WHERE id IS", "WHERE wher IS")
    assert "transform.keyed: Spark does not take this as a query" in refusal(
        "SELECT * FROM arrivals WHERE id IS NOT NULL", "DROP TABLE arrivals"
    )
    absent = refusal("    table: db.raw\n    quar", "    table: db.rows\n    quar")
    assert absent.startswith(
        "write.raw: There is no table 'db.rows' in catalog 'local'; tables there: db.latest, db.raw"
    )
    assert absent.endswith("Or let the step create it, with create: {partition_by: [...]}.")
    fits = refusal("    from: arrivals\n    table: db.raw", "    from: counted\n    table: db.raw", SchemaMismatchError)
    assert fits.startswith("write.raw: The rows do not fit db.raw")
    assert not (tmp_path / "a" / "lake" / "landing").exists()
    assert open_pipeline(file).state.last_run() is None


@pytest.mark.once
def test_hudi_is_written_once_and_read_by_every_kind_of_query(
    stack: Stack, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stack.hudi is None:
        pytest.skip("no Hudi bundle for this Spark")
    quick = json.dumps(QUICK)
    (tmp_path / "in.csv").write_text("id,city,ts\n1,a,1\n2,b,1\n3,a,1\n")
    file = tmp_path / "land.yaml"
    file.write_text(f"""\
name: land
read:
  rows: {{format: csv, path: in.csv, schema: "id bigint, city string, ts bigint"}}
write:
  rides:
    format: hudi
    from: rows
    path: rides
    table_name: rides
    operation: insert
    record_key: [id]
    precombine: ts
    partition_by: [city]
    options: {quick}
""")
    append = PipelineState.append

    def dies(self: PipelineState, event: str, **facts: Any) -> None:
        if event == "step-done":
            raise Killed
        append(self, event, **facts)

    with monkeypatch.context() as patch:
        patch.setattr(PipelineState, "append", dies)
        with pytest.raises(Killed):
            lakeshift.run_pipeline(file, spark=spark)
    first = lakeshift.run_pipeline(file, resume=True, spark=spark).steps[0]
    assert first.found
    (tmp_path / "in.csv").write_text("id,city,ts\n4,b,2\n")
    second = lakeshift.run_pipeline(file, spark=spark).steps[0]
    assert not second.found
    assert second.details["instant"] > first.details["instant"]

    (tmp_path / "move.yaml").write_text(f"""\
name: move
read:
  rides_now: {{format: hudi, path: rides}}
  rides_then: {{format: hudi, path: rides, as_of: "{first.details["instant"]}"}}
  changes: {{format: hudi, path: rides, dsv2: false, incremental: {{from: "0"}}}}
transform:
  counts:
    sql: |
      SELECT (SELECT count(*) FROM rides_now) AS now, (SELECT count(*) FROM rides_then) AS before,
             (SELECT count(*) FROM changes) AS changed
write:
  counts: {{format: delta, from: counts, path: counts}}
""")

    def dies_after_start(self: PipelineState, event: str, **facts: Any) -> None:
        append(self, event, **facts)
        if event == "run-started":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(PipelineState, "append", dies_after_start)
        with pytest.raises(Killed):
            lakeshift.run_pipeline(tmp_path / "move.yaml", spark=spark)
    # What is committed after a run began is not what it reads, also when it is resumed.
    (tmp_path / "in.csv").write_text("id,city,ts\n5,a,3\n")
    lakeshift.run_pipeline(file, spark=spark)
    lakeshift.run_pipeline(tmp_path / "move.yaml", resume=True, spark=spark)
    assert [tuple(row) for row in spark.read.format("delta").load(str(tmp_path / "counts")).collect()] == [(4, 3, 4)]
