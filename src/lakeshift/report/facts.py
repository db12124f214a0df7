"""What a report shows, as plain records computed from the ledger and the metadata. No HTML and no Spark here.

Nothing is left out or cut in these records: what fits on a page is the page's concern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from lakeshift.iceberg.deletes import DATA_COLUMNS, DELETE_COLUMNS, match_deletes
from lakeshift.iceberg.ledger import Ledger, read_ledger
from lakeshift.iceberg.partition_types import schemas_newest_first
from lakeshift.iceberg.partitioning import describe_spec
from lakeshift.iceberg.rewrite.options import FileSizes, RewriteOptions
from lakeshift.iceberg.rewrite.packing import Numbers
from lakeshift.report.delete_costs import DeleteCost, delete_costs
from lakeshift.report.history import (
    ColumnFacts,
    SchemaFacts,
    SnapshotFacts,
    columns_of,
    schema_history,
    snapshot_history,
)
from lakeshift.report.layout import SpecPartitions, spec_partitions
from lakeshift.report.redaction import shown_address, shown_properties

_FILE_COLUMNS = (*DATA_COLUMNS, *DELETE_COLUMNS, "record_count", "file_size_in_bytes", "snapshot_id")
LEDGER_COLUMNS = (*dict.fromkeys(_FILE_COLUMNS), "content_size_in_bytes")


@dataclass(frozen=True)
class SpecFacts:
    """One partition spec and what lies under it; the times are those of the oldest and newest live data file.

    A time is None where there is no such file, or where the snapshot that wrote it is no longer known.
    """

    spec_id: int
    fields: tuple[str, ...]
    is_default: bool
    partitions: int
    data_files: int
    bytes: int
    rows: int
    delete_files: int
    files_with_deletes: int
    deleted_rows: int
    small_files: int
    large_files: int
    oldest_file_ms: int | None
    newest_file_ms: int | None


@dataclass(frozen=True)
class SizeBucket:
    """How many data files are of at least ``low`` and less than ``high`` bytes, in all and by spec."""

    low: int
    high: int
    files: int
    bytes: int
    by_spec: Mapping[int, int]


@dataclass(frozen=True)
class Totals:
    """What the snapshot has in all."""

    partitions: int
    data_files: int
    bytes: int
    rows: int
    delete_files: int
    delete_bytes: int
    files_with_deletes: int
    deleted_rows: int


@dataclass(frozen=True)
class TableFacts:
    """All that a report tells of a table, for one snapshot."""

    name: str
    location: str
    table_uuid: str
    format_version: int
    branch: str | None
    snapshot_id: int | None
    default_spec_id: int
    sizes: FileSizes
    totals: Totals
    specs: tuple[SpecFacts, ...]
    partitions: tuple[SpecPartitions, ...]
    file_sizes: tuple[SizeBucket, ...]
    deletes: tuple[DeleteCost, ...]
    snapshots: tuple[SnapshotFacts, ...]
    schemas: tuple[SchemaFacts, ...]
    columns: tuple[ColumnFacts, ...]
    properties: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain values that JSON can hold, every partition included."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        return {
            **plain,
            "sizes": asdict(self.sizes),
            "totals": asdict(self.totals),
            **{name: [asdict(item) for item in getattr(self, name)] for name in _RECORDS},
            "partitions": [record for spec in self.partitions for record in spec.records()],
            "properties": dict(self.properties),
        }


_PLAIN = ("name", "location", "table_uuid", "format_version", "branch", "snapshot_id", "default_spec_id")
_RECORDS = ("specs", "file_sizes", "deletes", "snapshots", "schemas", "columns")


def gather_facts(
    name: str, metadata: TableMetadata, io: FileIO, *, branch: str | None = None, snapshot_id: int | None = None
) -> TableFacts:
    """Compute the facts of a snapshot, by default the current one. ``branch`` is only told, as where it came from."""
    sizes = RewriteOptions().sizes(metadata.properties)
    ledger = read_ledger(metadata, io, snapshot_id, columns=LEDGER_COLUMNS)
    applied = match_deletes(ledger) if ledger.deletes else {}
    partitions = {
        spec_id: spec_partitions(ledger, spec_id, applied.get(spec_id), ledger.deletes) for spec_id in ledger.data
    }
    specs = tuple(_spec_facts(ledger, spec_id, partitions.get(spec_id), sizes) for spec_id in sorted(metadata.specs()))
    costs = delete_costs(ledger)
    return TableFacts(
        name=name,
        location=shown_address(metadata.location),
        table_uuid=str(metadata.table_uuid),
        format_version=metadata.format_version,
        branch=branch,
        snapshot_id=ledger.snapshot.snapshot_id if ledger.snapshot else None,
        default_spec_id=metadata.default_spec_id,
        sizes=sizes,
        totals=Totals(
            partitions=sum(spec.partitions for spec in specs),
            data_files=sum(spec.data_files for spec in specs),
            bytes=sum(spec.bytes for spec in specs),
            rows=sum(spec.rows for spec in specs),
            delete_files=sum(spec.delete_files for spec in specs),
            delete_bytes=sum(cost.bytes for cost in costs),
            files_with_deletes=sum(spec.files_with_deletes for spec in specs),
            deleted_rows=sum(spec.deleted_rows for spec in specs),
        ),
        specs=specs,
        partitions=tuple(partitions.values()),
        file_sizes=_size_buckets(ledger),
        deletes=costs,
        snapshots=snapshot_history(metadata, ledger.snapshot),
        schemas=schema_history(metadata),
        columns=columns_of(metadata.schema()),
        properties=shown_properties(metadata.properties),
    )


def _spec_facts(ledger: Ledger, spec_id: int, partitions: SpecPartitions | None, sizes: FileSizes) -> SpecFacts:
    metadata = ledger.metadata
    counts = {} if partitions is None else {name: int(c.sum()) for name, c in partitions.counts.columns().items()}
    bytes_of_files = _sizes(ledger, spec_id)
    times: list[int] = []
    if spec_id in ledger.data:
        known = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
        writers = ledger.data[spec_id].column("snapshot_id").unique().to_pylist()
        # One unknown writer makes the oldest unknown: it may have been long before.
        times = sorted(known[writer] for writer in writers if writer in known)
        oldest_known = len(times) == len(writers)
    deletes = ledger.deletes.get(spec_id)
    return SpecFacts(
        spec_id=spec_id,
        fields=tuple(describe_spec(metadata.specs()[spec_id], schemas_newest_first(metadata))),
        is_default=spec_id == metadata.default_spec_id,
        partitions=0 if partitions is None else len(partitions),
        data_files=counts.get("files", 0),
        bytes=counts.get("bytes", 0),
        rows=counts.get("rows", 0),
        delete_files=0 if deletes is None else deletes.num_rows,
        files_with_deletes=counts.get("files_with_deletes", 0),
        deleted_rows=counts.get("deleted_rows", 0),
        small_files=int((bytes_of_files < sizes.smallest).sum()),
        large_files=int((bytes_of_files > sizes.largest).sum()),
        oldest_file_ms=times[0] if times and oldest_known else None,
        newest_file_ms=times[-1] if times else None,
    )


def _sizes(ledger: Ledger, spec_id: int) -> Numbers:
    if spec_id not in ledger.data:
        return np.zeros(0, np.int64)
    found: Numbers = ledger.data[spec_id].column("file_size_in_bytes").to_numpy()
    return found


def _size_buckets(ledger: Ledger) -> tuple[SizeBucket, ...]:
    """Data files by size, each bucket twice as wide as the one before; no gaps between them."""
    by_spec = {spec_id: _sizes(ledger, spec_id) for spec_id in ledger.data}
    if not by_spec:
        return ()
    # Not a logarithm, which would round 2**n - 1 up where n is large.
    powers = {spec_id: np.frexp(np.maximum(sizes, 1).astype(np.float64))[1] - 1 for spec_id, sizes in by_spec.items()}
    first = min(int(found.min()) for found in powers.values())
    last = max(int(found.max()) for found in powers.values())
    buckets = []
    for power in range(first, last + 1):
        inside = {spec_id: found == power for spec_id, found in powers.items()}
        files = {spec_id: int(mask.sum()) for spec_id, mask in inside.items()}
        buckets.append(
            SizeBucket(
                low=0 if power == 0 else 2**power,
                high=2 ** (power + 1),
                files=sum(files.values()),
                bytes=sum(int(by_spec[spec_id][mask].sum()) for spec_id, mask in inside.items()),
                by_spec={spec_id: number for spec_id, number in files.items() if number},
            )
        )
    return tuple(buckets)
