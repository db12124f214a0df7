"""Compacting a table of two specs, beside Iceberg Java's `rewrite_data_files` with `rewrite-all` on the same Spark.

Java always writes the default spec; we keep each file's own unless told otherwise, so that both ways of ours stand
beside the same work of Java's. Both sides start from the same files: their tables are rolled back before each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness import OURS, Case, Lab
from lakeshift.lake import Lake, connect

JAVA = "Iceberg Java"
_CATALOG = "rewrite_bench"
_COLUMNS = "id BIGINT, ts TIMESTAMP, region STRING, amount DOUBLE, note STRING"
_ROWS = (
    "SELECT id, timestamp_micros(1767225600000000 + pmod(id, {days}) * 86400000000) AS ts, "
    "concat('r', pmod(hash(id), {days})) AS region, rand(1) AS amount, substr(sha2(string(id), 256), 1, 24) AS note "
    "FROM range({first}, {last}, 1, {tasks})"
)


@dataclass
class _Subject:
    """One side's table, and the snapshot that each run starts from."""

    spark: Any
    name: str
    base: dict[str, int] = field(default_factory=dict)

    @property
    def qualified(self) -> str:
        return f"{_CATALOG}.{self.name}"

    def sql(self, text: str) -> list[Any]:
        rows: list[Any] = self.spark.sql(text.format(table=self.qualified)).collect()
        return rows

    def make(self, rows: int, tasks: int, days: int) -> None:
        """Half of the rows by day, the other half by region; each task writes a file for each of them."""
        self.sql(
            f"CREATE TABLE {{table}} ({_COLUMNS}) USING iceberg PARTITIONED BY (days(ts)) TBLPROPERTIES ("
            "'format-version'='2', 'write.distribution-mode'='none', 'write.spark.fanout.enabled'='true', "
            "'write.delete.mode'='merge-on-read', 'write.delete.distribution-mode'='none')"
        )
        for half in (0, 1):
            if half:
                self.sql("ALTER TABLE {table} REPLACE PARTITION FIELD days(ts) WITH region")
            chosen = _ROWS.format(first=half * rows // 2, last=(half + 1) * rows // 2, tasks=tasks, days=days)
            self.sql(f"INSERT INTO {{table}} {chosen}")
        self.remember("whole")

    def delete_some(self) -> None:
        self.sql("DELETE FROM {table} WHERE pmod(id, 10) = 3")
        self.remember("with deletes")

    def remember(self, state: str) -> None:
        [row] = self.sql("SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 1")
        self.base[state] = row.snapshot_id

    def reset(self, state: str) -> None:
        self.sql(f"CALL {_CATALOG}.system.set_current_snapshot('{self.name}', {self.base[state]})")

    def fingerprint(self) -> tuple[int, int]:
        """Rows and a sum over their values, as Iceberg Java reads them."""
        values = ", ".join(column.split()[0] for column in _COLUMNS.split(", "))
        [row] = self.sql(f"SELECT count(*), sum(pmod(xxhash64({values}), 1000003)) FROM {{table}}")
        return int(row[0]), int(row[1])


def cases(lab: Lab) -> Iterator[Case]:
    (lab.folder / "lake").mkdir()
    lab.java_catalog(_CATALOG, lab.folder / "lake")
    lake = connect(_CATALOG, spark=lab.spark)
    lab.spark.sql(f"CREATE NAMESPACE {_CATALOG}.db")
    rows, tasks, days = (4_000, 2, 3) if lab.tiny else (8_000_000, 10, 20)
    subjects = {OURS: _Subject(lab.spark, "db.ours"), JAVA: _Subject(lab.spark, "db.java")}
    for subject in subjects.values():
        subject.make(rows, tasks, days)
    files = 2 * tasks * days
    yield _case(lake, subjects, f"{rows:,} rows in {files} files, specs kept", "whole", None, 5.0)
    yield _case(lake, subjects, f"{rows:,} rows in {files} files, moved to the default spec", "whole", 1, 3.0)
    for subject in subjects.values():
        subject.reset("whole")
        subject.delete_some()
    yield _case(lake, subjects, f"{rows:,} rows, a tenth deleted, specs kept", "with deletes", None, 5.0)
    yield _case(lake, subjects, f"{rows:,} rows, a tenth deleted, moved to the default spec", "with deletes", 1, 3.0)


def _case(
    lake: Lake, subjects: dict[str, _Subject], name: str, state: str, target_spec_id: int | None, aim: float
) -> Case:
    def by_lakeshift() -> _Subject:
        lake.iceberg(subjects[OURS].name).rewrite_data_files(rewrite_all=True, target_spec_id=target_spec_id)
        return subjects[OURS]

    def by_java() -> _Subject:
        subjects[JAVA].sql(
            f"CALL {_CATALOG}.system.rewrite_data_files(table => '{subjects[JAVA].name}', "
            "options => map('rewrite-all', 'true'))"
        )
        return subjects[JAVA]

    return Case(
        name,
        by_lakeshift,
        {JAVA: by_java},
        before=lambda side: subjects[side].reset(state),
        equal=lambda ours, peer: ours.fingerprint() == peer.fingerprint(),
        aim={JAVA: aim},
        note="Java writes the default spec in any case",
    )
