"""The embedded catalog as its reader sees it, beside PyIceberg's own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from lakeshift.catalogs import embedded_properties, load_catalog_to_read
from lakeshift.embedded_reader import EmbeddedReader
from lakeshift.errors import ConfigError
from lakeshift.lake import Lake
from tests.tables import EVENTS, data_file, events, local_catalog


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tables at two levels, one whose name is a pattern of SQL, a view as Java keeps it, and an empty namespace."""
    folder = tmp_path / "a lake of 'ours'"
    catalog = local_catalog(folder, "local")
    for name in ("db", "db.inner", "d_", "empty"):
        catalog.create_namespace_if_not_exists(name)
    for name in ("db.events", "db.inner.events", "d_.events", "db.o'clock"):
        catalog.create_table(name, EVENTS)
    with closing(sqlite3.connect(folder / "catalog.db")) as connection, connection:
        columns = "catalog_name, table_namespace, table_name, metadata_location, iceberg_type"
        connection.execute(f"INSERT INTO iceberg_tables ({columns}) VALUES ('local', 'db', 'seen', 'x', 'VIEW')")
        connection.execute(f"INSERT INTO iceberg_tables ({columns}) VALUES ('other', 'db', 'theirs', 'x', 'TABLE')")
    return folder


def test_it_finds_what_pyiceberg_finds(folder: Path) -> None:
    properties = embedded_properties(folder)
    reader, theirs = load_catalog_to_read("local", properties), SqlCatalog("local", **properties)
    assert isinstance(reader, EmbeddedReader)
    assert Lake("local", properties, load=load_catalog_to_read).iceberg_tables() == [
        "d_.events", "db.events", "db.inner.events", "db.o'clock",
    ]  # fmt: skip
    for parent in ((), ("db",), ("d_",), "db"):
        assert sorted(reader.list_namespaces(parent)) == sorted(theirs.list_namespaces(parent))
    for namespace in ("db", ("db", "inner"), "d_", "empty"):
        assert sorted(reader.list_tables(namespace)) == sorted(theirs.list_tables(namespace))
    for name in ("db.events", ("db", "inner", "events"), "db.o'clock"):
        ours, their = reader.load_table(name), theirs.load_table(name)
        assert (ours.name(), ours.metadata, ours.metadata_location) == (
            their.name(), their.metadata, their.metadata_location,
        )  # fmt: skip
        assert (type(ours.io), ours.io.properties) == (type(their.io), their.io.properties)
    for name in ("db.seen", "db.theirs", "d%.events", "db.nothing"):
        with pytest.raises(NoSuchTableError, match=name):
            reader.load_table(name)


def test_a_table_that_was_opened_sees_what_is_committed_later(folder: Path) -> None:
    opened = load_catalog_to_read("local", embedded_properties(folder)).load_table("db.events")
    table = local_catalog(folder, "local").load_table("db.events")
    table.add_files([data_file(table, events(1)).file_path])
    assert opened.current_snapshot() is None
    assert opened.refresh().current_snapshot() == table.current_snapshot()


def test_nothing_can_be_written_through_it(folder: Path) -> None:
    reader = load_catalog_to_read("local", embedded_properties(folder))
    with pytest.raises(NotImplementedError):
        reader.drop_table("db.events")
    update = reader.load_table("db.events").update_schema().delete_column("region")
    with pytest.raises(NotImplementedError):
        update.commit()


def test_a_catalog_of_an_older_version_is_pyiceberg_s(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "catalog.db")) as connection, connection:
        connection.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    catalog = load_catalog_to_read("local", embedded_properties(folder))
    assert isinstance(catalog, SqlCatalog)
    assert catalog.load_table("db.events").name() == ("db", "events")


def test_an_empty_file_becomes_a_catalog_and_another_is_named(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    assert isinstance(load_catalog_to_read("local", embedded_properties(tmp_path)), SqlCatalog)
    (tmp_path / "catalog.db").write_text("This is no database, as everyone can see who looks at it.")
    with pytest.raises(ConfigError, match=r"file is not a database\. Check that .*catalog\.db is an SQLite file"):
        load_catalog_to_read("local", embedded_properties(tmp_path))
