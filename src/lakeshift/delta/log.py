"""The one place that looks into Delta's own classes: a table's log, as its JVM library keeps it.

Everything here reads; the sink writes through Spark's public writer only. The calls are the few that exist alike
in every Delta version of our stacks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeshift.delta.policy import TableState
from lakeshift.delta.schema import schema_of
from lakeshift.errors import StackError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class FileChanges:
    """The files with new rows that a commit added, as its log has them, and whether it took rows away as well."""

    operation: str
    added: tuple[str, ...]
    changes_rows: bool


class DeltaLog:
    """A table's log by its path. Delta shares one cached snapshot between this reader and its own writers."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path
        self._jvm: Any = getattr(spark, "_jvm", None)
        if self._jvm is None:
            raise StackError(
                f"The Delta sink needs a classic Spark session, and this one is {type(spark).__module__} "
                "(Spark Connect), which has no JVM beside it. Run the sink where the driver runs."
            )
        self._nothing = self._jvm.scala.Option.apply(None)
        self._seen_metadata: Any = None
        self._seen_protocol: Any = None

    def refresh(self) -> TableState | None:
        """The table as it is now; None if there is no table."""
        return self._state(self._log().update(False, self._nothing, self._nothing))

    def changed_state(self) -> tuple[int, TableState | None]:
        """The version of Delta's cached snapshot, and its state if that is not the one seen last.

        After a commit of this process the cached snapshot holds it, so that this reads nothing from storage.
        """
        snapshot = self._log().unsafeVolatileSnapshot()
        version = int(snapshot.version())
        same = self._seen_metadata is not None and snapshot.metadata().equals(self._seen_metadata)
        if same and snapshot.protocol().equals(self._seen_protocol):
            return version, None
        return version, self._state(snapshot)

    def last_txn_version(self, app_id: str) -> int | None:
        """The last transaction version that this application has committed."""
        found = self._log().update(False, self._nothing, self._nothing).transactions().get(app_id)
        return int(found.get()) if found.isDefined() else None

    def commit_of(self, app_id: str, txn_version: int, most: int = 200) -> int | None:
        """The table version that committed a transaction, among the last ones; None if it is not among them."""
        newest = int(self._log().update(False, self._nothing, self._nothing).version())
        for version in range(newest, max(-1, newest - most), -1):
            for line in self._commit(version):
                if line.startswith('{"txn"'):
                    found = json.loads(line)["txn"]
                    if (found["appId"], found["version"]) == (app_id, txn_version):
                        return version
        return None

    def commit_info(self, version: int) -> dict[str, Any] | None:
        """The commitInfo action of one version; None if its file cannot be read (cleaned up, or kept elsewhere)."""
        for line in self._commit(version):
            if line.startswith('{"commitInfo"'):
                info: dict[str, Any] = json.loads(line)["commitInfo"]
                return info
        return None

    def changes_metadata(self, version: int) -> bool:
        """Whether the commit of this version changed the table's schema or properties."""
        return any(line.startswith('{"metaData"') for line in self._commit(version))

    def file_changes(self, version: int) -> FileChanges | None:
        """What the commit of a version did to files with rows; None if its file is no longer there."""
        lines = self._commit(version)
        if not lines:
            return None
        added, removes, operation = [], False, "of an unknown kind"
        for line in lines:
            action = json.loads(line)
            if "commitInfo" in action:
                operation = action["commitInfo"].get("operation", operation)
            # What a commit moves without changing rows (OPTIMIZE) says so itself.
            elif "add" in action and action["add"]["dataChange"]:
                added.append(line)
            elif "remove" in action and action["remove"]["dataChange"]:
                removes = True
        return FileChanges(operation, tuple(added), removes)

    def rows_of(self, added: Sequence[str]) -> DataFrame:
        """The rows of files that commits added, with the table's columns: what Delta's own stream makes of them."""
        from pyspark.sql import DataFrame

        log, actions = self._log(), self._jvm.org.apache.spark.sql.delta.actions
        files = self._jvm.PythonUtils.toSeq([actions.Action.fromJson(line) for line in added])
        snapshot = log.update(False, self._nothing, self._nothing)
        return DataFrame(log.createDataFrame(snapshot, files, False, self._nothing), self._spark)

    def dependents(self, column: tuple[str, ...]) -> tuple[str, ...]:
        """The CHECK constraints and generated columns whose expressions read this column."""
        snapshot = self._log().update(False, self._nothing, self._nothing)
        delta, java_spark = self._jvm.org.apache.spark.sql.delta, self._spark._jsparkSession
        parts = self._jvm.PythonUtils.toSeq(list(column))
        checks = delta.constraints.Constraints.findDependentConstraints(java_spark, parts, snapshot.metadata())
        generated = delta.schema.SchemaUtils.findDependentGeneratedColumns(
            java_spark, parts, snapshot.protocol(), snapshot.metadata().schema()
        )
        names = [f"the CHECK constraint {_short(name)}" for name in _keys(checks)]
        return (*names, *(f"the generated column {name}" for name in _keys(generated)))

    def _log(self) -> Any:
        # Looked up each time, from Delta's own cache: a writer may have had to build a new one there.
        return self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
            self._spark._jsparkSession,
            self._path,
        )

    def _commit(self, version: int) -> list[str]:
        log = self._log()
        file = self._jvm.org.apache.hadoop.fs.Path(log.logPath(), f"{version:020d}.json")
        configuration = log.newDeltaHadoopConf()
        if not file.getFileSystem(configuration).exists(file):
            return []
        return str(log.store().read(file, configuration).mkString("\n")).splitlines()

    def _state(self, snapshot: Any) -> TableState | None:
        version = int(snapshot.version())
        if version < 0:
            return None
        self._seen_metadata, self._seen_protocol = snapshot.metadata(), snapshot.protocol()
        metadata = json.loads(self._seen_metadata.json())["metaData"]
        protocol = json.loads(self._seen_protocol.json())["protocol"]
        return TableState(
            table_id=metadata["id"],
            version=version,
            schema=schema_of(metadata["schemaString"]),
            partition_columns=tuple(metadata["partitionColumns"]),
            properties=metadata["configuration"],
            features=frozenset(protocol.get("readerFeatures", ())) | frozenset(protocol.get("writerFeatures", ())),
        )


def _keys(scala_map: Any) -> list[str]:
    iterator, names = scala_map.keysIterator(), []
    while iterator.hasNext():
        names.append(str(iterator.next()))
    return sorted(names)


def _short(property_name: str) -> str:
    return property_name.removeprefix("delta.constraints.")
