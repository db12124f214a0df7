"""From a plan to tasks for kernels: the files of each group, cut into pieces that executors can work on at once.

No Spark here. A group is split only as far as each piece still makes several files, so that pieces leave no more
small files behind than the group as a whole would.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyiceberg.manifest import FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import UnknownTransform

from lakeshift.errors import UnsupportedTableError
from lakeshift.iceberg.kernels.applied_deletes import DeleteFile, check_delete_file
from lakeshift.iceberg.kernels.data_files import FileLayout
from lakeshift.iceberg.kernels.move import MoveTask, Places, WholeFiles, partition_text
from lakeshift.iceberg.kernels.read import FileToRead, check_readable
from lakeshift.iceberg.kernels.rewrite import OutputSpec, RewriteJob, RewriteTask
from lakeshift.iceberg.partition_path import DataLocations, PartitionPaths
from lakeshift.iceberg.partition_split import partition_tuples
from lakeshift.iceberg.read import read_context
from lakeshift.iceberg.rewrite.plan import GroupInputs, RewriteDataFilesPlan, RewriteGroup
from lakeshift.iceberg.scan import delete_files
from lakeshift.iceberg.specs import partition_type, spec_of

# A task has at least so many bytes, and so many new files, before its group is split further.
TASK_BYTES = 128 * 1024 * 1024
_FILES_PER_TASK = 2
# Partitions so many to a task are about as many bytes for each, wherever chance puts them.
_HOMES_PER_PLACE = 32


class GroupFiles:
    """Makes files to read of a plan's groups; the plan's delete files are prepared once."""

    def __init__(self, plan: RewriteDataFilesPlan) -> None:
        self._deletes: dict[int, list[DeleteFile]] = {
            spec_id: list(delete_files(table)) for spec_id, table in plan.deletes.items()
        }

    def of(self, group: RewriteGroup) -> list[FileToRead]:
        """The group's files, each with the deletes that apply to it."""
        return [file for part in group.inputs for file in self._of_spec(part)]

    def _of_spec(self, part: GroupInputs) -> Iterator[FileToRead]:
        by_row: dict[int, list[DeleteFile]] = {}
        applied = part.applied
        if applied is not None:
            pairs = applied.pairs()
            for row, spec_id, place in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
                by_row.setdefault(row, []).append(self._deletes[spec_id][place])
        files = part.files
        names = ("file_path", "file_format", "file_size_in_bytes", "partition", "record_count")
        columns = (files.column(name).to_pylist() for name in names)
        for row, (path, file_format, length, partition, count) in enumerate(zip(*columns, strict=True)):
            yield FileToRead(
                path=path,
                file_format=file_format,
                length=length,
                spec_id=part.spec_id,
                partition=tuple(partition.values()),
                record_count=count,
                deletes=tuple(by_row.get(row, ())),
            )


def check_rewritable(metadata: TableMetadata, plan: RewriteDataFilesPlan) -> None:
    """Refuse what the kernels cannot read or write, by name, before anything is written."""
    for group in plan.groups:
        for field in spec_of(metadata, group.output_spec_id).fields:
            if isinstance(field.transform, UnknownTransform):
                raise UnsupportedTableError(
                    f"Partition field {field.name!r} of spec {group.output_spec_id} has a transform that lakeshift "
                    f"does not know ({field.transform!r}), so that files of this spec cannot be written. Leave them "
                    "out by a filter, or move them to another spec with target_spec_id. Nothing was written."
                )
    for inputs in {id(part.source): part.source for group in plan.groups for part in group.inputs}.values():
        chosen = inputs.files.select(["file_path", "file_format"]).take(inputs.rows)
        for path, kind in zip(*(column.to_pylist() for column in chosen.columns), strict=True):
            if kind.upper() != FileFormat.PARQUET.value:
                raise UnsupportedTableError(
                    f"{path} is a data file in {kind}; lakeshift rewrites {FileFormat.PARQUET.value}. Nothing was "
                    "written; leave it out by a filter, or rewrite it with another engine."
                )
    try:
        for table in plan.deletes.values():
            for delete in delete_files(table):
                check_delete_file(delete)
    except UnsupportedTableError:
        # Only those count that apply to a file of the plan, which takes longer to find out.
        made = GroupFiles(plan)
        for group in plan.groups:
            check_readable(made.of(group))


