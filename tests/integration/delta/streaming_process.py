"""A process to be killed: a stream of JSON lines into a Delta sink, whose schema grows while it runs.

The schema of a batch is what ``schema.ddl`` says when the batch is handled, as a schema registry would; a batch that
is repeated after a crash may thus come with more columns than it had.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lakeshift.delta.sink import DeltaSink
from lakeshift.spark.session import build_session


def main(folder: Path) -> None:
    spark = build_session(("delta",), master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    run_stream(spark, folder, drain=False)


def run_stream(spark: Any, folder: Path, *, drain: bool) -> None:
    """Go on where the checkpoint says, for ever, or until the source has nothing more."""
    from pyspark.sql import functions

    def handle(batch: Any, batch_id: int) -> None:
        schema = (folder / "schema.ddl").read_text()
        parsed = batch.select(functions.from_json("value", schema).alias("row")).select("row.*")
        sink.foreach_batch(parsed, batch_id)

    with DeltaSink(spark, folder / "table", {"columns": "evolve"}) as sink:
        stream = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder / "source"))
        writer = stream.writeStream.foreachBatch(handle).option("checkpointLocation", str(folder / "checkpoint"))
        query = (writer.trigger(availableNow=True) if drain else writer).start()
        query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
