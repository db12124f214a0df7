"""The SparkSession of a stack: built for a laptop, or the user's own, checked.

On a cluster the session is the user's; lakeshift changes none of its settings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakeshift.errors import StackError
from lakeshift.hudi import connector
from lakeshift.stack import PROVIDED, Stack, check_formats, installed_stack, require_java, stack_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
HUDI_EXTENSION = "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"
HUDI_CATALOG = "org.apache.spark.sql.hudi.catalog.HoodieCatalog"

_SESSION_CATALOG = "spark.sql.catalog.spark_catalog"


def build_session(
    formats: Sequence[str],
    *,
    stack: Stack | None = None,
    master: str = "local[*]",
    packages: Sequence[str] = (),
    extensions: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Build a local session of the installed stack for these formats.

    ``packages`` and ``extensions`` come on top of what the formats need; ``conf`` wins over every default.
    """
    stack = stack or installed_stack()
    java = require_java(stack)
    from pyspark.sql import SparkSession

    # Workers must run this very interpreter, or they would not find pyarrow and lakeshift.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("JAVA_HOME", str(java.path.resolve().parent.parent))
    settings = session_conf(stack, tuple(formats), packages=packages, extensions=extensions)
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= dict(conf or {})
    if "hudi" in formats:
        settings |= connector.session_settings(stack, settings)
    builder = SparkSession.builder.master(master).appName("lakeshift")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # the JVM's start fails in many ways; all of them mean the same to the user
        raise StackError(_start_failure(stack, settings, error)) from error
    if "hudi" in formats:
        connector.check_connector(session)
    return session


def session_conf(
    stack: Stack, formats: tuple[str, ...], *, packages: Sequence[str] = (), extensions: Sequence[str] = ()
) -> dict[str, str]:
    """The settings that a session for these formats needs, as ``spark.*`` names and values."""
    wanted_extensions = [*extensions]
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if "delta" in check_formats(formats):
        wanted_extensions.append(DELTA_EXTENSION)
        settings[_SESSION_CATALOG] = DELTA_CATALOG
    if "hudi" in formats:
        # Both formats want the session catalog. Hudi cannot do without it; Delta can, by path.
        # The connector replaces reads that Hudi has resolved, so it comes second.
        wanted_extensions += [HUDI_EXTENSION, connector.EXTENSION]
        settings |= {
            _SESSION_CATALOG: HUDI_CATALOG,
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        }
    coordinates = [*stack.packages(formats), *packages]
    if coordinates:
        settings["spark.jars.packages"] = ",".join(coordinates)
        settings["spark.jars.excludes"] = ",".join(PROVIDED)
    if wanted_extensions:
        settings["spark.sql.extensions"] = ",".join(wanted_extensions)
    return settings


def check_session(spark: SparkSession, formats: Sequence[str]) -> Stack:
    """The stack of the user's own session, or a StackError that lists the settings it lacks for these formats."""
    stack = stack_of(spark.version)
    wanted = session_conf(stack, tuple(formats))
    present = str(spark.conf.get("spark.sql.extensions", "") or "").split(",")
    missing = [name for name in wanted.get("spark.sql.extensions", "").split(",") if name and name not in present]
    if missing:
        if "hudi" in formats:
            wanted |= connector.session_settings(stack, {})
        lines = "\n".join(
            f"  {key}={value}"
            for key, value in wanted.items()
            if key.startswith(("spark.jars", "spark.sql.ext", "spark.sql.catalog", "spark.serializer", "spark.kryo"))
        )
        raise StackError(
            f"This Spark session was not started for {', '.join(formats)}: {', '.join(missing)} is not among its "
            f"spark.sql.extensions. Start it with:\n{lines}"
        )
    return stack


def _start_failure(stack: Stack, settings: Mapping[str, str], error: Exception) -> str:
    packages = settings.get("spark.jars.packages", "")
    remedy = (
        f"If a package could not be found, check that the machine reaches a Maven repository for {packages}, "
        "or set spark.jars.ivySettings to one it reaches."
        if packages
        else "Run `lakeshift doctor` to see what is missing."
    )
    return f"Spark {stack.spark} did not start: {str(error).strip() or type(error).__name__}. {remedy}"
