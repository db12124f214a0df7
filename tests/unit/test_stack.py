"""The stacks as data, and the Java that they need."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from lakeshift.errors import ConfigError, StackError
from lakeshift.stack import STACKS, Capability, Java, find_java, installed_stack, require_java, stack_of


@pytest.mark.parametrize("version", ["3.5", "3.5.0", "3.5.9", "3.5.5-amzn-1", "3.5.2.dev0", "3.5.1-SNAPSHOT"])
def test_patch_versions_and_vendor_suffixes_are_of_their_line(version: str) -> None:
    assert stack_of(version) is STACKS["3.5"]


@pytest.mark.parametrize("version", ["3.4.1", "4.0.0", "4.10.1", "3.50", "", "next"])
def test_other_lines_are_refused_by_name(version: str) -> None:
    with pytest.raises(StackError, match="3.5.9 and 4.1.4") as caught:
        stack_of(version)
    assert version in str(caught.value)


def test_iceberg_needs_no_package() -> None:
    assert STACKS["3.5"].packages(("iceberg",)) == ()


def test_hudi_on_spark_4_is_refused_with_the_line_that_has_it() -> None:
    with pytest.raises(StackError, match=r"no bundle for Spark 4\.1.*Spark 3\.5"):
        STACKS["4.1"].packages(("iceberg", "hudi"))


def test_an_unknown_format_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="'paimon'.*iceberg, delta, hudi"):
        STACKS["3.5"].packages(("paimon",))


def test_a_missing_capability_names_the_stack_that_has_it() -> None:
    STACKS["4.1"].require(Capability.DELTA_WIDEN_ALL)
    with pytest.raises(StackError, match=r"Spark 3\.5 cannot widen integers to long.*needs Spark 4\.1"):
        STACKS["3.5"].require(Capability.DELTA_WIDEN_ALL)


def test_without_pyspark_the_error_prints_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(StackError, match=r"pip install 'lakeshift\[spark35\]'"):
        installed_stack()


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("1.8.0_412", 8), ("21", 21), ("22-ea", 22)])
def test_java_versions_are_read_in_both_spellings(version: str, major: int) -> None:
    assert Java(Path("java"), version).major == major


def test_a_wrong_java_is_refused_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_java(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java().version == "11.0.2"
    with pytest.raises(StackError, match=r"needs Java 17.*is Java 11\.0\.2.*JAVA_HOME"):
        require_java(STACKS["3.5"])


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(StackError, match=r"nothing'.*Install a Java 17"):
        find_java()


def test_no_java_at_all_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="no java on PATH.*Install a Java 17"):
        find_java()


def test_a_java_that_says_nonsense_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_java(tmp_path, "hello")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StackError, match="'hello'"):
        find_java()


def _fake_java(home: Path, says: str) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
