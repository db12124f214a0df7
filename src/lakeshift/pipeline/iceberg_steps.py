"""Steps on Iceberg tables: append, overwrite and merge, and the rewrite afterwards.

Every commit carries the run's id and the step's name in its snapshot's summary. Before a step writes, it looks for
them among the ancestors of the branch's head.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot

from lakeshift.errors import ConfigError
from lakeshift.pipeline.model import IcebergAppend, IcebergMerge, IcebergOverwrite, NewTable, Rewrite
from lakeshift.pipeline.step import RUN_ID, STEP, Explanation, RunMarks
from lakeshift.pipeline.summary import count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeshift.iceberg.dml.merge import Merge
    from lakeshift.iceberg.table import IcebergTable
    from lakeshift.lake import Lake
    from lakeshift.spark.progress import Progress


def find_snapshots(metadata: TableMetadata, branch: str | None, run_id: str, step: str) -> list[Snapshot]:
    """The snapshots that a step of a run has committed, newest first, among the ancestors of the branch's head."""
    found = []
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    ref = metadata.refs.get(branch or MAIN_BRANCH)
    snapshot = by_id.get(ref.snapshot_id) if ref is not None else None
    while snapshot is not None:
        properties = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if properties.get(RUN_ID) == run_id and properties.get(STEP) == step:
            found.append(snapshot)
        snapshot = by_id.get(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id is not None else None
    return found


@dataclass(frozen=True)
class IcebergWriteStep:
    """Rows that are appended to a table, overwrite it, or are merged into it."""

    name: str
    lake: Lake
    base: Path
    frame: DataFrame
    model: IcebergAppend | IcebergOverwrite | IcebergMerge

    @property
    def target(self) -> str:
        return self.model.table

    def committed(self, marks: RunMarks) -> dict[str, Any] | None:
        table = self.lake.find_iceberg(self.target)
        if table is None:
            return None
        found = find_snapshots(table.table.metadata, self.model.branch, marks.run_id, self.name)
        if not found:
            return None
        done = _of_summary(found[0])
        if not isinstance(self.model, IcebergMerge) and self.model.quarantine is not None:
            done["rows_quarantined"] = _rows_in(self._quarantine(marks))
        return done

    def explain(self) -> Explanation:
        table = self.lake.find_iceberg(self.target)
        if table is None:
            return self._explain_creation()
        if isinstance(self.model, IcebergMerge):
            return self._explain_merge(table, self.model)
        return self._explain_rows(table, self.model)

    def execute(self, marks: RunMarks, progress: Progress | None) -> dict[str, Any]:
        table = self.lake.find_iceberg(self.target) or self._create()
        properties, branch = marks.properties(self.name), self.model.branch
        if isinstance(self.model, IcebergMerge):
            result = self._merge(table, self.model, properties, progress).execute()
            return {"operation": "merge", **result.to_dict()}
        arguments: dict[str, Any] = {"branch": branch, "snapshot_properties": properties, "progress": progress}
        arguments["spec_id"] = self.model.spec_id
        if self.model.quarantine is not None:
            folder = self._quarantine(marks)
            # What an attempt left that was killed before it committed belongs to no commit.
            if Path(folder).is_dir():
                shutil.rmtree(folder)
            arguments |= {"on_bad_rows": "quarantine", "quarantine": folder}
        if isinstance(self.model, IcebergAppend):
            result = table.append(self.frame, **arguments)
        else:
            dynamic, isolation = self.model.partitions == "dynamic", self.model.isolation
            result = table.overwrite(self.frame, self.model.where, dynamic=dynamic, isolation=isolation, **arguments)
        done = {"operation": self.model.mode, **result.to_dict()}
        if result.rows_quarantined:
            done["quarantine"] = self._quarantine(marks)
        return done

    def _quarantine(self, marks: RunMarks) -> str:
        """A folder of this run's own, so that what a killed attempt left can be told from the rest."""
        from lakeshift.pipeline.paths import resolve

        assert not isinstance(self.model, IcebergMerge)
        return f"{resolve(self.base, str(self.model.quarantine)).rstrip('/')}/{self.name}/{marks.run_id}"

    def _merge(
        self, table: IcebergTable, model: IcebergMerge, properties: dict[str, str], progress: Progress | None
    ) -> Merge:
        merge = table.merge(
            self.frame,
            model.on,
            model.row_level_mode,
            branch=model.branch,
            snapshot_properties=properties,
            progress=progress,
        )
        for clause in model.clauses:
            match clause.when, clause.then:
                case "matched", "update":
                    merge.when_matched_update(clause.set_, clause.condition)
                case "matched", _:
                    merge.when_matched_delete(clause.condition)
                case "not-matched", _:
                    merge.when_not_matched_insert(clause.set_, clause.condition)
                case _, "update":
                    merge.when_not_matched_by_source_update(clause.set_ or {}, clause.condition)
                case _:
                    merge.when_not_matched_by_source_delete(clause.condition)
        return merge

    def _create(self) -> IcebergTable:
        new = self._new_table()
        return self.lake.create_iceberg_table(self.target, self.frame.schema, new.partition_by, new.properties)

    def _new_table(self) -> NewTable:
        if self.model.create is None:
            try:
                self.lake.iceberg(self.target)  # raises an error that tells what there is
            except ConfigError as error:
                raise ConfigError(
                    f"{error} Or let the step create it, with create: {{partition_by: [...]}}."
                ) from error
            raise ConfigError(f"The table {self.target!r} came into being just now; run it again.")
        return self.model.create

    def _explain_creation(self) -> Explanation:
        from lakeshift.iceberg.partitioning import build_partition_spec, describe_spec
        from lakeshift.iceberg.schemas import to_iceberg_schema

        new = self._new_table()
        schema = to_iceberg_schema(self.frame.schema)
        spec = build_partition_spec(schema, new.partition_by)
        columns = {field.name: str(field.field_type) for field in schema.fields}
        fields = describe_spec(spec, [schema])
        lines = [f"create {self.target}, {_partitioned(fields)}", *(f"  {n} {kind}" for n, kind in columns.items())]
        return Explanation(
            self.name,
            f"create and {self.model.mode}",
            self.target,
            tuple(lines),
            {"columns": columns, "spec": fields},
        )

    def _explain_rows(self, table: IcebergTable, model: IcebergAppend | IcebergOverwrite) -> Explanation:
        from lakeshift.iceberg.input_columns import InputColumns
        from lakeshift.iceberg.partitioning import describe_spec
        from lakeshift.iceberg.write import WriteRequest, check_writable
        from lakeshift.spark.frames import arrow_schema_of, is_case_sensitive

        metadata = table.table.metadata
        request = WriteRequest(self.frame, model.spec_id, branch=model.branch)
        spec = check_writable(table.table, request)
        fitted = InputColumns.plan(
            metadata.schema(),
            arrow_schema_of(self.frame),
            case_sensitive=is_case_sensitive(self.lake.spark),
            table=self.target,
        )
        absent = [f.name for f in metadata.schema().fields if f.field_id not in fitted.paths(metadata.schema())]
        fields = describe_spec(spec, [metadata.schema(), *reversed(metadata.schemas)])
        lines = [f"{self._doing(model)} under spec {spec.spec_id}, {_partitioned(fields)}"]
        if absent:
            lines.append(f"  columns that the rows leave out: {', '.join(absent)}")
        if spec.spec_id != metadata.default_spec_id:
            lines.append(f"  the table's default spec is {metadata.default_spec_id}")
        if model.quarantine is not None:
            lines.append(f"  rows that the table cannot hold go to {model.quarantine}")
        facts = {"spec_id": spec.spec_id, "spec": fields, "columns_left_out": absent}
        return Explanation(self.name, model.mode, self.target, tuple(lines), facts)

    def _doing(self, model: IcebergAppend | IcebergOverwrite) -> str:
        if isinstance(model, IcebergAppend):
            return "append"
        if model.where is not None:
            return f"replace the rows where {model.where},"
        return "replace the partitions that rows touch" if model.partitions == "dynamic" else "replace all rows"

    def _explain_merge(self, table: IcebergTable, model: IcebergMerge) -> Explanation:
        from lakeshift.iceberg.partitioning import describe_spec

        merging = self._merge(table, model, {}, None).begin()
        metadata = table.table.metadata
        fields = describe_spec(table.table.spec(), [metadata.schema()])
        spec_id, mode = metadata.default_spec_id, merging.run.rules.mode.value
        lines = [
            f"merge ({mode}) on {model.on}, new rows under spec {spec_id}, {_partitioned(fields)}",
            *(
                f"  when {clause.when}{f' and {clause.condition}' if clause.condition else ''}: {clause.then}"
                for clause in model.clauses
            ),
        ]
        return Explanation(
            self.name, "merge", self.target, tuple(lines), {"mode": mode, "spec_id": spec_id, "spec": fields}
        )


@dataclass(frozen=True)
class RewriteStep:
    """Files of a table that are written anew in a good size, or moved to another spec."""

    name: str
    lake: Lake
    model: Rewrite

    @property
    def target(self) -> str:
        return self.model.table

    def committed(self, marks: RunMarks) -> dict[str, Any] | None:
        if self._options.get("partial_progress_enabled"):
            return None  # Some groups may still be left. A rewrite of what is compact already does nothing.
        table = self.lake.find_iceberg(self.target)
        found = (
            find_snapshots(table.table.metadata, self.model.branch, marks.run_id, self.name)
            if table is not None
            else []
        )
        return _of_summary(found[0]) if found else None

    def explain(self) -> Explanation:
        from lakeshift.iceberg.rewrite.options import RewriteOptions

        RewriteOptions.of(self._options)
        table = self.lake.find_iceberg(self.target)
        if table is None:
            return Explanation(self.name, "rewrite", self.target, ("after the table was created",), {})
        planned = table.plan_rewrite(**self._arguments)
        plan, stats = planned.plan, planned.filter_stats
        lines = [
            f"{count(len(plan.groups), 'group')}: {count(plan.input_files, 'file')} would become about "
            f"{plan.expected_output_files}"
            if plan.groups
            else "nothing to rewrite"
        ]
        lines[0] += ", in the table as it is before the writes"
        lines += [f"  from spec {m.spec_id} to {plan.target_spec_id}: {count(m.files, 'file')}" for m in plan.moves]
        lines += [f"  {warning.message}" for warning in planned.warnings]
        shown = planned.to_dict()
        names = ("input_files", "input_bytes", "input_rows", "expected_output_files", "moves", "groups")
        facts = {name: shown[name] for name in names}
        return Explanation(self.name, "rewrite", self.target, tuple(lines), {**facts, "filter_stats": asdict(stats)})

    def execute(self, marks: RunMarks, progress: Progress | None) -> dict[str, Any]:
        table = self.lake.iceberg(self.target)
        result = table.rewrite_data_files(**self._arguments, snapshot_properties=marks.properties(self.name))
        done = {"operation": "rewrite", **result.to_dict()}
        del done["groups"]  # As many as partitions; the totals and the failures are what a record is read for.
        done["failures"] = [group.error for group in result.failed_groups]
        return done

    @property
    def _options(self) -> dict[str, Any]:
        return {name.replace("-", "_").replace(".", "_"): value for name, value in self.model.options.items()}

    @property
    def _arguments(self) -> dict[str, Any]:
        return {
            "where": self.model.where,
            "target_spec_id": self.model.target_spec_id,
            "strictness": self.model.strictness,
            "branch": self.model.branch,
            **self._options,
        }


def _of_summary(snapshot: Snapshot) -> dict[str, Any]:
    """What a snapshot's summary tells of its commit, under the names of a result."""
    assert snapshot.summary is not None
    told = snapshot.summary.additional_properties
    names = {
        "added_data_files": "added-data-files",
        "added_delete_files": "added-delete-files",
        "removed_data_files": "deleted-data-files",
        "removed_delete_files": "removed-delete-files",
        "rows_written": "added-records",
    }
    counts = {ours: int(told.get(theirs) or 0) for ours, theirs in names.items()}
    return {"snapshot_id": snapshot.snapshot_id, **counts}


def _rows_in(folder: str) -> int | None:
    """The rows of a local folder of Parquet files; None where they cannot be counted from here."""
    import pyarrow.parquet as pq

    if "://" in folder:
        return None
    return sum(int(pq.read_metadata(file).num_rows) for file in Path(folder).glob("**/*.parquet"))


def _partitioned(fields: list[str]) -> str:
    return f"partitioned by {', '.join(fields)}" if fields else "unpartitioned"
