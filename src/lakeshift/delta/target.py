"""Where a sink writes: a path, or a table name that stands for one. The only SQL statements of this room.

Rows are always written by path: Delta's writes by name cast values silently where they do not fit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from lakeshift.delta.policy import TYPE_WIDENING_PROPERTY
from lakeshift.delta.projection import type_sql
from lakeshift.delta.schema import StructOf
from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.spark.frames import quoted
from lakeshift.spark.session import DELTA_CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLE_NAME = re.compile(r"(?:\w+\.){0,2}\w+")
_SESSION_CATALOG = "spark.sql.catalog.spark_catalog"


class Target:
    """A path, or a name such as ``orders``, ``db.orders`` or ``spark_catalog.db.orders``.

    Text with a slash or a colon is a path: write ``./orders`` for a folder beside you.
    """

    def __init__(self, spark: SparkSession, target: str | PurePath) -> None:
        self.text = str(target)
        self._spark = spark
        self._ddl: SparkSession | None = None
        self.is_name = isinstance(target, str) and "/" not in self.text and ":" not in self.text
        if self.is_name and not _TABLE_NAME.fullmatch(self.text):
            raise ConfigError(
                f"{self.text!r} is neither a table name (orders, db.orders) nor a path. "
                "A path needs a slash: write ./orders for a folder beside you."
            )

    def __str__(self) -> str:
        return self.text

    def location(self) -> str | None:
        """The path to write to; None for the name of a table that is not there yet."""
        if not self.is_name:
            return self.text
        name = self._qualified()
        if not self._spark.catalog.tableExists(name):
            return None
        detail = self._ddl_session().sql(f"DESCRIBE DETAIL {name}").first()
        assert detail is not None
        if detail["format"] != "delta":
            raise UnsupportedTableError(
                f"The table {self.text} is a {detail['format']} table, not a Delta table. Name another one."
            )
        return str(detail["location"])

    def create(self, schema: StructOf, partition_by: tuple[str, ...], properties: Mapping[str, str]) -> None:
        """Register an empty table under the name, unless another writer was faster."""
        columns = ", ".join(f"{quoted(f.name)} {type_sql(f.type)}" for f in schema.fields)
        partitioned = f" PARTITIONED BY ({', '.join(map(quoted, partition_by))})" if partition_by else ""
        set_properties = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in properties.items())
        with_properties = f" TBLPROPERTIES ({set_properties})" if properties else ""
        self._ddl_session().sql(
            f"CREATE TABLE IF NOT EXISTS {self._qualified()} ({columns}) USING delta{partitioned}{with_properties}"
        )

    def enable_type_widening(self, location: str) -> None:
        """Switch the table feature on, in a commit of its own: Delta's writer cannot carry it."""
        self._ddl_session().sql(
            f"ALTER TABLE delta.{quoted(location)} SET TBLPROPERTIES ('{TYPE_WIDENING_PROPERTY}' = 'true')"
        )

    def _qualified(self) -> str:
        parts = self.text.split(".")
        if len(parts) == 1:
            parts.insert(0, self._spark.catalog.currentDatabase())
        return ".".join(quoted(part) for part in parts)

    def _ddl_session(self) -> SparkSession:
        """A session whose ``spark_catalog`` is Delta's; Hudi wants that place too, and may have it in the user's."""
        if self._ddl is None:
            if self._spark.conf.get(_SESSION_CATALOG, "") == DELTA_CATALOG:
                self._ddl = self._spark
            else:
                self._ddl = self._spark.newSession()
                self._ddl.conf.set(_SESSION_CATALOG, DELTA_CATALOG)
        return self._ddl


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
