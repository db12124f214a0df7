"""Which Iceberg catalog a name means: PyIceberg's configuration, the Spark session's, or an embedded one.

No Spark is imported here; a session, where there is one, is only asked for its settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakeshift.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

EMBEDDED = "local"
CATALOG_FILE = "catalog.db"

# Java's catalogs by their short type or class, and the name that PyIceberg gives to the same.
_TYPES = {
    "rest": "rest",
    "hive": "hive",
    "glue": "glue",
    "jdbc": "sql",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.jdbc.JdbcCatalog": "sql",
    "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog": "dynamodb",
}
# Settings that mean something to Iceberg's Java runtime alone.
_JAVA_ONLY = ("type", "catalog-impl", "io-impl", "cache-enabled", "cache.", "jdbc.", "default-namespace", "table-")
_S3A = {
    "spark.hadoop.fs.s3a.endpoint": "s3.endpoint",
    "spark.hadoop.fs.s3a.access.key": "s3.access-key-id",
    "spark.hadoop.fs.s3a.secret.key": "s3.secret-access-key",
    "spark.hadoop.fs.s3a.session.token": "s3.session-token",
    "spark.hadoop.fs.s3a.endpoint.region": "s3.region",
}


def catalog_properties(
    name: str,
    warehouse: str | Path,
    properties: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> dict[str, str]:
    """PyIceberg's properties of the catalog that the user means.

    In this order: the properties given, PyIceberg's own configuration (``.pyiceberg.yaml``,
    ``PYICEBERG_CATALOG__*``), the session's ``spark.sql.catalog.<name>.*``, and for the name
    ``local`` an SQLite catalog inside the warehouse folder.
    """
    if properties:
        return dict(properties)
    configured = _pyiceberg_catalogs()
    if name in configured:
        return dict(configured[name])
    in_session = _session_settings(spark, name) if spark is not None else {}
    if in_session:
        return properties_from_spark(name, in_session)
    if name == EMBEDDED:
        return embedded_properties(warehouse)
    known = ", ".join(sorted({*configured, EMBEDDED}))
    raise ConfigError(
        f"There is no catalog named {name!r}; known here: {known}. Describe it in .pyiceberg.yaml or in "
        f"PYICEBERG_CATALOG__{name.upper()}__URI, start Spark with spark.sql.catalog.{name}.*, or pass properties."
    )


def load_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """Open the catalog; what goes wrong is a ConfigError that shows the address but no secret."""
    from pyiceberg.catalog import load_catalog as load

    try:
        return load(name, **properties)
    except Exception as error:  # each kind of catalog fails in a way of its own
        address = redact(properties.get("uri", "no uri"))
        # What follows the first line is the statement that failed and where to read on, which help nobody here.
        what = redact(str(error)).partition("\n[SQL: ")[0].partition("\n(Background on")[0].rstrip(".")
        file = embedded_file(properties)
        remedy = (
            "Check its uri and credentials."
            if file is None
            else f"Check that {file} is an SQLite file that a catalog was made in, and that it may be read and written."
        )
        raise ConfigError(
            f"The catalog {name!r} ({properties.get('type', 'type not given')}, {address}) cannot be opened: "
            f"{what}. {remedy}"
        ) from error


def load_catalog_to_read(name: str, properties: Mapping[str, str]) -> Catalog:
    """Open the catalog to look into it: quickly, if it is an SQLite file; nothing can be written through that."""
    import sqlite3

    file = embedded_file(properties)
    if file is not None and not properties.get("py-catalog-impl"):
        from lakeshift.embedded_reader import EmbeddedReader

        try:
            return EmbeddedReader(name, file, properties)
        except sqlite3.Error:
            pass  # PyIceberg makes a catalog of an empty file, or says what is wrong with another.
    return load_catalog(name, properties)


def embedded_properties(warehouse: str | Path) -> dict[str, str]:
    """An SQLite catalog in the warehouse folder; Iceberg's Java runtime can share it."""
    text = str(warehouse)
    if re.match(r"^[A-Za-z][A-Za-z0-9+.-]+:", text) and not text.startswith("file:"):
        raise ConfigError(
            f"The embedded catalog needs a folder of this machine as its warehouse, not {text!r}. "
            "For an object store name a catalog of yours, or pass properties with its uri."
        )
    folder = Path(re.sub(r"^file:/*", "/", text)).absolute()
    return {
        "type": "sql",
        # Writers queue for SQLite's one lock instead of failing at once.
        "uri": f"sqlite:///{folder / CATALOG_FILE}?timeout=60",
        "warehouse": f"file://{folder}",
    }


