"""Commands that start Spark, as processes of their own: each costs a JVM, so that they are few."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakeshift.stack import Stack
from tests.command import run


def test_doctor_is_well_and_names_this_stack(stack: Stack, tmp_path: Path) -> None:
    told = run("doctor", "--json", "--warehouse", str(tmp_path))
    findings = json.loads(told.stdout)
    assert told.returncode == 0, told.stdout
    assert {
        finding["subject"]: finding["status"] for finding in findings if finding["subject"] != "Jar for hudi"
    } == dict.fromkeys(("Python", "lakeshift", "Spark", "Java", "Jar for iceberg", "Jar for delta"), "ok") | {
        "Session": "ok",
        "Executors": "ok",
        "Catalog": "ok",
    }
    assert any(stack.spark in finding["detail"] for finding in findings if finding["subject"] == "Spark")


@pytest.mark.once
def test_a_jar_that_cannot_be_had_is_named() -> None:
    program = (
        "from lakeshift.cli.quiet import quiet_jvm\n"
        "from lakeshift.spark.session import build_session\n"
        "with quiet_jvm():\n"
        "    build_session(('iceberg',), packages=['org.example:no-such-jar:1.0'])\n"
    )
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert failed.returncode == 1
    assert "StackError: Spark" in failed.stderr
    assert "check that the machine reaches a Maven repository for org.example:no-such-jar:1.0" in failed.stderr
    assert "unresolved dependency: org.example#no-such-jar;1.0: not found" in failed.stderr
