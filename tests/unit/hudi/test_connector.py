"""Which jar is used: by key, in package or cache; no JVM is started here."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from lakeshift.errors import StackError
from lakeshift.hudi import connector
from lakeshift.hudi.connector import PROPERTIES, Build
from lakeshift.stack import STACKS

SPARK35 = STACKS["3.5"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package without a checkout around it: two sources, no jar."""
    home = tmp_path / "lakeshift" / "hudi"
    (home / "jvm").mkdir(parents=True)
    (home / "jvm" / "B.scala").write_text("object B")
    (home / "jvm" / "A.scala").write_text("object A")
    monkeypatch.setattr(connector, "_PACKAGE", home)
    monkeypatch.setattr(connector, "_PACKAGED_SOURCES", home / "jvm")
    monkeypatch.setattr(connector, "_CHECKOUT_SOURCES", tmp_path / "nowhere")
    return home


def put_jar(path: Path, key: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(PROPERTIES, f"spark=3.5.9\nkey={key}\n")
    return path


def test_the_key_follows_sources_and_versions(package: Path) -> None:
    build = connector.wanted_build(SPARK35)
    assert [source.name for source in build.sources] == ["A.scala", "B.scala"]
    assert (build.spark_line, build.scala, build.hudi) == ("3.5", "2.12", "1.2.0")
    other_hudi = Build(build.sources, build.spark_line, build.scala, "1.3.0")
    key = build.key
    (package / "jvm" / "A.scala").write_text("object Changed")
    assert len({key, other_hudi.key, connector.wanted_build(SPARK35).key}) == 3


def test_the_packages_jar_is_used_when_it_was_built_from_these_sources(package: Path, tmp_path: Path) -> None:
    build = connector.wanted_build(SPARK35)
    packaged = put_jar(package / build.jar_name, build.key)
    assert connector.find_jar(SPARK35, cache=tmp_path / "cache") == packaged


def test_a_kept_jar_is_used_when_the_packages_is_of_other_sources(package: Path, tmp_path: Path) -> None:
    build = connector.wanted_build(SPARK35)
    put_jar(package / build.jar_name, "stale")
    kept = put_jar(tmp_path / "cache" / build.key / build.jar_name, build.key)
    assert connector.find_jar(SPARK35, cache=tmp_path / "cache") == kept


def test_without_jar_and_sources_the_remedy_is_named(package: Path) -> None:
    for source in (package / "jvm").iterdir():
        source.unlink()
    with pytest.raises(StackError, match="make wheel"):
        connector.find_jar(SPARK35)


def test_a_build_without_java_says_so(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StackError, match="Java was not found"):
        connector.find_jar(SPARK35, cache=tmp_path / "cache")


def test_the_wheel_step_without_java_says_so_and_goes_on(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(connector, "installed_stack", lambda: SPARK35)
    stale = put_jar(tmp_path / "wheel" / "stale.jar", "old")
    connector.main(tmp_path / "wheel")
    assert "The wheel gets no Hudi connector jar: Java was not found" in capsys.readouterr().err
    assert not stale.exists()


def test_the_other_line_is_refused(package: Path) -> None:
    with pytest.raises(
        StackError, match=r"Spark 4\.1 cannot read Hudi tables through DataSource V2; it needs Spark 3\.5"
    ):
        connector.find_jar(STACKS["4.1"])


def test_the_users_own_jars_stay_on_the_class_path(package: Path, tmp_path: Path) -> None:
    build = connector.wanted_build(SPARK35)
    packaged = put_jar(package / build.jar_name, build.key)
    settings = connector.session_settings(SPARK35, {"spark.jars": "/mine.jar"})
    assert settings == {"spark.jars": f"/mine.jar,{packaged}"}
