"""What delete files cost: how many data files a reader has to open them for, kind by kind.

From metadata alone. Whether a position delete that covers a whole partition still refers to a live file stands in
the file itself, which is not opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata

from lakeshift.iceberg.deletes import AppliedDeletes, DeleteIndex
from lakeshift.iceberg.ledger import Ledger
from lakeshift.iceberg.partition_types import is_unpartitioned
from lakeshift.iceberg.rewrite.packing import Numbers

POSITIONS, VECTORS = "position deletes", "deletion vectors"
EQUALITIES, GLOBAL_EQUALITIES = "equality deletes", "equality deletes of the whole table"


@dataclass(frozen=True)
class DeleteCost:
    """The delete files of one kind, and what they apply to.

    ``entries`` are the positions or keys in them; ``unused_files`` apply to no live data file; ``data_files`` and
    ``data_rows`` are what has to be read with them; ``opened`` is how often a full read opens one of them.
    """

    kind: str
    files: int
    bytes: int
    entries: int
    unused_files: int
    data_files: int
    data_rows: int
    opened: int


@dataclass(frozen=True)
class _Kind:
    """Delete files of one kind by spec. ``within`` has besides them those that decide whether they count."""

    name: str
    deletes: Mapping[int, pa.Table]
    within: Mapping[int, pa.Table]
    over: Mapping[int, pa.Table]
    everywhere: bool = False


def delete_costs(ledger: Ledger) -> tuple[DeleteCost, ...]:
    """The cost of each kind of delete file that the snapshot has."""
    return tuple(_cost(ledger, kind) for kind in _kinds(ledger.metadata, ledger.deletes) if kind.deletes)


def _kinds(metadata: TableMetadata, deletes: Mapping[int, pa.Table]) -> list[_Kind]:
    def chosen(condition: Callable[[pa.Table], pa.ChunkedArray]) -> dict[int, pa.Table]:
        found = {spec_id: table.filter(condition(table)) for spec_id, table in deletes.items()}
        return {spec_id: table for spec_id, table in found.items() if table.num_rows}

    def is_vector(table: pa.Table) -> pa.ChunkedArray:
        return pc.equal(table.column("file_format"), FileFormat.PUFFIN.value)

    def is_position(table: pa.Table) -> pa.ChunkedArray:
        return pc.equal(table.column("content"), DataFileContent.POSITION_DELETES.value)

    specs = metadata.specs()
    both, vectors = chosen(is_position), chosen(is_vector)
    positions = chosen(lambda table: pc.and_(is_position(table), pc.invert(is_vector(table))))
    equalities = chosen(lambda table: pc.invert(is_position(table)))
    of_partitions = {number: table for number, table in equalities.items() if not is_unpartitioned(specs[number])}
    of_all = {number: table for number, table in equalities.items() if is_unpartitioned(specs[number])}
    return [
        # Position delete files no longer count where a file has a vector: they are matched with vectors at hand.
        _Kind(POSITIONS, positions, both, vectors),
        _Kind(VECTORS, vectors, vectors, {}),
        _Kind(EQUALITIES, of_partitions, of_partitions, {}),
        _Kind(GLOBAL_EQUALITIES, of_all, of_all, {}, everywhere=True),
    ]


def _cost(ledger: Ledger, kind: _Kind) -> DeleteCost:
    index = DeleteIndex(ledger.metadata, kind.within)
    others = DeleteIndex(ledger.metadata, kind.over) if kind.over else None
    used: list[int] = []
    data_files = data_rows = opened = 0
    for spec_id, files in ledger.data.items():
        applied = index.match(spec_id, files)
        counts: Numbers = applied.counts.to_numpy()
        distinct = applied.distinct
        if others is not None:
            besides: AppliedDeletes = others.match(spec_id, files)
            counts, distinct = counts - besides.counts.to_numpy(), distinct - besides.distinct
        used.append(distinct)
        data_files += int((counts > 0).sum())
        data_rows += int(files.column("record_count").to_numpy()[counts > 0].sum())
        opened += int(counts.sum())
    tables = list(kind.deletes.values())
    number = sum(table.num_rows for table in tables)
    # Those of the whole table apply from some age on: the spec with the oldest files sees all that are used at all.
    in_use = max(used, default=0) if kind.everywhere else sum(used)
    return DeleteCost(
        kind=kind.name,
        files=number,
        bytes=sum(int(_own_bytes(table).sum()) for table in tables),
        entries=sum(int(table.column("record_count").to_numpy().sum()) for table in tables),
        unused_files=number - in_use,
        data_files=data_files,
        data_rows=data_rows,
        opened=opened,
    )


def _own_bytes(deletes: pa.Table) -> Numbers:
    """The size of each delete; several vectors share a file, of which each has a part."""
    own = pc.coalesce(deletes.column("content_size_in_bytes"), deletes.column("file_size_in_bytes"))
    found: Numbers = np.asarray(own.to_numpy(), np.int64)
    return found
