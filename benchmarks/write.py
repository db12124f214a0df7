"""Appending to partitioned Iceberg tables, beside Iceberg Java's ``df.writeTo().append()`` on the same Spark."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.harness import Case, Lab
from lakeshift.lake import Lake, connect

JAVA = "Iceberg Java"
# Spark keeps a catalog once it has used it, so that each benchmark needs a name of its own.
CATALOG = "bench_write"

_EVENTS = "id bigint, ts timestamp, region string, amount double, note string"
_EVENT_COLUMNS = (
    "id",
    "timestamp_micros(1700000000000000 + id * 10000) AS ts",
    "concat('r', pmod(hash(id), 40)) AS region",
    "rand(1) AS amount",
    "concat('note number ', pmod(id, 1000)) AS note",
)
_NESTED = "id bigint, region string, place struct<city string, at array<double>>, tags map<string, string>"
_NESTED_COLUMNS = (
    "id",
    "concat('r', pmod(hash(id), 40)) AS region",
    "named_struct('city', concat('c', pmod(id, 500)), 'at', array(rand(1), rand(2))) AS place",
    "map('kind', concat('k', pmod(id, 7)), 'source', 'sensor') AS tags",
)


# One of each kind of exchange, and one of each kind of row.
_TINY = ("40 partitions, none", "64 buckets of text, hash", "nested rows, hash")


@dataclass(frozen=True)
class Shape:
    """Rows of one form, and how the table that takes them is partitioned."""

    name: str
    rows: int
    schema: str
    columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    mode: str
    aim: float


def shapes(rows: int, buckets: int) -> Iterator[Shape]:
    yield Shape("40 partitions, hash", rows, _EVENTS, _EVENT_COLUMNS, ("region",), "hash", 1.5)
    yield Shape("40 partitions, none", rows, _EVENTS, _EVENT_COLUMNS, ("region",), "none", 1.5)
    yield Shape("1 partition, hash", rows, _EVENTS, _EVENT_COLUMNS, ("year(ts)",), "hash", 1.0)
    yield Shape("unpartitioned", rows, _EVENTS, _EVENT_COLUMNS, (), "none", 1.0)
    yield Shape(f"{buckets:,} buckets, hash", rows, _EVENTS, _EVENT_COLUMNS, (f"bucket({buckets}, id)",), "hash", 1.0)
    yield Shape("64 buckets of text, hash", rows, _EVENTS, _EVENT_COLUMNS, ("bucket(64, note)",), "hash", 1.0)
    wide = tuple(f"c{n}" for n in range(100))
    yield Shape(
        "102 columns, hash",
        rows // 20,
        f"id bigint, region string, {', '.join(f'{name} double' for name in wide)}",
        ("id", _EVENT_COLUMNS[2], *(f"rand({n}) AS {name}" for n, name in enumerate(wide))),
        ("region",),
        "hash",
        1.0,
    )
    yield Shape("nested rows, hash", rows // 4, _NESTED, _NESTED_COLUMNS, ("region",), "hash", 1.0)


def cases(lab: Lab) -> Iterator[Case]:
    (lab.folder / "lake").mkdir()
    lab.java_catalog(CATALOG, lab.folder / "lake")
    lake = connect(CATALOG, spark=lab.spark)
    chosen = shapes(8_000_000, 1_000)
    if lab.tiny:
        chosen = (shape for shape in shapes(2_000, 10) if shape.name in _TINY)
    for shape in chosen:
        yield _append(lab, lake, shape)


def _append(lab: Lab, lake: Lake, shape: Shape) -> Case:
    spark = lab.spark
    made = lab.folder / f"input-{abs(hash((shape.schema, shape.rows)))}"
    if not made.exists():
        spark.range(0, shape.rows, 1, 4).selectExpr(*shape.columns).write.parquet(str(made))
    numbers = itertools.count()
    current: dict[str, str] = {}

    def fresh(side: str) -> None:
        name = f"db.{side.lower().replace(' ', '_')}_{abs(hash(shape.name))}_{next(numbers)}"
        if side in current:
            lake.catalog.drop_table(current[side])
            shutil.rmtree(lab.folder / "lake" / "db" / current[side].split(".")[1])
        lake.create_iceberg_table(name, shape.schema, shape.partition_by, {"write.distribution-mode": shape.mode})
        current[side] = name

    def by_lakeshift() -> str:
        name = current["lakeshift"]
        lake.iceberg(name).append(spark.read.parquet(str(made)))
        return name

    def by_java() -> str:
        name = current[JAVA]
        spark.read.parquet(str(made)).writeTo(f"{CATALOG}.{name}").append()
        return name

    def same_rows(ours: str, peer: str) -> bool:
        return _fingerprint(spark, ours, shape) == _fingerprint(spark, peer, shape)

    return Case(
        f"append {shape.rows:,} rows, {shape.name}",
        ours=by_lakeshift,
        peers={JAVA: by_java},
        before=fresh,
        equal=same_rows,
        aim={JAVA: shape.aim},
        note=f"partitioned by {', '.join(shape.partition_by) or 'nothing'}",
    )


def _fingerprint(spark: Any, name: str, shape: Shape) -> tuple[int, int, int]:
    """Rows, a sum over their values and how many partitions they lie in, all as Iceberg Java reads them."""
    # Spark hashes no maps, so nested values are compared as their JSON.
    names = [column.rsplit(" AS ", 1)[-1] for column in shape.columns]
    values = ", ".join(f"to_json({name})" if name in ("place", "tags") else name for name in names)
    [row] = spark.sql(f"SELECT count(*), sum(pmod(xxhash64({values}), 1000003)) FROM {CATALOG}.{name}").collect()
    if not shape.partition_by:
        return int(row[0]), int(row[1]), 1
    [partitions] = spark.sql(f"SELECT count(DISTINCT partition) FROM {CATALOG}.{name}.files").collect()
    return int(row[0]), int(row[1]), int(partitions[0])
