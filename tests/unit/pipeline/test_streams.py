"""How far streams were read, told from records; and pipeline files that cannot work with them. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.snapshots import Operation, Summary

import lakeshift
from lakeshift.cli.outputs import OUTPUTS
from lakeshift.errors import ConfigError, InvalidStateError
from lakeshift.pipeline.environment import Environment
from lakeshift.pipeline.inputs import open_input
from lakeshift.pipeline.model import Pipeline
from lakeshift.pipeline.plan import PipelinePlan
from lakeshift.pipeline.runner import PipelineResult
from lakeshift.pipeline.state import PipelineState
from lakeshift.pipeline.streams import StreamPosition, commits_to_read, fingerprint, new_files, open_stream, positions
from lakeshift.pipeline.text import parse_pipeline

CSV = "format: csv, path: in, schema: id bigint"
STREAM = """\
name: trips
read:
  arrivals: {format: csv, path: in, schema: id bigint, streaming: true}
write:
  trips: {format: iceberg, mode: append, from: arrivals, table: db.trips}
"""


@pytest.fixture
def state(tmp_path: Path) -> PipelineState:
    (tmp_path / "state").mkdir()
    return PipelineState(tmp_path / "state", "trips")


def run(state: PipelineState, number: int, ends: str, pin: Mapping[str, Any]) -> None:
    run_id = f"{state.identity()}-{number}"
    state.append("run-started", run_id=run_id, number=number, inputs={"arrivals": pin})
    state.append(ends, run_id=run_id, step="write.trips", error="no")


def pin(*files: str) -> dict[str, Any]:
    return {"stream": True, "files": list(files), "seen": [fingerprint(file) for file in files]}


def test_files_of_finished_runs_are_taken_once_and_those_of_others_again(state: PipelineState) -> None:
    assert positions(state.runs()) == {}
    run(state, 1, "run-finished", pin("file:/in/a.csv"))
    run(state, 2, "run-abandoned", pin("file:/in/b.csv"))
    run(state, 3, "run-finished", pin("file:/in/c.csv"))
    run(state, 4, "run-finished", {"files": ["file:/in/e.csv"]})  # was no stream then
    run(state, 5, "run-failed", pin("file:/in/d.csv"))
    reached = positions(state.runs())["arrivals"]
    assert reached.run == 3
    there = [f"file:///in/{name}.csv" for name in "abcde"]
    files, seen = new_files(there, reached, latest=True)
    assert files == [f"file:///in/{name}.csv" for name in "bde"]
    assert seen == [fingerprint(file) for file in files]


def test_a_stream_may_begin_after_what_is_there() -> None:
    files, seen = new_files(["file:/in/a.csv"], None, latest=True)
    assert (files, seen) == ([], [fingerprint("file:/in/a.csv")])
    assert new_files(["file:/in/a.csv"], None, latest=False)[0] == ["file:/in/a.csv"]


def test_a_variable_with_another_value_makes_no_file_look_taken(state: PipelineState) -> None:
    first = Environment({"DAY": "2026-01-01"})
    first.expand("${DAY}")
    run(state, 1, "run-finished", first.keep(pin("file:/in/2026-01-01/0.csv")))
    assert "2026-01-01" not in (state.folder / "runs.jsonl").read_text().split('"files"')[1]
    reached = positions(state.runs())["arrivals"]
    assert new_files(["file:/in/2026-01-02/0.csv"], reached, latest=False)[0] == ["file:/in/2026-01-02/0.csv"]


def test_a_stream_of_another_kind_needs_another_name() -> None:
    model = parse_pipeline(STREAM.replace(CSV, "format: delta, path: in"))
    position = StreamPosition(4, pin("file:/in/a.csv"))
    told = "^this was a stream of files up to run 4, and is one of a Delta table now. Give the input another name"
    with pytest.raises(InvalidStateError, match=told):
        open_stream(None, Path(), model.streams["arrivals"], position, None)  # type: ignore[arg-type]


def test_a_run_that_goes_on_reads_no_stream_as_something_else() -> None:
    stream = parse_pipeline(STREAM).read["arrivals"]
    batch = parse_pipeline(STREAM.replace(", streaming: true", "")).read["arrivals"]
    delta = parse_pipeline(STREAM.replace(CSV, "format: delta, path: in")).read["arrivals"]
    taken = {"of": "x", "columns": "", **pin("file:/in/a.csv")}
    for read, pinned, told in (
        (stream, {"of": "x", "columns": "", "files": []}, "^read.a was no stream when the run began.*begin a new run"),
        (batch, taken, "^read.a was a stream when the run began"),
        (delta, taken, "^read.a: this was a stream of files when the run began, and is one of a Delta table now"),
    ):
        with pytest.raises(InvalidStateError, match=told):
            open_input(None, Path(), "a", read, pinned)  # type: ignore[arg-type]


def test_commits_after_a_position_are_counted_and_rewrites_are_not(tmp_path: Path) -> None:
    lake = lakeshift.connect(warehouse=tmp_path / "lake")
    lake.create_iceberg_table("db.t", "id bigint")
    table = lake.iceberg("db.t").table
    assert commits_to_read(table.metadata, None) == 0
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    first = table.metadata.snapshots[0].snapshot_id
    assert commits_to_read(table.metadata, None) == 1
    assert commits_to_read(table.metadata, first) == 2
    assert commits_to_read(table.metadata, table.metadata.current_snapshot_id) == 0
    rewritten = table.metadata.snapshots[2].model_copy(update={"summary": Summary(Operation.REPLACE)})
    metadata = table.metadata.model_copy(update={"snapshots": [*table.metadata.snapshots[:2], rewritten]})
    assert commits_to_read(metadata, first) == 1
    assert commits_to_read(table.metadata, 5) > 0  # Gone: there is something to tell.
    lake.catalog.engine.dispose()  # type: ignore[attr-defined]


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_pipeline(text, "p.yaml", Environment({}))
    return str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (", schema: id bigint", "", "p.yaml:3:3: read.arrivals: a stream of csv files needs 'schema'"),
        ("streaming: true", "start: latest", "p.yaml:3:3: read.arrivals: 'start' belongs to a stream; add streaming"),
        (
            "streaming: true",
            "stream: true",
            "p.yaml:3:56: read.arrivals.stream: 'stream' is not known here. A run takes what is there when it begins",
        ),
        (
            CSV,
            "format: hudi, path: in",
            "p.yaml:3:38: read.arrivals.streaming: 'streaming' is not known here. Not of Hudi tables: read what "
            "changed since a commit with incremental",
        ),
        (CSV, "format: iceberg, table: db.a, snapshot_id: 5", "p.yaml:3:3: read.arrivals: streaming and snapshot_id"),
        (CSV, "format: delta, path: a, version: 5", "p.yaml:3:3: read.arrivals: streaming and version exclude each"),
        (
            CSV,
            "format: iceberg, table: db.trips",
            "p.yaml:3:48: read.arrivals.streaming: write.trips writes the same table",
        ),
        (
            "append, from: arrivals",
            "overwrite, from: arrivals",
            "p.yaml:5:28: write.trips.mode: 'arrivals' is a stream: only what arrived last would stay in the table",
        ),
        (
            "append, from: arrivals",
            "merge, on: a, clauses: [{when: not-matched-by-source, then: delete}], from: arrivals",
            "p.yaml:5:58: write.trips.clauses.0: 'arrivals' is a stream: every row that did not arrive anew",
        ),
    ],
)
def test_what_cannot_work_with_a_stream_is_refused_with_a_remedy(old: str, new: str, told: str) -> None:
    assert old in STREAM
    assert refused(STREAM.replace(old, new, 1)).startswith(told)


def test_streams_that_can_work_are_taken() -> None:
    model = parse_pipeline(STREAM.replace("append,", "overwrite, partitions: dynamic,"))
    assert list(model.streams) == ["arrivals"]
    for read in (
        "format: parquet, path: in",
        "format: delta, path: in, start: latest",
        "format: iceberg, table: db.a, where: id > 1",
    ):
        assert list(parse_pipeline(STREAM.replace(CSV, read)).streams) == ["arrivals"]


def test_what_is_printed_of_streams_is_as_promised() -> None:
    inputs = {
        "rows": {"format": "csv", "columns": "struct<id:bigint>", "arrived": 0},
        "known": {"format": "iceberg", "columns": "struct<id:bigint>"},
    }
    planned = PipelinePlan.of("trips", inputs, [], Environment({}), True)
    OUTPUTS["run --plan"].model_validate(planned.to_dict())
    assert planned.lines() == [
        "rows: csv, no new files, struct<id:bigint>",
        "known: iceberg, struct<id:bigint>",
        "Nothing has arrived since the last run: no step would run.",
    ]
    result = PipelineResult("trips", "a-1", 1, (), None, 0.5, {"rows": 0})
    assert result.nothing_new
    OUTPUTS["run"].model_validate(result.to_dict())


def test_the_schema_for_editors_knows_streams() -> None:
    definitions = Pipeline.model_json_schema(by_alias=True)["$defs"]
    for name in ("FileRead", "IcebergRead", "DeltaRead"):
        assert definitions[name]["properties"]["streaming"]["type"] == "boolean"
        assert definitions[name]["properties"]["start"]["enum"] == ["all", "latest"]
    assert "streaming" not in definitions["HudiRead"]["properties"]
    assert definitions["FileRead"]["then"] == {"required": ["schema"]}
    assert definitions["FileRead"]["additionalProperties"] is False


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["arrive", "run", "die", "resume", "give up"]), max_size=25))
def test_whatever_happens_to_runs_finished_ones_have_each_file_once(history: list[str]) -> None:
    with TemporaryDirectory() as folder:
        state = PipelineState(Path(folder), "trips")
        there: list[str] = []
        taken: list[str] = []

        def begin() -> None:
            last = state.last_run()
            files, seen = new_files(there, positions(state.runs()).get("arrivals"), latest=False)
            number = 1 if last is None else last.number + 1
            pins = {"arrivals": {"stream": True, "files": files, "seen": seen}}
            state.append("run-started", run_id=f"{state.identity()}-{number}", number=number, inputs=pins)

        def finish() -> None:
            last = state.last_run()
            assert last is not None
            state.append("run-finished", run_id=last.run_id)
            taken.extend(last.pins["arrivals"]["files"])

        for event in (*history, "resume", "run"):
            last = state.last_run()
            is_open = last is not None and last.is_open
            if event == "arrive":
                there.append(f"file:/in/{len(there)}.csv")
            elif event == "give up" and is_open:
                assert last is not None
                state.append("run-abandoned", run_id=last.run_id)
            elif event == "resume" and is_open:
                finish()
            elif event in ("run", "die") and not is_open:
                begin()
                if event == "run":
                    finish()
        assert sorted(taken) == sorted(there)
