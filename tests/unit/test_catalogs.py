"""Which catalog a name means, and what is said when it means none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeshift.catalogs import catalog_properties, embedded_file, load_catalog, properties_from_spark, redact
from lakeshift.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_configuration_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_the_default_is_an_sqlite_catalog_in_the_warehouse(tmp_path: Path) -> None:
    properties = catalog_properties("local", "lake")
    assert properties["warehouse"] == f"file://{tmp_path}/lake"
    assert embedded_file(properties) == tmp_path / "lake" / "catalog.db"


def test_given_properties_win() -> None:
    given = {"type": "rest", "uri": "http://127.0.0.1:1"}
    assert catalog_properties("local", "lake", given) == given


def test_a_name_from_pyicebergs_file_is_found(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  prod:\n    type: rest\n    uri: http://127.0.0.1:2\n")
    assert catalog_properties("prod", "lake")["uri"] == "http://127.0.0.1:2"


def test_a_name_from_the_environment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", "http://127.0.0.1:3")
    assert catalog_properties("prod", "lake")["uri"] == "http://127.0.0.1:3"


def test_an_unknown_name_is_refused_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", "http://127.0.0.1:3")
    with pytest.raises(
        ConfigError, match=r"no catalog named 'stage'; known here: local, prod.*PYICEBERG_CATALOG__STAGE"
    ):
        catalog_properties("stage", "lake")


def test_the_embedded_catalog_refuses_an_object_store() -> None:
    with pytest.raises(ConfigError, match="'s3://bucket/lake'.*pass properties"):
        catalog_properties("local", "s3://bucket/lake")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {
                "type": "jdbc",
                "uri": "jdbc:sqlite:file:/lake/catalog.db",
                "jdbc.schema-version": "V1",
                "warehouse": "file:///lake",
            },
            {"type": "sql", "uri": "sqlite:////lake/catalog.db?timeout=60", "warehouse": "file:///lake"},
        ),
        (
            {
                "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
                "uri": "jdbc:postgresql://db:5432/meta",
                "jdbc.user": "me",
                "jdbc.password": "p@ss/word",
            },
            {"type": "sql", "uri": "postgresql+psycopg://me:p%40ss%2Fword@db:5432/meta"},
        ),
        (
            {
                "type": "rest",
                "uri": "http://127.0.0.1:9",
                "token": "t",
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            },
            {"type": "rest", "uri": "http://127.0.0.1:9", "token": "t"},
        ),
        (
            {
                "catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog",
                "warehouse": "s3://b/w",
                "cache-enabled": "false",
            },
            {"type": "glue", "warehouse": "s3://b/w"},
        ),
        ({"uri": "thrift://h:9083"}, {"type": "hive", "uri": "thrift://h:9083"}),
        (
            {"type": "rest", "uri": "http://127.0.0.1:9", "s3.path-style-access": "true"},
            {
                "type": "rest",
                "uri": "http://127.0.0.1:9",
                "s3.path-style-access": "true",
                "s3.force-virtual-addressing": "false",
            },
        ),
    ],
)
def test_a_sessions_catalog_is_translated(settings: dict[str, str], expected: dict[str, str]) -> None:
    prefixed = {f"spark.sql.catalog.lake.{key}": value for key, value in settings.items()}
    assert properties_from_spark("lake", prefixed) == expected


def test_a_sessions_s3a_credentials_come_along_where_the_catalog_has_none() -> None:
    settings = {
        "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.s3.endpoint": "http://127.0.0.1:5",
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:6",
        "spark.hadoop.fs.s3a.access.key": "key",
        "spark.hadoop.fs.s3a.secret.key": "secret",
    }
    assert properties_from_spark("lake", settings) == {
        "type": "rest",
        "s3.endpoint": "http://127.0.0.1:5",
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"type": "hadoop"}, "type 'hadoop'.*rest, hive, glue, jdbc"),
        ({"type": "jdbc", "uri": "jdbc:oracle:thin:@h"}, "SQLite and PostgreSQL"),
    ],
)
def test_a_sessions_catalog_that_cannot_be_opened_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        properties_from_spark("lake", {f"spark.sql.catalog.lake.{key}": value for key, value in settings.items()})


def test_a_catalog_that_does_not_answer_is_named_without_its_password() -> None:
    uri = "postgresql+psycopg://me:secret@127.0.0.1:1/meta?connect_timeout=1"
    with pytest.raises(
        ConfigError, match=r"'prod' \(sql, postgresql\+psycopg://me:\*\*\*@127\.0\.0\.1:1/meta"
    ) as caught:
        load_catalog("prod", {"type": "sql", "uri": uri})
    assert "secret" not in str(caught.value)


def test_redaction_leaves_addresses_without_passwords_alone() -> None:
    assert redact("http://host:8181/x and s3://a:b@c/d") == "http://host:8181/x and s3://a:***@c/d"
