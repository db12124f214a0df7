"""The embedded SQLite catalog, to look into: by Python's own sqlite3, and without SQLAlchemy.

PyIceberg's catalog loads SQLAlchemy, which takes longer than all else that a look at a small table needs. This one
finds and lists tables and can do nothing more, so that whatever writes goes through PyIceberg's. No Spark here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

# As PyIceberg's own catalog waits for a writer.
_SECONDS_TO_WAIT = 60


class EmbeddedReader(NoopCatalog):
    """Finds and lists the tables of an SQLite catalog. Raises ``sqlite3.Error`` if the file is not one of today's.

    Iceberg's Java runtime keeps views among the tables, and tells them by a column that older catalogs do not have.
    """

    def __init__(self, name: str, file: Path, properties: Mapping[str, str]) -> None:
        super().__init__(name, **properties)
        self._file = file
        if "iceberg_type" not in {row[1] for row in self._query("PRAGMA table_info(iceberg_tables)")}:
            raise sqlite3.OperationalError("no table iceberg_tables that tells tables from views")

    def load_table(self, identifier: str | Identifier) -> Table:
        namespace, name = self.namespace_from(identifier), self.table_name_from(identifier)
        found = self._query(
            "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? "
            "AND table_name = ? AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)",
            self.name,
            ".".join(namespace),
            name,
        )
        location = found[0][0] if found else None
        if not location:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(namespace)}.{name}")
        metadata = FromInputFile.table_metadata(load_file_io(self.properties, location).new_input(location))
        io = load_file_io({**self.properties, **metadata.properties}, location)
        return Table((*namespace, name), metadata, location, io, self)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        parent = Catalog.identifier_to_tuple(namespace)
        found = self._query(
            "SELECT table_name FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? "
            "AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)",
            self.name,
            ".".join(parent),
        )
        return [(*parent, name) for (name,) in found]

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        parent = Catalog.identifier_to_tuple(namespace)
        found = self._query(
            "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ? "
            "UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?",
            self.name,
            self.name,
        )
        every = {tuple(text.split(".")) for (text,) in found}
        level = len(parent) + 1
        return sorted({each[:level] for each in every if len(each) >= level and each[: level - 1] == parent})

    def _query(self, statement: str, *values: str) -> list[tuple[str, ...]]:
        address = f"{self._file.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, timeout=_SECONDS_TO_WAIT, uri=True)) as connection:
            return connection.execute(statement, values).fetchall()
