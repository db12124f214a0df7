"""The Delta room must open where pyspark is not installed: a diff needs none."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["pyspark"] = None  # an import of it raises ImportError
import pyarrow as pa
from lakeshift.delta import DeltaSink, diff_schemas
print(diff_schemas(pa.schema({"a": pa.int32()}), pa.schema({"a": pa.int64(), "b": pa.string()})).lines())
"""


def test_a_diff_needs_no_pyspark() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['+ b: string', '~ a: int -> long']", done.stderr