def embedded_file(properties: Mapping[str, str]) -> Path | None:
    """The file of an SQLite catalog; None for every other kind."""
    match = re.fullmatch(r"sqlite:///(.+?)(?:\?.*)?", properties.get("uri", ""))
    return Path(match.group(1)) if match and ":memory:" not in match.group(1) else None


def properties_from_spark(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg's properties from a session's ``spark.sql.catalog.<name>.*`` and ``fs.s3a.*`` settings."""
    prefix = f"spark.sql.catalog.{name}."
    given = {key[len(prefix) :]: value for key, value in settings.items() if key.startswith(prefix)}
    kind = given.get("type") or given.get("catalog-impl") or "hive"
    if kind not in _TYPES:
        raise ConfigError(
            f"The session's catalog {name!r} is of type {kind!r}, which PyIceberg cannot open; "
            f"it knows rest, hive, glue, jdbc and dynamodb. Pass properties of a catalog that serves the same tables."
        )
    derived = {key: value for key, value in given.items() if not key.startswith(_JAVA_ONLY)}
    for theirs, ours in _S3A.items():
        if theirs in settings:
            derived.setdefault(ours, settings[theirs])
    if given.get("s3.path-style-access") == "true":
        derived.setdefault("s3.force-virtual-addressing", "false")
    derived["type"] = _TYPES[kind]
    if derived["type"] == "sql":
        derived["uri"] = _sqlalchemy_uri(name, given)
    return derived


def redact(text: str) -> str:
    """An address or message without the password that it may carry."""
    text = re.sub(r"://([^/\s:@]*):[^\s'\"]+@", r"://\1:***@", text)
    return re.sub(r"(?i)([?&;](?:password|passwd|pwd|token|secret|sslpassword)=)[^&;\s'\"]+", r"\1***", text)


def _sqlalchemy_uri(name: str, given: Mapping[str, str]) -> str:
    uri = given.get("uri", "")
    if sqlite := re.fullmatch(r"jdbc:sqlite:(?:file:)?(/.+?)(?:\?.*)?", uri):
        return f"sqlite:///{sqlite.group(1)}?timeout=60"
    if server := re.fullmatch(r"jdbc:postgresql://(.+)", uri):
        user, password = given.get("jdbc.user", ""), given.get("jdbc.password", "")
        login = f"{quote(user, safe='')}{':' + quote(password, safe='') if password else ''}@" if user else ""
        return f"postgresql+psycopg://{login}{server.group(1)}"
    raise ConfigError(
        f"The session's catalog {name!r} uses {redact(uri)!r}; of JDBC catalogs lakeshift derives SQLite and "
        "PostgreSQL. For another database pass properties with a SQLAlchemy uri."
    )


def _session_settings(spark: SparkSession, name: str) -> dict[str, str]:
    if spark.conf.get(f"spark.sql.catalog.{name}", None) is None:
        return {}
    wanted = [
        str(row[0])
        for row in spark.sql("SET").collect()
        if str(row[0]).startswith(f"spark.sql.catalog.{name}.") or str(row[0]) in _S3A
    ]
    # SET shows secrets as stars; asking for each key gives its value.
    return {key: str(spark.conf.get(key)) for key in wanted}


def _pyiceberg_catalogs() -> dict[str, dict[str, str]]:
    from pyiceberg.utils.config import Config

    found: Any = Config().config.get("catalog") or {}
    return {str(name): dict(settings) for name, settings in found.items() if isinstance(settings, dict)}
