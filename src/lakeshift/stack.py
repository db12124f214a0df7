"""The Spark lines that lakeshift supports: their versions, their artefacts and what each can do.

All knowledge about versions lives here, as data. Other modules ask a stack for a capability;
none compares version numbers of its own. No Spark is imported and no JVM started here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path

from lakeshift.errors import ConfigError, StackError

FORMATS = ("iceberg", "delta", "hudi")


class Capability(Enum):
    """What a stack may or may not be able to do; the value reads well in an error message."""

    DELTA_NEW_COLUMNS = "add columns to a Delta table"
    DELTA_WIDEN_SMALL_INTEGERS = "widen byte to short to int in a Delta table"
    DELTA_WIDEN_ALL = "widen integers to long and float to double in a Delta table"
    HUDI_DSV2_READS = "read Hudi tables through DataSource V2"


@dataclass(frozen=True)
class Stack:
    """One Spark line with the artefacts that were tested together on it."""

    line: str
    spark: str
    scala: str
    java: frozenset[int]
    extra: str
    iceberg_peer: str
    delta: str
    hudi: str | None
    capabilities: frozenset[Capability]

    def can(self, capability: Capability) -> bool:
        return capability in self.capabilities

    @property
    def delta_version(self) -> str:
        return self.delta.rpartition(":")[2]

    def require(self, capability: Capability) -> None:
        """Raise a StackError that names the stack which can, if this one cannot."""
        if self.can(capability):
            return
        able = [f"Spark {stack.line}" for stack in STACKS.values() if stack.can(capability)]
        raise StackError(f"Spark {self.line} cannot {capability.value}; it needs {' or '.join(able)}.")

    def packages(self, formats: tuple[str, ...]) -> tuple[str, ...]:
        """The Maven coordinates that a session for these formats needs.

        Iceberg needs none: lakeshift reads and writes it without Iceberg's Java runtime.
        """
        coordinates = []
        for name in check_formats(formats):
            if name == "delta":
                coordinates.append(self.delta)
            elif name == "hudi":
                if self.hudi is None:
                    raise StackError(
                        f"Hudi publishes no bundle for Spark {self.line}. "
                        f"Use Spark 3.5 (pip install 'lakeshift[spark35]'), or leave 'hudi' out of formats."
                    )
                coordinates.append(self.hudi)
        return tuple(coordinates)

    def available_formats(self) -> tuple[str, ...]:
        return tuple(name for name in FORMATS if name != "hudi" or self.hudi is not None)


# What packages ask for and every Spark brings itself: 70 MB less to fetch with Delta 4, and a quicker start.
# Hadoop's and Parquet's are named one by one: without the whole group, what users ask for would be left out as well,
# such as hadoop-aws.
PROVIDED = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.parquet:parquet-hadoop",
    "org.apache.logging.log4j:*",
    "org.slf4j:*",
)

STACKS = {
    "3.5": Stack(
        line="3.5",
        spark="3.5.9",
        scala="2.12",
        java=frozenset({17}),
        extra="spark35",
        iceberg_peer="org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.11.0",
        delta="io.delta:delta-spark_2.12:3.3.3",
        hudi="org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",
        capabilities=frozenset(
            {Capability.DELTA_NEW_COLUMNS, Capability.DELTA_WIDEN_SMALL_INTEGERS, Capability.HUDI_DSV2_READS}
        ),
    ),
    "4.1": Stack(
        line="4.1",
        spark="4.1.4",
        scala="2.13",
        java=frozenset({17, 21}),
        extra="spark41",
        iceberg_peer="org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        delta="io.delta:delta-spark_4.1_2.13:4.4.0",
        hudi=None,
        capabilities=frozenset(
            {Capability.DELTA_NEW_COLUMNS, Capability.DELTA_WIDEN_SMALL_INTEGERS, Capability.DELTA_WIDEN_ALL}
        ),
    ),
}


def stack_of(version: str) -> Stack:
    """The stack of a Spark version; patch levels and vendor suffixes (``3.5.5-amzn-1``) are accepted."""
    match = re.match(r"(\d+\.\d+)(?:\D|$)", version)
    stack = STACKS.get(match.group(1)) if match else None
    if stack is None:
        raise StackError(
            f"Spark {version} is not supported; lakeshift is tested with "
            f"{' and '.join(s.spark for s in STACKS.values())}. Use a session of one of these lines."
        )
    return stack


def installed_stack() -> Stack:
    """The stack of the pyspark that is installed beside lakeshift."""
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        extras = " or ".join(f"pip install 'lakeshift[{s.extra}]' (Spark {s.line})" for s in STACKS.values())
        raise StackError(f"pyspark is not installed in this environment. Install one: {extras}.") from None
    return stack_of(version)


def check_formats(formats: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ConfigError(f"Unknown table format {unknown[0]!r}; lakeshift knows {', '.join(FORMATS)}.")
    return formats


@dataclass(frozen=True)
class Java:
    """The Java that Spark would start."""

    path: Path
    version: str

    @property
    def major(self) -> int:
        first, _, rest = self.version.partition(".")
        digits = re.match(r"\d+", rest if first == "1" else first)
        return int(digits.group()) if digits else 0


def find_java() -> Java:
    """The Java that Spark would use: ``JAVA_HOME`` first, then ``PATH``."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    where = f"JAVA_HOME is {home!r}, where there is no bin/java" if home else "there is no java on PATH"
    if not found.is_file():
        raise StackError(f"Java was not found: {where}. Install a Java 17 runtime and set JAVA_HOME to its folder.")
    try:
        shown = subprocess.run([str(found), "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise StackError(f"{found} did not run: {error}. Install a Java 17 runtime and set JAVA_HOME.") from error
    match = re.search(r'version "([^"]+)"', shown)
    if match is None:
        raise StackError(f"{found} did not tell its version but {shown.strip()!r}. Set JAVA_HOME to a Java 17 runtime.")
    return Java(found, match.group(1))


def require_java(stack: Stack) -> Java:
    """The Java found, or a StackError if this stack does not run on it."""
    java = find_java()
    if java.major not in stack.java:
        wanted = " or ".join(str(major) for major in sorted(stack.java))
        raise StackError(
            f"Spark {stack.line} needs Java {wanted}, but {java.path} is Java {java.version}. "
            f"Install a Java {wanted} runtime and set JAVA_HOME to its folder."
        )
    return java
