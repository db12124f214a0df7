"""The jar: its version check, a wheel that carries it, and a session that it does not fit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lakeshift.errors import StackError
from lakeshift.hudi import connector
from lakeshift.hudi.connector import PROPERTIES, check_connector, find_jar
from lakeshift.stack import Stack

ROOT = Path(__file__).parents[3]
UV = ROOT / ".tools" / "bin" / "uv"


@pytest.mark.parametrize(
    ("spark_version", "hudi_version", "told"),
    [
        ("3.5.9", "1.2.0", ""),
        ("3.5.1", "1.2.1", ""),
        ("3.5.5-amzn-1", "1.2.0-amzn-0", ""),
        ("3.4.4", "1.2.0", r"built for Spark 3\.5\.\d+ and the session runs Spark 3\.4\.4"),
        ("4.1.4", "1.2.0", "the session runs Spark 4.1.4"),
        ("3.5.9", "1.1.1", "built for Hudi 1.2.0 and the session runs Hudi 1.1.1"),
    ],
)
def test_patch_levels_and_vendor_suffixes_fit_and_other_lines_do_not(
    spark: Any, spark_version: str, hudi_version: str, told: str
) -> None:
    mismatch = spark.sparkContext._jvm.io.lakeshift.hudi.BuiltFor.mismatch(spark_version, hudi_version)
    assert bool(mismatch) == bool(told)
    assert re.search(told, mismatch)


def test_a_session_of_the_stack_passes_the_check(spark: Any) -> None:
    check_connector(spark)


def test_a_session_without_the_extension_is_refused(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "EXTENSION", "org.example.Another")
    with pytest.raises(StackError, match=r"org\.example\.Another is not among the session's spark\.sql\.extensions"):
        check_connector(spark)


def test_a_jar_is_built_once_for_its_sources(stack: Stack) -> None:
    jar = find_jar(stack)
    assert connector.built_key(jar) == connector.wanted_build(stack).key
    built = jar.stat().st_mtime_ns
    assert find_jar(stack).stat().st_mtime_ns == built


@pytest.mark.skipif(not UV.exists(), reason="the wheel is built with the uv that make installs")
def test_the_wheel_carries_the_jar_and_uses_it(stack: Stack, tmp_path: Path) -> None:
    connector.main(ROOT / "build" / "wheel")
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", tmp_path, ROOT], check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    ask = (
        "from lakeshift.hudi.connector import find_jar\n"
        "from lakeshift.stack import installed_stack\n"
        "print(find_jar(installed_stack()))"
    )
    # Without Java on its way, so that a jar can only be found and not built.
    environment = {**os.environ, "PYTHONPATH": str(installed), "JAVA_HOME": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", ask], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert Path(found.stdout.strip()) == installed / "lakeshift" / "hudi" / find_jar(stack).name


@pytest.mark.full
def test_a_jar_for_another_line_stops_the_session_with_a_stack_error(stack: Stack, tmp_path: Path) -> None:
    """In a process of its own: this test's session is up already."""
    wrong = tmp_path / "wrong.jar"
    with zipfile.ZipFile(find_jar(stack)) as good, zipfile.ZipFile(wrong, "w") as bad:
        for entry in good.namelist():
            content = good.read(entry)
            bad.writestr(entry, content.replace(b"spark=3.5.", b"spark=3.4.") if entry == PROPERTIES else content)
    script = (
        "from lakeshift.hudi import connector\n"
        "from lakeshift.spark.session import build_session\n"
        f"connector.find_jar = lambda stack: {str(wrong)!r}\n"
        "build_session(['hudi'], master='local[1]')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "StackError" in done.stderr
    assert "the connector was built for Spark 3.4.9 and the session runs Spark 3.5.9" in done.stderr


@pytest.mark.full
def test_a_build_from_scratch_makes_the_same_classes(stack: Stack, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    fresh = find_jar(stack, cache=tmp_path / "cache")
    with zipfile.ZipFile(fresh) as ours, zipfile.ZipFile(find_jar(stack)) as kept:
        assert sorted(ours.namelist()) == sorted(kept.namelist())
