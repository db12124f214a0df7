"""DELETE, UPDATE and MERGE of an evolved Iceberg table, beside Iceberg Java's SQL on the same Spark.

One table of two specs; before each call it is set back to the snapshot that it had at first. All is merge-on-read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.harness import Case, Lab
from lakeshift.lake import connect

JAVA = "Iceberg Java"

_SCHEMA = "id bigint, ts timestamp, region string, grp int, amount double, note string"
_COLUMNS = (
    "id",
    "timestamp_micros(1700000000000000 + id * 10000) AS ts",
    "concat('r', pmod(hash(id), 20)) AS region",
    "pmod(hash(id, 7), 50) AS grp",
    "rand(1) AS amount",
    "concat('note number ', pmod(id, 1000)) AS note",
)


def cases(lab: Lab) -> Iterator[Case]:
    rows, merged = (4_000, 100) if lab.tiny else (8_000_000, 100_000)
    (lab.folder / "lake").mkdir()
    lab.java_catalog("bench_dml", lab.folder / "lake")
    spark = lab.spark
    lake = connect("bench_dml", spark=spark)
    modes = {f"write.{operation}.mode": "merge-on-read" for operation in ("delete", "update", "merge")}
    events = lake.create_iceberg_table("db.events", _SCHEMA, ["region"], modes)
    events.append(spark.range(0, rows // 2, 1, 4).selectExpr(*_COLUMNS))
    events.evolve_partitions(drop=["region"], add=["bucket(8, id)"])
    events.append(spark.range(rows // 2, rows, 1, 4).selectExpr(*_COLUMNS))
    start = events.table.metadata.current_snapshot_id
    changes = lab.folder / "changes"
    # Nine of ten match a row, spread over the whole table.
    spark.range(0, merged, 1, 2).selectExpr(
        f"if(id % 10 = 0, id + {rows}, id * {rows // merged}) AS id", "-1.0D AS amount", "'merged' AS note"
    ).write.parquet(str(changes))

    def reset(_: str) -> None:
        spark.sql(f"CALL bench_dml.system.set_current_snapshot('db.events', {start})").collect()

    def after(change: Callable[[], object]) -> Callable[[], int]:
        def run() -> int:
            change()
            return int(lake.iceberg("db.events").table.metadata.current_snapshot_id or 0)

        return run

    def same_rows(ours: int, peer: int) -> bool:
        return fingerprint(ours) == fingerprint(peer)

    def fingerprint(snapshot: int) -> tuple[int, int]:
        # Not by VERSION AS OF: Hudi's extension, which the session has as well, takes that for its own.
        frame = spark.read.format("iceberg").option("snapshot-id", snapshot).load("bench_dml.db.events")
        [row] = frame.selectExpr(
            "count(*)", "sum(pmod(xxhash64(id, ts, region, grp, amount, note), 1000003))"
        ).collect()
        return int(row[0]), int(row[1])

    def case(name: str, ours: Callable[[], object], sql: str, aim: float) -> Case:
        return Case(
            name,
            ours=after(ours),
            peers={JAVA: after(lambda: spark.sql(sql).collect())},
            before=reset,
            equal=same_rows,
            aim={JAVA: aim},
            note=f"{rows:,} rows, half by region, half by bucket(8, id); merge-on-read",
        )

    yield case(
        "DELETE of 2% by a plain predicate",
        lambda: events.delete("grp = 7"),
        "DELETE FROM bench_dml.db.events WHERE grp = 7",
        2.5,
    )
    yield case(
        "UPDATE of 2%",
        lambda: events.update({"amount": "amount + 1"}, "grp = 7"),
        "UPDATE bench_dml.db.events SET amount = amount + 1 WHERE grp = 7",
        2.0,
    )
    spark.read.parquet(str(changes)).createOrReplaceTempView("bench_changes")
    yield case(
        f"MERGE of {merged:,} rows",
        lambda: (
            events.merge(spark.read.parquet(str(changes)), "target.id = source.id")
            .when_matched_update({"amount": "source.amount", "note": "source.note"})
            .when_not_matched_insert({"id": "source.id", "amount": "source.amount", "note": "source.note"})
            .execute()
        ),
        "MERGE INTO bench_dml.db.events AS target USING bench_changes AS source ON target.id = source.id "
        "WHEN MATCHED THEN UPDATE SET amount = source.amount, note = source.note "
        "WHEN NOT MATCHED THEN INSERT (id, amount, note) VALUES (source.id, source.amount, source.note)",
        1.5,
    )
