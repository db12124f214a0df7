"""Spark's classes, loaded and checked once and kept in a file that every JVM of the tests maps into its memory.

The tests start more than a dozen JVMs, and loading Spark's classes is two fifths of the work of such a start. A JVM
that the file does not fit, since it is of another version or has other jars, does without it. Run as a program, this
module makes the file by starting what all of these JVMs start.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "classes.jsa"

# For JVMs that live for minutes and see each query once: the second compiler's work would never pay, and with two
# lines side by side there is no core for a garbage collector of many threads. The first compiler alone is given room
# for 48 MB of code by default; Spark's is more, and most of it would be compiled again and again.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xmn256m -XX:MetaspaceSize=256m"
# The JVM would tell on standard output what it thinks of the file, beside what a command prints there.
_UNTOLD = "-Xlog:disable"

SHORT_LIVED_JVM = f"{_SHORT_LIVED} {_UNTOLD} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else _SHORT_LIVED

# Java properties of this kind are Spark's settings. Queries of a few rows that run once: two tasks instead of 200, a
# Delta table's state in one instead of 50, and no Java compiled for a stage or a projection that sees ten rows. The
# long form has it compiled, as it is for users.
_NOT_COMPILED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
_INTERPRETED = "" if os.environ.get("LAKESHIFT_FULL") else _NOT_COMPILED
_FEW_ROWS = f"-Dspark.sql.shuffle.partitions=2 -Dspark.databricks.delta.snapshotPartitions=1 {_INTERPRETED}"
SPARK_OPTIONS = f"{SHORT_LIVED_JVM} {_FEW_ROWS}"


def make() -> None:
    unfinished = ARCHIVE.with_suffix(".unfinished")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_SHORT_LIVED} {_FEW_ROWS} {_UNTOLD} -XX:ArchiveClassesAtExit={unfinished}"
    from pyspark import SparkContext

    from lakeshift.spark.session import build_session

    spark = build_session(("delta",), master="local[2]")
    spark.sparkContext.setLogLevel("OFF")
    # To load what Delta's writes need as well would take longer than it saves.
    spark.range(3).collect()
    spark.stop()
    # The file is written when the JVM ends, which is when its input does.
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=300)
    unfinished.rename(ARCHIVE)


if __name__ == "__main__":
    make()
