"""The read kernel: the rows of data files as Spark takes them. It needs neither Spark nor the ledger's decoder."""

from __future__ import annotations

from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakeshift.iceberg.kernels.read import FileReader, FileToRead, ReadContext
from lakeshift.iceberg.spark_types import to_spark
from lakeshift.kernel import Attempt, Batches


def read_task(task: tuple[FileToRead, ...], attempt: Attempt, *, context: ReadContext, io: FileIO) -> Batches:
    """The kernel: the rows of some files, as Spark takes them."""
    reader = FileReader(context, io)
    convert = to_spark(Schema(*context.fields))
    for file in task:
        for batch in reader.read(file):
            yield convert(batch)
