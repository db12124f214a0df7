"""A process to be killed: runs the pipeline, or goes on with the run that its predecessor left."""

from __future__ import annotations

import sys
from pathlib import Path

from lakeshift.spark.session import build_session
from tests.integration.pipeline.cities import go_on


def main(file: Path) -> None:
    spark = build_session(
        ("iceberg", "delta"),
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "2"},
    )
    spark.sparkContext.setLogLevel("ERROR")
    (file.parent / "ready").touch()
    while True:
        go_on(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
