"""Chapter: many small files under two specs are compacted, first where they are, then into the newest spec."""

from __future__ import annotations

from lakeshift.demo.story import Stage

_ROWS, _WRITES = 120, 5


def compact(stage: Stage) -> None:
    lake, spark = stage.lake, stage.lake.spark
    readings = lake.create_iceberg_table(
        "demo.readings", "id bigint, at timestamp_ntz, station string, value double", partition_by=["month(at)"]
    )

    def put(part: int) -> None:
        rows = spark.range(part * _ROWS, (part + 1) * _ROWS, 1, 1).selectExpr(
            "id",
            "timestamp_ntz '2026-01-20 00:00:00' + make_interval(0, 0, 0, int(id % 20)) AS at",
            "concat('s', id % 3) AS station",
            "id % 17 / 2 AS value",
        )
        readings.append(rows)

    for part in range(_WRITES):
        put(part)
    readings.evolve_partitions(drop=["month(at)"], add=["station"])
    for part in range(_WRITES, 2 * _WRITES):
        put(part)
    deleted = readings.delete("id % 10 = 3", mode="merge-on-read").rows_deleted
    stage.say(f"demo.readings has small files under two specs, and {deleted} rows deleted by position")

    plan = readings.plan_rewrite(where="station = 's1'")
    stage.show(
        ["Spec", "Filter", "Detail", "Files left out", "Chosen"],
        [
            [
                spec.spec_id,
                spec.status.value,
                spec.detail,
                spec.files_excluded_by_partition + spec.files_excluded_by_metrics,
                spec.chosen,
            ]
            for spec in plan.specs
        ],
    )
    stage.say("planned for one station: each spec by its own partitions, and nothing was written")

    result = readings.rewrite_data_files()
    stage.say(
        f"compacted {result.rewritten_data_files} files into {result.added_data_files}, each within its spec; "
        f"{result.removed_delete_files} delete files had nothing left to delete and went in the same commit"
    )
    stage.check("groups that a second plan finds", len(readings.plan_rewrite().groups), 0)

    newest = readings.table.spec().spec_id
    moved = readings.rewrite_data_files(target_spec_id=newest)
    stage.say(f"moved {moved.rewritten_data_files} files to spec {newest}: {moved.added_data_files} are left")
    seen = readings.table.refresh().scan().to_arrow()
    stage.check("rows that PyIceberg reads", seen.num_rows, 2 * _WRITES * _ROWS - deleted)
    stage.check("specs that still have files", [s.spec_id for s in readings.layout() if s.data_files], [newest])
