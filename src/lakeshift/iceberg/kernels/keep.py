"""The kernel of a dynamic overwrite over several specs: what files of other specs keep of their rows.

A file of another spec may hold rows of the overwritten partitions beside others. It is replaced by one with
the others alone, under its own spec and partition. No Spark and no catalog here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.types import StructType

from lakeshift.iceberg.kernels.data_files import FileLayout, WrittenFile
from lakeshift.iceberg.kernels.partitioned_writer import Partition, PartitionedWriter
from lakeshift.iceberg.kernels.read import FileReader, FileToRead, ReadContext
from lakeshift.iceberg.partition_key import PartitionNumbers
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.transforms import PartitionValues
from lakeshift.kernel import Attempt


@dataclass(frozen=True)
class OldFile:
    """A live file of another spec, and its partition as data files hold it."""

    file: FileToRead
    partition: tuple[Any, ...]


@dataclass(frozen=True)
class KeepJob:
    """What every task has in common. ``overwritten`` are partitions of the spec that ``values`` computes."""

    context: ReadContext
    layout: FileLayout
    values: PartitionValues
    overwritten: PartitionNumbers
    structs: Mapping[int, StructType]
    paths: Mapping[int, PartitionPaths]
    locations: DataLocations

    def locate(self, spec_id: int, partition: Partition, file_name: str) -> str:
        return self.locations.place(file_name, self.paths[spec_id].path(partition))


@dataclass(frozen=True)
class Kept:
    """What became of one file: how many of its rows are overwritten, and the files that hold the others.

    Without overwritten rows it stays as it is, and nothing was written.
    """

    path: str
    rows_overwritten: int
    files: list[WrittenFile]


def keep_other_rows(job: KeepJob, io: FileIO, task: tuple[OldFile, ...], attempt: Attempt) -> Iterator[Kept]:
    """Write anew what each file keeps, if it loses anything."""
    reader = FileReader(job.context, io)
    finished: list[PartitionedWriter] = []
    try:
        for number, old in enumerate(task):
            spec_id = old.file.spec_id
            writer = PartitionedWriter(
                job.layout,
                spec_id,
                job.structs[spec_id],
                partial(job.locate, spec_id),
                io,
                attempt,
                first_file=number * 1000,
            )
            finished.append(writer)
            overwritten = _copy_others(job, reader, writer, old)
            if overwritten:
                yield Kept(old.file.path, overwritten, writer.finish())
            else:
                writer.abort()
                yield Kept(old.file.path, 0, [])
    except BaseException:
        for writer in finished:
            writer.abort()
        raise


def _copy_others(job: KeepJob, reader: FileReader, writer: PartitionedWriter, old: OldFile) -> int:
    overwritten = 0
    for batch in reader.read(old.file):
        arrays = job.values.compute(batch)
        partitions = pa.StructArray.from_arrays(arrays, names=[str(n) for n in range(len(arrays))])
        others = job.overwritten.look_up(pa.chunked_array([partitions])).is_null()
        lost = len(batch) - pc.sum(others, min_count=0).as_py()
        overwritten += lost
        kept = batch.filter(others) if lost else batch
        if len(kept):
            writer.add([(old.partition, kept)], kept.nbytes)
    return overwritten