def rewrite_job(metadata: TableMetadata, plan: RewriteDataFilesPlan) -> RewriteJob:
    """What all tasks of a plan have in common."""
    layout = FileLayout.of(metadata)
    schema = metadata.schema()
    outputs = {}
    for spec_id in {group.output_spec_id for group in plan.groups}:
        spec = spec_of(metadata, spec_id)
        struct = partition_type(metadata, spec)
        outputs[spec_id] = OutputSpec(spec_id, struct, PartitionPaths.of(spec, struct))
    return RewriteJob(
        replace(layout, options=replace(layout.options, target_file_size=plan.sizes.target)),
        read_context(metadata, schema, tuple(field.name for field in schema.fields)),
        plan.sizes,
        DataLocations.of(metadata.location, metadata.properties),
        outputs,
    )


def rewrite_tasks(group: RewriteGroup, files: Sequence[FileToRead], output: OutputSpec) -> list[RewriteTask]:
    """The tasks of a group whose rows all go into one partition, given its files."""
    pieces = min(group.expected_output_files // _FILES_PER_TASK, group.input_bytes // TASK_BYTES)
    partition = partition_of(group, output)
    return [RewriteTask(tuple(part), group.output_spec_id, partition) for part in cut(files, max(1, pieces))]


def move_tasks(group: RewriteGroup, files: Sequence[FileToRead], places: Sequence[int], cores: int) -> list[MoveTask]:
    """The tasks that read a group whose rows move, given its files and the numbers of the tasks that write them.

    Files that already have the new spec belong to one new partition each. The task that writes it reads them.
    """
    moving: list[FileToRead] = []
    there: dict[str, list[FileToRead]] = {}
    for file, partition in zip(files, _new_partitions(group), strict=True):
        if partition is None:
            moving.append(file)
        else:
            there.setdefault(partition, []).append(file)
    homes = _homes({text: sum(file.length for file in same) for text, same in there.items()}, places)
    given = Places(tuple(places), homes)
    whole = [WholeFiles(given.of_text(text), text, tuple(same)) for text, same in there.items()]
    size = sum(file.length for file in moving)
    parts = cut(moving, max(1, size // TASK_BYTES, min(cores, len(moving))))
    # All of them tell of some files, so that none of them has to carry a list of a million.
    return [MoveTask(tuple(part), given, tuple(whole[number :: len(parts)])) for number, part in enumerate(parts)]


def _new_partitions(group: RewriteGroup) -> Iterator[str | None]:
    """For each file of a group the one new partition that all of its rows belong to; None if that is not known."""
    for part in group.inputs:
        if part.spec_id != group.output_spec_id:
            yield from [None] * part.length
        else:
            values = part.files.column("partition").combine_chunks().flatten()
            yield from map(partition_text, partition_tuples(values))


def _homes(sizes: Mapping[str, int], places: Sequence[int]) -> dict[str, int]:
    """A place for each partition, so that all have about as many bytes; none if partitions are so many anyway."""
    if len(sizes) > _HOMES_PER_PLACE * len(places):
        return {}
    loads = [(0, number) for number in range(len(places))]
    homes = {}
    for text, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        load, number = heapq.heappop(loads)
        homes[text] = places[number]
        heapq.heappush(loads, (load + size, number))
    return homes


def partition_of(group: RewriteGroup, output: OutputSpec) -> tuple[Any, ...]:
    """The new files' partition as metadata holds it: an unpartitioned spec may still have void fields."""
    assert group.key is not None
    return (None,) * len(output.struct.fields) if group.key.partition is None else group.key.partition


def cut(files: Sequence[FileToRead], pieces: int) -> list[list[FileToRead]]:
    """Files in so many pieces of about equal size, in their order; a file larger than a piece is cut itself."""
    if pieces <= 1:
        return [list(files)]
    each = max(1, sum(file.length for file in files) / pieces)
    found: list[list[FileToRead]] = [[]]
    filled = 0.0
    for file in _stretches(files, int(each)):
        size = _size(file)
        if found[-1] and filled + size / 2 > each and len(found) < pieces:
            found.append([])
            filled = 0.0
        found[-1].append(file)
        filled += size
    return found


def _stretches(files: Iterable[FileToRead], each: int) -> Iterator[FileToRead]:
    for file in files:
        parts = -(-file.length // each) if file.length > each * 1.5 else 1
        if parts == 1:
            yield file
            continue
        # Row groups are read by the piece in which they begin, so that any places will do to cut at.
        ends = [file.length * number // parts for number in range(1, parts)]
        for begin, end in zip([0, *ends], [*ends, max(file.length, ends[-1] + 1)], strict=True):
            yield replace(file, stretch=(begin, end))


def _size(file: FileToRead) -> int:
    return file.length if file.stretch is None else file.stretch[1] - file.stretch[0]
