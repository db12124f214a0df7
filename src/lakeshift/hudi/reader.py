"""``HudiTable``: a Hudi table to read, through Spark's DataSource V2 or Hudi's own V1 source.

Reading only: every write goes through Hudi's own commands. What decides between the two paths lives in the
connector (``jvm/hudi``), so that this module asks the very code that Spark's optimizer asks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lakeshift.errors import ConfigError, StackError
from lakeshift.hudi.connector import check_connector
from lakeshift.stack import stack_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GATE = "hoodie.datasource.read.use.dsv2"

_QUERY_TYPE = "hoodie.datasource.query.type"
_AS_OF = "as.of.instant"
_FROM = "hoodie.datasource.read.begin.instanttime"
_TO = "hoodie.datasource.read.end.instanttime"
_NAME = re.compile(r"[A-Za-z_`][\w`]*(\.[A-Za-z_`][\w`]*){0,2}")


@dataclass(frozen=True)
class HudiReadPath:
    """Which way a read of a table takes, and why."""

    table: str
    uses_v2: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.table}: {'V2 (BatchScan)' if self.uses_v2 else 'V1 (FileScan)'}, since {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class HudiTable:
    """A Hudi table by its path or by its name in the session's catalog."""

    def __init__(self, spark: SparkSession, path_or_name: str) -> None:
        stack_of(spark.version).packages(("hudi",))  # raises where Hudi has no bundle for this Spark
        if not hasattr(spark, "_jsparkSession"):
            raise StackError("Hudi reads need a classic Spark session; this one is a Spark Connect client.")
        check_connector(spark)
        self.spark = spark
        self.path = _location(spark, path_or_name)

    def __repr__(self) -> str:
        return f"HudiTable({self.path!r})"

    def read(
        self,
        *,
        dsv2: bool = True,
        as_of: str | None = None,
        incremental_from: str | None = None,
        incremental_to: str | None = None,
        read_optimized: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """The table's rows as a DataFrame; with the same arguments both paths give the same rows.

        ``as_of`` reads the table as it was at an instant (``20260131120000000``) or a time (``2026-01-31 12:00:00``).
        ``incremental_from`` and ``incremental_to`` read the rows that commits after the first, up to the second,
        wrote. ``read_optimized`` leaves out what lies in log files. ``options`` are further Hudi read options.
        """
        query = _query_options(as_of, incremental_from, incremental_to, read_optimized)
        chosen = {**(options or {}), **query, GATE: str(dsv2).lower()}
        return self.spark.read.format("hudi").options(**chosen).load(self.path)

    def explain(self, **arguments: Any) -> HudiReadPath:
        """Which path ``read`` takes with these arguments, and why; nothing is read."""
        return read_paths(self.read(**arguments))[0]


def read_paths(df: DataFrame) -> list[HudiReadPath]:
    """The paths of all Hudi reads in a DataFrame's plan, as the optimizer would decide them now."""
    spark = df.sparkSession
    check_connector(spark)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    found = jvm.org.apache.spark.sql.lakeshift.hudi.ReadPath.inPlan(df._jdf.queryExecution().analyzed())
    return [HudiReadPath(path.table(), path.usesV2(), path.reason()) for path in found]


def _query_options(
    as_of: str | None, incremental_from: str | None, incremental_to: str | None, read_optimized: bool
) -> dict[str, str]:
    """The options of one kind of query; asking for two kinds at once is an error."""
    if incremental_to is not None and incremental_from is None:
        raise ConfigError(f"incremental_to={incremental_to!r} needs incremental_from; use '0' for all commits.")
    asked = {
        "as_of": as_of is not None,
        "incremental_from": incremental_from is not None,
        "read_optimized": read_optimized,
    }
    if sum(asked.values()) > 1:
        raise ConfigError(f"{' and '.join(name for name, is_asked in asked.items() if is_asked)} exclude each other.")
    if as_of is not None:
        return {_AS_OF: as_of}
    if incremental_from is not None:
        end = {} if incremental_to is None else {_TO: incremental_to}
        return {_QUERY_TYPE: "incremental", _FROM: incremental_from, **end}
    return {_QUERY_TYPE: "read_optimized" if read_optimized else "snapshot"}


def _location(spark: SparkSession, path_or_name: str) -> str:
    """Where the table lies. A name is looked up in the catalog; a path must hold a Hudi table.

    Reading by location, not by name: Spark 3.5 caches a catalog table's relation with the options of the first
    read, and would ignore those of the next.
    """
    if not path_or_name or not str(path_or_name).strip():
        raise ConfigError("A Hudi table needs a path or a table name; none was given.")
    text = str(path_or_name)
    session: Any = spark  # typed differently by each Spark line
    if _NAME.fullmatch(text) and spark.catalog.tableExists(text):
        state = session._jsparkSession.sessionState()
        table = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(text))
        provider = table.provider().get() if table.provider().isDefined() else None
        if str(provider).lower() != "hudi":
            raise ConfigError(f"Table {text} is {provider}, not hudi.")
        return str(table.location().toString())
    marker = session._jvm.org.apache.hadoop.fs.Path(text, ".hoodie/hoodie.properties")
    if not marker.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()).exists(marker):
        kind = "no table of that name in the session's catalog, and " if _NAME.fullmatch(text) else ""
        raise ConfigError(f"{text!r} is no Hudi table: there is {kind}no .hoodie/hoodie.properties in that path.")
    return text
