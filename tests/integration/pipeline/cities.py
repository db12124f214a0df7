"""A pipeline with a step of every kind, and its tables as plain rows. Used by tests and by the process they kill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import lakeshift
from lakeshift.pipeline.runner import PipelineResult
from tests.command import valid

# Reads a table that it writes itself: a run that is resumed must not see its own rows in it.
PIPELINE = """\
name: cities
lake: {warehouse: ./lake}
read:
  arrivals:
    format: csv
    path: in/*.csv
    schema: id bigint, city string, amount double
  known:
    format: iceberg
    table: db.raw
transform:
  counted:
    sql: SELECT city, count(*) AS times, (SELECT count(*) FROM known) AS known_before FROM arrivals GROUP BY city
  keyed:
    sql: SELECT * FROM arrivals WHERE id IS NOT NULL
write:
  landing:
    format: delta
    from: arrivals
    path: ./lake/landing
  raw:
    format: iceberg
    mode: append
    from: arrivals
    table: db.raw
    quarantine: ./bad
  latest:
    format: iceberg
    mode: merge
    from: keyed
    table: db.latest
    on: target.id = source.id
    clauses:
      - {when: matched, then: update, set: {amount: target.amount + source.amount}}
      - {when: not-matched, then: insert}
  totals:
    format: iceberg
    mode: overwrite
    partitions: dynamic
    from: counted
    table: db.totals
    create: {partition_by: [city]}
maintain:
  compact:
    table: db.raw
    options: {min-input-files: 2}
"""
STEPS = ["write.landing", "write.raw", "write.latest", "write.totals", "maintain.compact"]


def make(folder: Path) -> Path:
    """The pipeline's file, its input and the tables that it expects."""
    (folder / "in").mkdir(parents=True)
    for number in range(3):
        lines = [f"{n},c{n % 3},{n * 0.5}" for n in range(number * 20, number * 20 + 20)]
        (folder / "in" / f"{number}.csv").write_text("\n".join(["id,city,amount", *lines, ",c9,1.0", ""]))
    lake = lakeshift.connect(warehouse=folder / "lake")
    columns = "id bigint not null, city string, amount double"
    lake.create_iceberg_table("db.raw", columns, ["city"])
    lake.create_iceberg_table("db.latest", columns.replace(" not null", ""), ["bucket(2, id)"])
    file = folder / "cities.yaml"
    file.write_text(PIPELINE)
    return file


def go_on(file: Path, spark: Any = None) -> PipelineResult:
    """Resume the last run, or begin one."""
    from lakeshift.pipeline.runner import open_pipeline

    opened = open_pipeline(file, spark=spark)
    last = opened.state.last_run()
    result = opened.run(resume=last is not None and last.is_open)
    valid("run", json.loads(json.dumps(result.to_dict())))
    return result


def tables(folder: Path, spark: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all tables, Iceberg's by PyIceberg and Delta's by Delta, and those in quarantine."""
    catalog = lakeshift.connect(warehouse=folder / "lake").catalog
    found = {}
    for name in sorted(identifier[-1] for identifier in catalog.list_tables("db")):
        rows = catalog.load_table(f"db.{name}").scan().to_arrow().to_pylist()
        found[name] = sorted(tuple(row.values()) for row in rows)
    catalog.engine.dispose()  # type: ignore[attr-defined]
    landing = spark.read.format("delta").load(str(folder / "lake" / "landing")).collect()
    found["landing"] = sorted((row["id"] is None, row["id"] or 0, row["city"], row["amount"]) for row in landing)
    bad = [pq.read_table(file).to_pylist() for file in sorted((folder / "bad").glob("**/*.parquet"))]
    found["bad"] = sorted((row["city"], row["amount"], row["_column"]) for rows in bad for row in rows)
    return found
