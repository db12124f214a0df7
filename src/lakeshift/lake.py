"""``connect()`` and ``Lake``: what a user holds first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from lakeshift.catalogs import catalog_properties, embedded_file, load_catalog, redact
from lakeshift.errors import ConfigError
from lakeshift.stack import Stack, check_formats, installed_stack

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from lakeshift.delta.policy import EvolutionPolicy
    from lakeshift.delta.sink import DeltaSink
    from lakeshift.hudi.reader import HudiTable
    from lakeshift.iceberg.schemas import SchemaLike
    from lakeshift.iceberg.table import IcebergTable


def connect(
    catalog: str = "local",
    warehouse: str | Path = "./lakehouse",
    spark: SparkSession | None = None,
    formats: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Lake:
    """Open a lake: a catalog of Iceberg tables, and a Spark session for the work.

    ``catalog`` is a name from PyIceberg's configuration or from the session's ``spark.sql.catalog.*``;
    ``local`` is an SQLite catalog inside ``warehouse``. ``properties`` describe any other catalog.
    ``spark`` is your own session; without one, a session for the installed stack is built on first use.
    ``formats`` says which of iceberg, delta and hudi it is for: by default all that the stack has.
    """
    wanted = None if formats is None else check_formats(tuple(formats))
    if spark is not None and wanted is not None:
        from lakeshift.spark.session import check_session

        check_session(spark, wanted)
    return Lake(catalog, catalog_properties(catalog, warehouse, properties, spark), spark, wanted)


class Lake:
    """A catalog of tables and the Spark session that works on them. Made by ``connect()``."""

    def __init__(
        self,
        name: str,
        properties: Mapping[str, str],
        spark: SparkSession | None = None,
        formats: tuple[str, ...] | None = None,
        load: Callable[[str, Mapping[str, str]], Catalog] = load_catalog,
    ) -> None:
        self.name = name
        self._load = load
        self._properties = dict(properties)
        self._spark = spark
        self._formats = formats

    def __repr__(self) -> str:
        # The properties stay out of it: they may hold credentials.
        return f"Lake({self.name!r})"

    @cached_property
    def catalog(self) -> Catalog:
        """The PyIceberg catalog. An embedded one must exist: ``create_iceberg_table`` makes it."""
        file = embedded_file(self._properties)
        if file is not None and not file.exists():
            raise ConfigError(
                f"There is no lake at {file.parent} (no {file.name} in it). "
                "Check the warehouse path, or create the first table there."
            )
        return self._load(self.name, self._properties)

    @cached_property
    def stack(self) -> Stack:
        """The Spark line that this lake's work runs on."""
        if self._spark is None:
            return installed_stack()
        from lakeshift.stack import stack_of

        return stack_of(self._spark.version)

    @cached_property
    def spark(self) -> SparkSession:
        """The Spark session: yours, the active one, or one built now."""
        if self._spark is not None:
            return self._spark
        from pyspark.sql import SparkSession

        from lakeshift.spark.session import build_session, check_session

        active = SparkSession.getActiveSession()
        if active is not None:
            if self._formats is not None:
                check_session(active, self._formats)
            return active
        return build_session(self._formats or self.stack.available_formats(), stack=self.stack)

    @property
    def running_spark(self) -> SparkSession | None:
        """The session if there is one already: what needs no Spark still follows its SQL settings."""
        if self._spark is not None or "spark" in self.__dict__:
            return self.spark
        if "pyspark" not in sys.modules:
            return None
        from pyspark.sql import SparkSession

        return SparkSession.getActiveSession()

    def iceberg_tables(self) -> list[str]:
        """The names of all Iceberg tables, sorted."""
        return sorted(
            ".".join(identifier)
            for namespace in self._namespaces(())
            for identifier in self.catalog.list_tables(namespace)
        )

    def iceberg(self, name: str) -> IcebergTable:
        """The Iceberg table of that name, such as ``db.events``."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, ValidationError

        from lakeshift.iceberg.table import IcebergTable

        catalog, identifier = self.catalog, self._identifier(name)
        try:
            table = catalog.load_table(identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            there = ", ".join(self.iceberg_tables()) or "none yet"
            raise ConfigError(f"There is no table {name!r} in catalog {self.name!r}; tables there: {there}.") from None
        except (OSError, ValueError, ValidationError) as error:  # of the store, or of PyIceberg's models
            what = redact(" ".join(str(error).split("\n    For further")[0].split())).rstrip(".")
            raise ConfigError(
                f"The table {name!r} is in catalog {self.name!r}, but its metadata file cannot be read: {what}. Check "
                "that the file which the catalog points to is there and whole, and that it may be read from here."
            ) from error
        return IcebergTable(self, table)

    def find_iceberg(self, name: str) -> IcebergTable | None:
        """The Iceberg table of that name; None if there is none, or no embedded catalog yet."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        from lakeshift.iceberg.table import IcebergTable

        identifier = self._identifier(name)
        file = embedded_file(self._properties)
        if file is not None and not file.exists():
            return None
        try:
            return IcebergTable(self, self.catalog.load_table(identifier))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def create_iceberg_table(
        self,
        name: str,
        schema: SchemaLike,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> IcebergTable:
        """Create an Iceberg table, and its namespace where needed.

        ``schema`` is a Spark, Arrow or PyIceberg schema or text (``"id bigint not null, ts timestamp"``);
        ``partition_by`` holds expressions such as ``"day(ts)"``, ``"bucket(16, id)"`` or ``"region"``.
        """
        from pyiceberg.exceptions import TableAlreadyExistsError

        from lakeshift.iceberg.partitioning import build_partition_spec
        from lakeshift.iceberg.schemas import to_iceberg_schema
        from lakeshift.iceberg.table import IcebergTable

        # Everything that can be wrong with the input is found before a folder or a namespace is made.
        identifier = self._identifier(name)
        iceberg_schema = to_iceberg_schema(schema)
        spec = build_partition_spec(iceberg_schema, partition_by)
        file = embedded_file(self._properties)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        self.catalog.create_namespace_if_not_exists(identifier[:-1])
        try:
            table = self.catalog.create_table(
                identifier, iceberg_schema, partition_spec=spec, properties=dict(properties or {})
            )
        except TableAlreadyExistsError:
            raise ConfigError(
                f"The table {name!r} exists already in catalog {self.name!r}. "
                f"Open it with iceberg({name!r}), or choose another name."
            ) from None
        return IcebergTable(self, table)

    def delta_sink(
        self,
        target: str | PurePath,
        evolution: EvolutionPolicy | Mapping[str, str] | bool | None = None,
        *,
        enable_type_widening: bool = False,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        create: bool = True,
        txn_app_id: str | None = None,
        max_attempts: int = 20,
    ) -> DeltaSink:
        """A sink for the Delta table at a path or of a name; its schema evolves only as far as ``evolution`` says."""
        from lakeshift.delta.sink import DeltaSink

        self._require("delta")
        return DeltaSink(
            self.spark,
            target,
            evolution,
            enable_type_widening=enable_type_widening,
            partition_by=partition_by,
            properties=properties,
            create=create,
            txn_app_id=txn_app_id,
            max_attempts=max_attempts,
        )

    def hudi(self, path_or_name: str | PurePath) -> HudiTable:
        """The Hudi table at a path or of a name, to read through DataSource V2 or through Hudi's own source."""
        from lakeshift.hudi.reader import HudiTable

        self._require("hudi")
        return HudiTable(self.spark, str(path_or_name))

    def _require(self, name: str) -> None:
        """Refuse a format that this lake's session cannot serve, before a session is built for the others."""
        self.stack.packages((name,))
        if self._formats is not None and name not in self._formats:
            raise ConfigError(
                f"This lake was opened for {', '.join(self._formats)}. Add {name!r} to the formats given to connect()."
            )

    def _identifier(self, name: str) -> tuple[str, ...]:
        parts = tuple(name.split("."))
        if len(parts) < 2 or not all(parts):
            raise ConfigError(f"{name!r} is not a table name: write namespace and table, such as 'db.events'.")
        return parts

    def _namespaces(self, parent: tuple[str, ...]) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        for namespace in self.catalog.list_namespaces(parent):
            if namespace != parent and namespace not in found:
                found += [namespace, *self._namespaces(namespace)]
        return found
