"""Chapters: the table's small files are compacted and partly moved to its newest spec, and its layout is drawn."""

from __future__ import annotations

import json
from pathlib import Path

from lakeshift.demo.deletion_request import fares_left
from lakeshift.demo.deliveries import CITIES
from lakeshift.demo.pipelines import opened, run
from lakeshift.demo.story import Stage


def tidy(stage: Stage) -> None:
    trips = stage.lake.iceberg("demo.trips")
    january = opened(stage, "tidy", "").model.maintain["january"]
    plan = trips.plan_rewrite(where=january.where, target_spec_id=january.target_spec_id, min_input_files=2)
    stage.say(f"a rewrite where {january.where} would look at")
    stage.show(
        ["Spec", "Filter", "Files left out", "Chosen"],
        [
            [
                spec.spec_id,
                spec.status.value,
                spec.files_excluded_by_partition + spec.files_excluded_by_metrics,
                spec.chosen,
            ]
            for spec in plan.specs
        ],
    )
    before = {spec.spec_id: spec.data_files for spec in trips.layout()}
    run(stage, "tidy")
    trips = stage.lake.iceberg("demo.trips")
    layout = trips.layout()
    stage.show(
        ["Spec", "Partitioned by", "Data files before", "Data files now", "Rows now"],
        [[s.spec_id, ", ".join(s.fields), before.get(s.spec_id, 0), s.data_files, s.rows] for s in layout],
    )
    rows = trips.table.scan(selected_fields=("id", "fare")).to_arrow().to_pylist()
    stage.check_rows("fares that PyIceberg reads", {row["id"]: row["fare"] for row in rows}, fares_left())
    old = [spec for spec in layout if spec.spec_id == 0]
    stage.check("January is moved and February is not", 0 < sum(s.data_files for s in old) < before[0], True)
    cities = stage.lake.iceberg("demo.cities").table.scan().to_arrow().to_pylist()
    expected = {city: sum(CITIES[trip % len(CITIES)] == city for trip in fares_left()) for city in CITIES}
    stage.check_rows("trips by city in demo.cities", {row["city"]: row["trips"] for row in cities}, expected)


def report_path(folder: Path) -> Path:
    return folder / "report.html"


def report(stage: Stage) -> None:
    trips = stage.lake.iceberg("demo.trips")
    made = trips.make_report(arguments=["--warehouse", str(stage.folder / "lakehouse")])
    page = made.write(report_path(stage.folder))
    stage.say(f"wrote {page}: the table's partitions by spec, files, deletes, history")
    for step in made.steps:
        stage.say(f"it advises: {step.text}")
        if step.command:
            stage.say(f"  {step.command}")
    files = trips.table.scan().plan_files()
    facts = json.loads(json.dumps(made.to_dict(), default=str))
    stage.check("data files in the report", facts["totals"]["data_files"], len(list(files)))
