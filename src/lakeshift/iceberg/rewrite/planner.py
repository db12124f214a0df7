"""The compaction planner: from a snapshot and a filter to groups of files, in nine steps. No Spark, no JVM.

Load the data files, filter them, load the deletes, select candidates, group them by partition, pack each
partition's files, leave out what is not worth it, order the groups, give them their deletes. The work is done on
whole columns; Python loops run over specs and groups. Nothing is logged and nothing is written here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from lakeshift.errors import ConfigError
from lakeshift.iceberg.deletes import DELETE_COLUMNS, DeleteIndex
from lakeshift.iceberg.file_filter import FILTER_COLUMNS
from lakeshift.iceberg.ledger import read_ledger
from lakeshift.iceberg.partition_types import schemas_newest_first
from lakeshift.iceberg.partitioning import describe_spec
from lakeshift.iceberg.rewrite.diagnostics import FilterStats, SpecReport, SpecStatus
from lakeshift.iceberg.rewrite.grouping import Selection, build_groups
from lakeshift.iceberg.rewrite.options import RewriteOptions
from lakeshift.iceberg.rewrite.partition_filter import MultiSpecPartitionFilter
from lakeshift.iceberg.rewrite.plan import (
    RewriteDataFilesPlan,
    RewriteDataFilesPlanningResult,
    RewriteGroup,
    SpecMove,
)
from lakeshift.iceberg.rewrite.spec_files import FilteredFiles, filter_files, select_candidates
from lakeshift.iceberg.rewrite.where import file_filter
from lakeshift.iceberg.specs import spec_of, writable_spec

FILE_COLUMNS = (
    "file_path",
    "file_format",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "sequence_number",
    "manifest_path",
)
# What matching deletes needs, what thresholds count, and what applying deletes to rows will need.
DELETE_FILE_COLUMNS = (
    *DELETE_COLUMNS,
    "record_count",
    "file_size_in_bytes",
    "equality_ids",
    "manifest_path",
    "content_offset",
    "content_size_in_bytes",
)
STRICTNESS = ("fail-open", "fail-closed")


class RewriteDataFilesPlanner:
    """Plans the compaction of one snapshot of a table, whatever specs its files were written with.

    ``where`` selects files, in Spark SQL or as an expression of PyIceberg's: every file that may hold a matching row.
    With ``target_spec_id`` all files of other
    specs are to be moved to that spec; without it every file keeps its own. ``strictness`` says what happens where
    the filter cannot be decided: "fail-open" includes such partitions, "fail-closed" raises.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        *,
        where: str | BooleanExpression | None = None,
        options: RewriteOptions | None = None,
        target_spec_id: int | None = None,
        strictness: str = "fail-open",
        case_sensitive: bool = False,
        session_time_zone: str | None = None,
        snapshot_id: int | None = None,
    ) -> None:
        if strictness not in STRICTNESS:
            raise ConfigError(f"strictness is {strictness!r}; it must be {' or '.join(map(repr, STRICTNESS))}.")
        self._metadata = metadata
        self._io = io
        self._options = options or RewriteOptions()
        self._sizes = self._options.sizes(metadata.properties)
        self._target = None if target_spec_id is None else writable_spec(metadata, target_spec_id)
        self._strict = strictness == "fail-closed"
        self._snapshot_id = snapshot_id
        self._expression, self._case_sensitive = file_filter(
            where, metadata.schema(), case_sensitive=case_sensitive, session_time_zone=session_time_zone
        )

    def plan(self) -> RewriteDataFilesPlan:
        """The plan alone."""
        return self.plan_with_stats().plan

    def plan_with_stats(self) -> RewriteDataFilesPlanningResult:
        """The plan, with what the filter did to get there."""
        where = self._filter()
        snapshot = self._snapshot()
        manifests = self._manifests(snapshot)
        skipped = _skipped(where, manifests)
        found = self._filtered(where, snapshot, skipped)
        if where is not None and self._strict:
            where.require_decided()
        deletes = self._delete_files(snapshot, manifests)
        index = DeleteIndex(self._metadata, deletes) if deletes else None
        selections = [self._select(files, index, deletes) for files in found]
        groups = build_groups(self._metadata, selections, self._target, self._sizes, self._options)
        plan = RewriteDataFilesPlan(
            groups=groups,
            snapshot_id=snapshot.snapshot_id if snapshot else None,
            sequence_number=snapshot.sequence_number if snapshot else None,
            target_spec_id=None if self._target is None else self._target.spec_id,
            sizes=self._sizes,
            options=self._options,
            deletes=deletes,
            moves=_moves(groups, self._target),
        )
        fail_open = sum(int(s.found.fail_open[s.found.partitions.numbers[s.chosen]].sum()) for s in selections)
        return RewriteDataFilesPlanningResult(
            plan=plan,
            filter_stats=FilterStats() if where is None else where.stats(fail_open),
            specs=self._reports(where, manifests, skipped, selections, groups),
            warnings=() if where is None else where.warnings.kept,
            warnings_omitted=0 if where is None else where.warnings.omitted,
        )

    def _filter(self) -> MultiSpecPartitionFilter | None:
        if self._expression is None:
            return None
        return MultiSpecPartitionFilter(self._expression, self._metadata, case_sensitive=self._case_sensitive)

    def _snapshot(self) -> Snapshot | None:
        if self._snapshot_id is None:
            return self._metadata.current_snapshot()
        return self._metadata.snapshot_by_id(self._snapshot_id)

    def _manifests(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests with live files; one of a spec that the table does not have is an error."""
        if snapshot is None:
            return []
        live = [m for m in snapshot.manifests(self._io) if m.has_added_files() or m.has_existing_files()]
        for spec_id in {manifest.partition_spec_id for manifest in live}:
            spec_of(self._metadata, spec_id)
        return live

    def _delete_files(self, snapshot: Snapshot | None, manifests: Sequence[ManifestFile]) -> dict[int, pa.Table]:
        # Never pruned: a delete that is overlooked would bring its rows back.
        if snapshot is None or all(manifest.content == ManifestContent.DATA for manifest in manifests):
            return {}
        ledger = read_ledger(
            self._metadata,
            self._io,
            snapshot.snapshot_id,
            columns=DELETE_FILE_COLUMNS,
            manifest_filter=lambda manifest: manifest.content == ManifestContent.DELETES,
        )
        return dict(ledger.deletes)

    def _filtered(
        self, where: MultiSpecPartitionFilter | None, snapshot: Snapshot | None, skipped: frozenset[str]
    ) -> list[FilteredFiles]:
        if snapshot is None:
            return []
        specs = self._metadata.specs()
        by_metrics = where is not None and not all(where.is_decided_by_partitions(spec_id) for spec_id in specs)
        ledger = read_ledger(
            self._metadata,
            self._io,
            snapshot.snapshot_id,
            columns=(*FILE_COLUMNS, *(FILTER_COLUMNS if by_metrics else ())),
            manifest_filter=lambda manifest: (
                manifest.content == ManifestContent.DATA and manifest.manifest_path not in skipped
            ),
        )
        return [
            filter_files(specs[spec_id], files, where, by_metrics=by_metrics).select(FILE_COLUMNS)
            for spec_id, files in ledger.data.items()
        ]

    def _select(self, found: FilteredFiles, index: DeleteIndex | None, deletes: Mapping[int, pa.Table]) -> Selection:
        applied = None if index is None else index.match(found.spec.spec_id, found.files)
        moves = self._target is not None and found.spec.spec_id != self._target.spec_id
        selected = select_candidates(found, applied, deletes, self._sizes, self._options)
        chosen = np.arange(len(found.sizes)) if moves else np.flatnonzero(selected.candidates)
        return Selection(found, applied, chosen, selected.too_many_deletes[chosen], moves)

    def _reports(
        self,
        where: MultiSpecPartitionFilter | None,
        manifests: Sequence[ManifestFile],
        skipped: frozenset[str],
        selections: Sequence[Selection],
        groups: Sequence[RewriteGroup],
    ) -> tuple[SpecReport, ...]:
        schemas = schemas_newest_first(self._metadata)
        by_spec = {selection.spec.spec_id: selection for selection in selections}
        chosen: Counter[int] = Counter()
        for group in groups:
            for part in group.inputs:
                chosen[part.spec_id] += part.length
        reports = []
        for spec_id, spec in sorted(self._metadata.specs().items()):
            mine = [m for m in manifests if m.partition_spec_id == spec_id and m.content == ManifestContent.DATA]
            unread = sum(manifest.manifest_path in skipped for manifest in mine)
            status, detail = (SpecStatus.NO_FILTER, "") if where is None else where.status(spec_id)
            reports.append(
                SpecReport(
                    spec_id=spec_id,
                    fields=tuple(describe_spec(spec, schemas)),
                    status=status,
                    detail=detail,
                    manifests_read=len(mine) - unread,
                    manifests_skipped=unread,
                    chosen=chosen[spec_id],
                    **(by_spec[spec_id].counts() if spec_id in by_spec else {}),
                )
            )
        return tuple(reports)


def _skipped(where: MultiSpecPartitionFilter | None, manifests: Sequence[ManifestFile]) -> frozenset[str]:
    """The data manifests that need not be opened, judged by their summaries, each by its own spec's evaluator."""
    if where is None:
        return frozenset()
    by_spec: dict[int, list[ManifestFile]] = {}
    for manifest in manifests:
        if manifest.content == ManifestContent.DATA:
            by_spec.setdefault(manifest.partition_spec_id, []).append(manifest)
    return frozenset(
        manifest.manifest_path
        for spec_id, mine in by_spec.items()
        for manifest, can_match in zip(mine, where.matches_manifests(spec_id, mine), strict=True)
        if not can_match
    )


def _moves(groups: Sequence[RewriteGroup], target: PartitionSpec | None) -> tuple[SpecMove, ...]:
    """How many files, bytes and rows leave each spec."""
    if target is None:
        return ()
    totals: dict[int, list[int]] = {}
    for group in groups:
        for part in group.inputs:
            if part.spec_id != target.spec_id:
                total = totals.setdefault(part.spec_id, [0, 0, 0])
                total[0] += part.length
                total[1] += pc.sum(part.files.column("file_size_in_bytes")).as_py()
                total[2] += pc.sum(part.files.column("record_count")).as_py()
    return tuple(SpecMove(spec_id, *total) for spec_id, total in sorted(totals.items()))
