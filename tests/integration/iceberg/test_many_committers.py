"""Sixteen committer processes on one table: everything lands or fails cleanly, nothing is lost, doubled or left."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform

from tests.committer import Report, work
from tests.conftest import FULL
from tests.postgresql import NOT_INSTALLED, postgresql_server, server_programs
from tests.tables import EVENTS, files_under, ids, referenced_files

pytestmark = pytest.mark.plain

COMMITTERS = 16
COMMITS = 30 if FULL else 1

PATIENT = {
    "commit.retry.num-retries": "1000",
    "commit.retry.min-wait-ms": "5",
    "commit.retry.max-wait-ms": "400",
    "commit.manifest.min-count-to-merge": "10",
    # Old metadata files stay on disk, so that all of them can be accounted for.
    "write.metadata.previous-versions-max": "100000",
}
IMPATIENT = {**PATIENT, "commit.retry.num-retries": "1", "commit.retry.max-wait-ms": "5"}


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/catalog.db"
        return
    programs = server_programs()
    if programs is None:
        pytest.skip(NOT_INSTALLED)
    with postgresql_server(programs) as server:
        yield server


def run_committers(address: str, warehouse: Path, properties: dict[str, str]) -> tuple[Table, list[Report], SqlCatalog]:
    settings: dict[str, Any] = {"name": "lake", "uri": address, "warehouse": f"file://{warehouse}/lake"}
    catalog = SqlCatalog(**settings)
    catalog.create_namespace("db")
    spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))
    table = catalog.create_table("db.events", EVENTS, partition_spec=spec, properties=properties)
    with table.update_spec() as update:
        update.add_identity("region")
    # A fork server imports everything once; the committers are processes all the same.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.committer"])
    gate, reports = context.Barrier(COMMITTERS), context.Queue()
    workers = [
        context.Process(target=work, args=(number, COMMITS, settings, gate, reports)) for number in range(COMMITTERS)
    ]
    for worker in workers:
        worker.start()
    found = [reports.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    reports.close()
    reports.join_thread()
    return catalog.load_table("db.events"), found, catalog


def check(table: Table, reports: list[Report]) -> None:
    assert [error for report in reports for error in report.errors] == []
    assert ids(table) == sorted(number for report in reports for number in report.ids)
    assert len(table.snapshots()) == sum(report.landed for report in reports)
    numbers = [snapshot.sequence_number for snapshot in table.snapshots()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert files_under(table.location()) == referenced_files(table)
    totals = table.current_snapshot().summary
    files = table.inspect.files().to_pylist()
    assert int(totals["total-data-files"]) == sum(file["content"] == 0 for file in files)
    assert int(totals["total-delete-files"]) == sum(file["content"] == 1 for file in files)
    assert int(totals["total-records"]) == sum(file["record_count"] for file in files if file["content"] == 0)


def test_patient_committers_all_land(address: str, tmp_path: Path) -> None:
    table, reports, catalog = run_committers(address, tmp_path, PATIENT)
    try:
        assert sum(report.landed for report in reports) == COMMITTERS * COMMITS
        check(table, reports)
    finally:
        catalog.close()


def test_impatient_committers_land_or_fail_cleanly(address: str, tmp_path: Path) -> None:
    table, reports, catalog = run_committers(address, tmp_path, IMPATIENT)
    try:
        landed, refused = sum(r.landed for r in reports), sum(r.refused for r in reports)
        assert landed + refused == COMMITTERS * COMMITS
        assert landed > 0
        assert refused > 0
        check(table, reports)
    finally:
        catalog.close()
