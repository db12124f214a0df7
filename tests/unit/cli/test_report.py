"""``lakeshift report`` as people and programs call it: as a process, without a JVM."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import DayTransform

import lakeshift
from lakeshift.iceberg.commit.change_set import append_change
from lakeshift.iceberg.commit.commit import commit
from tests.command import NO_JAVA, printed, refused, run, told
from tests.tables import EVENTS, data_file, events, local_catalog


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six small files of one day."""
    folder = tmp_path_factory.mktemp("report") / "lake"
    table = local_catalog(folder, "local").create_table(
        "db.events", EVENTS, partition_spec=PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))
    )
    commit(table, append_change(table.metadata, [data_file(table, events(1, first=n)) for n in range(6)]))
    return str(folder)


def test_a_page_is_written_and_its_advice_is_told(warehouse: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    shown = told("report", "db.events", "-o", str(page), "--warehouse", warehouse, **NO_JAVA)
    first, *steps = shown.splitlines()
    assert first.startswith(f"Wrote {page} (")
    assert "6 data files and 0 delete files in 1 partitions" in first
    assert steps == [
        "- 6 small files in 1 partition of spec 0: a rewrite would make 1 of them.",
        f"  lakeshift rewrite run db.events --warehouse {warehouse}",
    ]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_command_that_is_advised_plans_what_the_report_says(warehouse: str) -> None:
    [step] = printed("report", "db.events", "--warehouse", warehouse, **NO_JAVA)["next_steps"]
    program, *words = shlex.split(step["command"])
    assert (program, words[:2]) == ("lakeshift", ["rewrite", "run"])
    accepted = run(*words, "--help", **NO_JAVA)
    assert accepted.returncode == 0
    plan = printed("rewrite plan", *words[2:], **NO_JAVA)
    assert (plan["input_files"], plan["expected_output_files"]) == (6, 1)
    assert step["text"] == "6 small files in 1 partition of spec 0: a rewrite would make 1 of them."


def test_json_gives_the_facts_alone_or_beside_the_page(warehouse: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    facts = printed("report", "db.events", "--warehouse", warehouse, **NO_JAVA)
    assert facts == printed("report", "db.events", "-o", str(page), "--warehouse", warehouse, **NO_JAVA)
    assert page.exists()
    assert facts["totals"]["data_files"] == 6
    [partition] = facts["partitions"]
    assert (partition["partition"], partition["files"]) == ({"ts_day": "2026-01-01"}, 6)
    assert [step["kind"] for step in facts["next_steps"]] == ["compact"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["db.events", "-o", "/nonexistent/x.html"], 1, "There is no folder /nonexistent"),
        (["db.events", "-o", "/dev/stdout"], 1, "/dev/stdout is not a file that a report could replace"),
        (["db.events", "-o", "/proc/x.html"], 1, "The report cannot be written to /proc/x.html: "),
        (["db.events", "-o", "x.html", "--branch", "audit"], 1, "has no branch 'audit'; it has main"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(
    warehouse: str, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    places = [str(tmp_path / word) if word == "x.html" else word for word in arguments]
    refused("report", *places, "--warehouse", warehouse, saying=said, code=code, **NO_JAVA)
    assert list(tmp_path.iterdir()) == []


def test_the_python_call_writes_the_same_page(warehouse: str, tmp_path: Path) -> None:
    table = lakeshift.connect(warehouse=warehouse).iceberg("db.events")
    report = table.report(tmp_path / "report.html", branch="main")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert report.steps[0].command == "lakeshift rewrite run db.events --branch main"
