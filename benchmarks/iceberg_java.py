"""Iceberg's Java runtime as a peer of lakeshift: what a session needs to have it, for benchmarks and tests alike."""

from __future__ import annotations

from pathlib import Path

SQLITE_JDBC = "org.xerial:sqlite-jdbc:3.46.1.3"
EXTENSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def catalog_settings(name: str, warehouse: Path) -> dict[str, str]:
    """Settings by which Java uses the SQLite catalog of a warehouse folder; PyIceberg must know it by the same name."""
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": f"jdbc:sqlite:file:{warehouse}/catalog.db",
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.warehouse": f"file://{warehouse}",
        f"{prefix}.cache-enabled": "false",
    }
