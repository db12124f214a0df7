"""On executors of their own: the jar reaches them, and what a task is given can be sent there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeshift.hudi.connector import find_jar
from lakeshift.stack import Stack

SCRIPT = """
import os
import shutil
import sys
from pathlib import Path
from lakeshift.hudi.reader import HudiTable
from lakeshift.spark.session import build_session
from tests.integration.hudi import matrix, tables

home = Path(sys.argv[1])
conf = {"spark.sql.shuffle.partitions": "2", "spark.executor.extraClassPath": sys.argv[2]}
spark = build_session(["hudi"], master="local-cluster[2,1,1024]", conf=conf)
spark.sparkContext.setLogLevel("OFF")
for kind in ("cow", "mor_deletes"):
    table = tables.build(spark, home / kind, kind, "hive_style")
    reader = HudiTable(spark, table.path)
    for name, shape in matrix.SHAPES.items():
        ours, theirs = (sorted(map(repr, shape(reader.read(dsv2=dsv2)).collect())) for dsv2 in (True, False))
        assert ours == theirs and ours, (kind, name)
    for most_files in ("256", "0"):  # footers read by the driver, and by the executors
        spark.conf.set("spark.lakeshift.hudi.footersOnDriver", most_files)
        counts = [reader.read(dsv2=dsv2).selectExpr("count(*)", "max(id)").first() for dsv2 in (True, False)]
        assert counts[0] == counts[1], (most_files, counts)
print("alike on", spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos().__len__() - 1, "executors")
executors = Path(os.environ["SPARK_HOME"]) / "work" / spark.sparkContext.applicationId
spark.stop()
shutil.rmtree(executors)
"""


@pytest.mark.full
def test_reads_are_alike_on_two_executors(stack: Stack, tmp_path: Path) -> None:
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    # Hudi's Kryo registrator must be there when an executor starts, before Spark sends it any jar.
    assert stack.hudi is not None
    group, artifact, version = stack.hudi.split(":")
    bundle = Path.home() / ".ivy2" / "jars" / f"{group}_{artifact}-{version}.jar"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), f"{bundle}:{find_jar(stack)}"],
        env={**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "alike on 2 executors" in done.stdout
