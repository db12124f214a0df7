"""One of several processes that evolve a Delta table and append to it at the same time.

Reports, as JSON lines, the batches whose write returned: what must be in the table in the end, once.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from lakeshift.delta.open_table import TypeWideningWarning
from lakeshift.delta.sink import DeltaSink
from lakeshift.spark.session import build_session

TYPES = ["byte", "short", "int"]  # what every stack can widen
ADDS_A_COLUMN, WIDENS_TO_THE_LAST = 3, 5  # batches after which a process has done so


def main(folder: Path, name: str, seconds: float) -> None:
    spark = build_session(("delta",), master="local[1]", conf={"spark.sql.shuffle.partitions": "1"})
    spark.sparkContext.setLogLevel("OFF")
    (folder / f"{name}.ready").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    race(spark, folder, name, seconds, fewest=ADDS_A_COLUMN)
    spark.stop()


def race(spark: Any, folder: Path, name: str, seconds: float, fewest: int) -> None:
    warnings.simplefilter("ignore", TypeWideningWarning)
    sink = DeltaSink(
        spark, folder / "table", True, enable_type_widening=True, txn_app_id=f"process-{name}", max_attempts=100
    )
    deadline, batch, extra = time.monotonic() + seconds, 0, 0
    with sink, (folder / f"{name}.report").open("w") as report:
        while time.monotonic() < deadline or batch < fewest:
            if batch % 3 == 2:
                extra += 1
            kind = TYPES[min(batch // 2, 2)]
            added = [f"'{batch}' AS {name}_{n}" for n in range(extra)]
            query = ", ".join([f"'{name}' AS process", f"{batch} AS batch", f"cast({batch} AS {kind}) AS n", *added])
            frame = spark.sql(f"SELECT {query}")
            result = sink.write_batch(frame, txn_version=batch)
            assert not result.skipped
            if batch % 5 == 4:  # as after a crash: the same batch again, by the same name
                assert sink.write_batch(frame, txn_version=batch).skipped
            line = {"batch": batch, "columns": extra, "attempts": result.attempts, "version": result.version}
            report.write(json.dumps(line) + "\n")
            report.flush()
            batch += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
