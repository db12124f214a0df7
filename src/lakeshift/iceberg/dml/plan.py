"""Which files an operation has to look at: those that can hold rows it changes, and those it can drop unread.

Everything comes from the ledger of one snapshot; no data file is opened, and no Spark is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from lakeshift.iceberg.commit.change_set import RemovedFile
from lakeshift.iceberg.deletes import match_deletes
from lakeshift.iceberg.file_filter import FILTER_COLUMNS, files_that_can_match
from lakeshift.iceberg.kernels.position_deletes import MarkedFile
from lakeshift.iceberg.kernels.read import FileToRead, check_readable
from lakeshift.iceberg.ledger import Ledger, read_ledger
from lakeshift.iceberg.partition_split import partition_tuples
from lakeshift.iceberg.scan import DELETE_FILE_COLUMNS, FILE_COLUMNS, OPEN_FILE_COST, SPLIT_SIZE, files_to_read
from lakeshift.iceberg.table_properties import whole_number
from lakeshift.iceberg.whole_files import files_that_match_wholly

_TASKS_PER_CORE = 3
_LEAST_FILES = 4


@dataclass(frozen=True)
class Candidate:
    """A data file that can hold rows to change: as kernels read it, as deletes refer to it, as a commit removes it."""

    number: int
    read: FileToRead
    marked: MarkedFile
    removed: RemovedFile


@dataclass(frozen=True)
class Target:
    """The files of one snapshot that an operation looks at, and those it knows to match wholly, unread."""

    metadata: TableMetadata
    snapshot_id: int | None
    live_files: int
    candidates: tuple[Candidate, ...]
    whole: tuple[Candidate, ...]

    @property
    def whole_rows(self) -> int:
        return sum(file.read.record_count for file in self.whole)

    def by_number(self) -> dict[int, Candidate]:
        return {file.number: file for file in self.candidates}


def plan_target(
    metadata: TableMetadata,
    io: FileIO,
    branch: str,
    where: BooleanExpression,
    *,
    drop_whole: bool = False,
    schema: Schema | None = None,
) -> Target:
    """The files on a branch that can hold rows for which ``where`` is true.

    With ``drop_whole``, which needs an exact ``where``, files without deletes that match wholly are set apart.
    """
    schema = schema or metadata.schema()
    head = metadata.snapshot_by_name(branch)
    if head is None or where == AlwaysFalse():
        return Target(metadata, head.snapshot_id if head else None, 0, (), ())
    data = read_ledger(
        metadata,
        io,
        head.snapshot_id,
        columns=[*dict.fromkeys((*FILE_COLUMNS, *FILTER_COLUMNS, "manifest_path"))],
        manifest_filter=lambda manifest: manifest.content == ManifestContent.DATA,
    )
    deletes = read_ledger(
        metadata,
        io,
        head.snapshot_id,
        columns=DELETE_FILE_COLUMNS,
        manifest_filter=lambda manifest: manifest.content == ManifestContent.DELETES,
    )
    chosen = {}
    for spec_id, files in data.data.items():
        if where != AlwaysTrue():
            files = files.filter(files_that_can_match(where, spec_id, files, metadata, schema=schema))
        if files.num_rows:
            chosen[spec_id] = files
    ledger = Ledger(metadata, head, chosen, deletes.deletes)
    candidates = _candidates(ledger)
    whole = _whole_numbers(ledger, where, schema) if drop_whole else set()
    whole = {file.number for file in candidates if file.number in whole and not file.read.deletes}
    rest = tuple(file for file in candidates if file.number not in whole)
    check_readable(file.read for file in rest)
    return Target(
        metadata,
        head.snapshot_id,
        sum(map(len, data.data.values())),
        rest,
        tuple(file for file in candidates if file.number in whole),
    )


def _candidates(ledger: Ledger) -> list[Candidate]:
    read = files_to_read(ledger, match_deletes(ledger))
    found: list[Candidate] = []
    for spec_id, table in ledger.data.items():
        partition = table.column("partition").combine_chunks()
        columns = [pc.struct_field(partition, [index]) for index in range(partition.type.num_fields)]
        partitions: Sequence[tuple[Any, ...]] = partition_tuples(columns) if columns else [()] * table.num_rows
        for values, manifest in zip(partitions, table.column("manifest_path").to_pylist(), strict=True):
            file = next(read)
            marked, removed = MarkedFile(file.path, spec_id, values), RemovedFile(file.path, spec_id, manifest)
            found.append(Candidate(len(found), file, marked, removed))
    return found


def _whole_numbers(ledger: Ledger, where: BooleanExpression, schema: Schema) -> set[int]:
    found: set[int] = set()
    first = 0
    for spec_id, table in ledger.data.items():
        whole = files_that_match_wholly(where, spec_id, table, ledger.metadata, schema)
        found.update(first + row for row in pc.indices_nonzero(whole).to_pylist())
        first += table.num_rows
    return found


def into_tasks(files: Iterable[Candidate], properties: Mapping[str, str], cores: int) -> list[tuple[Candidate, ...]]:
    """Files in groups of about ``read.split.target-size``, or less where that keeps more cores busy.

    Files are never cut, so that all deletes of a file come from one task; those of a partition lie together.
    """
    cost = whole_number(properties, *OPEN_FILE_COST)
    ordered = sorted(files, key=lambda file: (file.marked.spec_id, repr(file.marked.partition), file.number))
    weights = [max(file.read.length, cost) + sum(max(d.length, cost) for d in file.read.deletes) for file in ordered]
    # Several tasks a core, so that one which takes longer does not keep the others waiting; none for next to nothing.
    share = max(sum(weights) // (cores * _TASKS_PER_CORE), _LEAST_FILES * cost, 1)
    target = min(whole_number(properties, *SPLIT_SIZE), share)
    tasks: list[tuple[Candidate, ...]] = []
    group: list[Candidate] = []
    filled = 0
    for file, weight in zip(ordered, weights, strict=True):
        if group and filled + weight > target * 1.05:
            tasks.append(tuple(group))
            group, filled = [], 0
        group.append(file)
        filled += weight
    return [*tasks, tuple(group)] if group else tasks
