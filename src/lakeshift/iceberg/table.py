"""``IcebergTable``: the facade over one Iceberg table. Each method's work lives in a room of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table

from lakeshift.errors import CommitConflictError, ConfigError
from lakeshift.iceberg.partitioning import describe_field, describe_spec, parse_partition_expression, resolve_source

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyspark.sql import Column, DataFrame

    from lakeshift.iceberg.commit.result import CommitResult
    from lakeshift.iceberg.dml.merge import Merge
    from lakeshift.iceberg.dml.run import Run
    from lakeshift.iceberg.rewrite.plan import RewriteDataFilesPlanningResult
    from lakeshift.iceberg.rewrite.progress import RewriteProgress
    from lakeshift.iceberg.rewrite.result import RewriteResult
    from lakeshift.iceberg.write import OnBadRows
    from lakeshift.lake import Lake
    from lakeshift.report.write import Report
    from lakeshift.spark.progress import Progress


@dataclass(frozen=True)
class SpecLayout:
    """How much of a table's current snapshot lies under one partition spec."""

    spec_id: int
    fields: tuple[str, ...]
    is_default: bool
    data_files: int
    delete_files: int
    rows: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class IcebergTable:
    """One Iceberg table, under any history of partition specs. Made by ``Lake.iceberg()``."""

    def __init__(self, lake: Lake, table: Table) -> None:
        self._lake = lake
        self._table = table

    def __repr__(self) -> str:
        return f"IcebergTable({self.name!r})"

    @property
    def name(self) -> str:
        return ".".join(self._table.name())

    @property
    def table(self) -> Table:
        """The PyIceberg table underneath, as of the last call that loaded or changed it."""
        return self._table

    def refresh(self) -> IcebergTable:
        """Load what other writers have committed since; returns itself."""
        self._table.refresh()
        return self

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | Column | None = None,
        snapshot_id: int | None = None,
        from_snapshot_id: int | None = None,
    ) -> DataFrame:
        """The table's rows as a Spark DataFrame, deletes applied.

        ``where`` leaves out files and row groups by their partition and metrics, as text; a Column is right too, but
        leaves out none. Filters put on the DataFrame afterwards are not pushed down. ``snapshot_id`` reads the table
        as it was, with the schema it had; ``from_snapshot_id`` only what was appended after that snapshot.
        """
        from lakeshift.iceberg.read import read_table

        self._table.refresh()
        return read_table(self._lake.spark, self._table, columns, where, snapshot_id, from_snapshot_id)

    def evolve_partitions(self, add: Sequence[str] = (), drop: Sequence[str] = ()) -> int:
        """Change the partitioning of what is written from now on; returns the new default spec's id.

        ``add`` holds expressions as in ``partition_by``; ``drop`` holds names of partition fields
        (``"ts_day"``) or the expressions they came from (``"day(ts)"``). Files keep the spec they have.
        """
        self._table.refresh()
        added = [parse_partition_expression(text) for text in add]
        for expression in added:
            resolve_source(self._table.schema(), expression)
        dropped = [self._field_name(text) for text in drop]
        if not added and not dropped:
            raise ConfigError("Nothing to evolve: give partition fields to add or to drop.")
        try:
            with self._table.update_spec() as update:
                for name in dropped:
                    update.remove_field(name)
                for expression in added:
                    update.add_field(expression.source, expression.transform, expression.name)
        except CommitFailedException as error:
            raise CommitConflictError(
                f"Another writer changed {self.name} while its partitioning was being evolved: {error}. "
                "Nothing was changed; look at the table and run it again.",
                retryable=True,
            ) from error
        except ValueError as error:
            raise ConfigError(f"Cannot evolve the partitioning of {self.name}: {error}") from error
        return self._table.spec().spec_id

    def append(
        self,
        df: DataFrame,
        spec_id: int | None = None,
        on_bad_rows: OnBadRows = "fail",
        quarantine: str | Path | None = None,
        *,
        branch: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> CommitResult:
        """Add the rows of a Spark frame, under the default spec or any other that can still be computed.

        Columns match by name. ``on_bad_rows="quarantine"`` writes the good rows and puts those that the
        table cannot hold into Parquet files at the path ``quarantine``; ``"fail"`` commits nothing if
        there are any.
        """
        from lakeshift.iceberg import write

        request = write.WriteRequest(
            df, spec_id, on_bad_rows, quarantine, branch, dict(snapshot_properties or {}), progress
        )
        return write.append(self.refresh().table, request)

    def plan_rewrite(
        self,
        where: str | BooleanExpression | None = None,
        target_spec_id: int | None = None,
        strictness: str = "fail-open",
        *,
        branch: str | None = None,
        case_sensitive: bool | None = None,
        session_time_zone: str | None = None,
        **options: Any,
    ) -> RewriteDataFilesPlanningResult:
        """What `rewrite_data_files` would do, planned from metadata alone: no Spark is started, nothing is written.

        ``where`` chooses the files that may hold matching rows, in Spark SQL or as a PyIceberg expression. Files keep
        their spec unless ``target_spec_id`` names the one to move all others to. Partitions for which the filter
        cannot be decided are included and counted, or with ``strictness="fail-closed"`` an error. ``options`` are
        those of Iceberg's ``rewrite_data_files``, with underscores. How names and times in ``where`` are read comes
        from the Spark session if there is one.
        """
        from lakeshift.iceberg.rewrite.options import RewriteOptions
        from lakeshift.iceberg.rewrite.planner import RewriteDataFilesPlanner

        chosen = RewriteOptions.of(options)
        self.refresh()
        spark = self._lake.running_spark
        if spark is not None:
            if case_sensitive is None:
                case_sensitive = spark.conf.get("spark.sql.caseSensitive", "false") == "true"
            session_time_zone = session_time_zone or spark.conf.get("spark.sql.session.timeZone", None)
        planner = RewriteDataFilesPlanner(
            self._table.metadata,
            self._table.io,
            where=where,
            options=chosen,
            target_spec_id=target_spec_id,
            strictness=strictness,
            case_sensitive=bool(case_sensitive),
            session_time_zone=session_time_zone,
            snapshot_id=None if branch is None else self._head(branch),
        )
        return planner.plan_with_stats()

    def overwrite(
        self,
        df: DataFrame,
        where: str | Column | None = None,
        *,
        dynamic: bool = False,
        spec_id: int | None = None,
        on_bad_rows: OnBadRows = "fail",
        quarantine: str | Path | None = None,
        isolation: str = "serializable",
        branch: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> CommitResult:
        """Replace all rows by those of a Spark frame, or with ``dynamic`` the rows of the partitions it touches.

        Partitions are those of the spec that is written; rows of theirs that lie in files of other specs
        are replaced too. With ``where`` the rows for which it is true are replaced, and no others, whatever files
        they lie in. ``isolation="snapshot"`` keeps rows that others add meanwhile.
        """
        from lakeshift.iceberg import overwrite, write

        request = write.WriteRequest(
            df, spec_id, on_bad_rows, quarantine, branch, dict(snapshot_properties or {}), progress
        )
        if where is not None:
            from lakeshift.iceberg.dml.overwrite_where import overwrite_where

            if dynamic:
                raise ConfigError("Both where and dynamic=True were given; each says which rows give way. Give one.")
            run = self.begin("delete", None, branch, snapshot_properties, progress)
            return overwrite_where(run, request, where, overwrite.isolation_level(isolation))
        return overwrite.overwrite(
            self.refresh().table, request, dynamic=dynamic, isolation=overwrite.isolation_level(isolation)
        )

    def rewrite_data_files(
        self,
        where: str | BooleanExpression | None = None,
        target_spec_id: int | None = None,
        strictness: str = "fail-open",
        *,
        branch: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool | None = None,
        session_time_zone: str | None = None,
        progress: RewriteProgress | None = None,
        **options: Any,
    ) -> RewriteResult:
        """Write files anew in a good size, with deletes applied; rows stay as they are.

        Does what `plan_rewrite` with the same arguments shows. Other writers may go on meanwhile: appends never
        conflict; a delete of rows that are being rewritten does, and then nothing is committed, or with
        ``partial_progress_enabled`` everything but the groups that it is about.
        """
        from lakeshift.iceberg.rewrite.runner import run_rewrite

        planned = self.plan_rewrite(
            where,
            target_spec_id,
            strictness,
            branch=branch,
            case_sensitive=case_sensitive,
            session_time_zone=session_time_zone,
            **options,
        )
        return run_rewrite(
            self._lake.spark,
            self._table,
            planned,
            branch=branch,
            snapshot_properties=snapshot_properties,
            progress=progress,
        )

    def delete(
        self,
        where: str | Column,
        mode: str | None = None,
        *,
        branch: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> CommitResult:
        """Delete the rows for which a condition is true, whatever specs their files have.

        ``where`` is Spark SQL text, which prunes files, or a Column, which does not. ``mode`` is ``merge-on-read``
        or ``copy-on-write``; None takes the table property ``write.delete.mode``. Position deletes take the spec of
        the data they refer to. A condition that matches nothing commits nothing: ``snapshot_id`` is None then.
        """
        from lakeshift.iceberg.dml.delete import delete

        return delete(self.begin("delete", mode, branch, snapshot_properties, progress), where)

    def update(
        self,
        set: Mapping[str, str | Column],  # noqa: A002 - SQL's own word, and the API's
        where: str | Column | None = None,
        mode: str | None = None,
        *,
        branch: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> CommitResult:
        """Assign to columns of the rows for which a condition is true, of all rows without one.

        ``set`` maps columns to Spark SQL text or Columns, which see the row as it was. Changed rows are written under
        the default spec. A value that its column cannot hold without loss is an error, and nothing is committed.
        """
        from lakeshift.iceberg.dml.update import update

        return update(self.begin("update", mode, branch, snapshot_properties, progress), set, where)

    def merge(
        self,
        source: DataFrame,
        on: str | Column,
        mode: str | None = None,
        *,
        branch: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Merge:
        """Begin a MERGE of a frame into the table; add clauses to it, then call ``execute()``.

        In ``on`` and in the clauses the table's columns are ``target.<name>`` and the frame's ``source.<name>``.
        """
        from lakeshift.iceberg.dml.merge import Merge

        return Merge(partial(self.begin, "merge", mode, branch, snapshot_properties, progress), source, on)

    def begin(
        self,
        operation: str,
        mode: str | None = None,
        branch: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Run:
        """Begin a delete, update or merge on the table as it is now: for previews, which change nothing."""
        from lakeshift.iceberg.dml.rules import Operation, Rules
        from lakeshift.iceberg.dml.run import Run

        table, properties = self.refresh().table, dict(snapshot_properties or {})
        rules = Rules.of(table.metadata, Operation(operation), mode, branch, properties)
        return Run(self._lake.spark, table, rules, properties, progress)

    def layout(self) -> list[SpecLayout]:
        """What lies under each spec, in spec id order, from the manifest list alone."""
        metadata = self._table.metadata
        snapshot = self._table.current_snapshot()
        manifests = snapshot.manifests(self._table.io) if snapshot else []
        schemas = [self._table.schema(), *reversed(metadata.schemas)]
        found = []
        for spec in sorted(metadata.partition_specs, key=lambda spec: spec.spec_id):
            mine = [m for m in manifests if m.partition_spec_id == spec.spec_id]
            data, deletes = ([m for m in mine if m.content == content] for content in ManifestContent)
            found.append(
                SpecLayout(
                    spec_id=spec.spec_id,
                    fields=tuple(describe_spec(spec, schemas)),
                    is_default=spec.spec_id == metadata.default_spec_id,
                    data_files=sum((m.added_files_count or 0) + (m.existing_files_count or 0) for m in data),
                    delete_files=sum((m.added_files_count or 0) + (m.existing_files_count or 0) for m in deletes),
                    rows=sum((m.added_rows_count or 0) + (m.existing_rows_count or 0) for m in data),
                )
            )
        return found

    def report(self, path: str | Path, *, branch: str | None = None) -> Report:
        """Write a page that shows the table's layout, its history and what to do next; returns what it says.

        One HTML file without any other, from metadata alone: no Spark is started.
        """
        from lakeshift.report.write import check_path

        check_path(path)
        made = self.make_report(branch=branch)
        made.write(path)
        return made

    def make_report(self, *, branch: str | None = None, arguments: Sequence[str] = ()) -> Report:
        """What `report` would say, without writing it. ``arguments`` are added to the commands it suggests."""
        from lakeshift.report.write import make_report

        self._table.refresh()
        head = None if branch is None else self._head(branch)
        return make_report(self.name, self._table, branch=branch, snapshot_id=head, arguments=arguments)

    def _head(self, branch: str) -> int:
        snapshot = self._table.metadata.snapshot_by_name(branch)
        if snapshot is None:
            there = ", ".join(sorted(self._table.metadata.refs)) or "none, for it has no snapshot yet"
            raise ConfigError(f"{self.name} has no branch {branch!r}; it has {there}.")
        return snapshot.snapshot_id

    def _field_name(self, text: str) -> str:
        """The name of a field of the default spec, from its name or from the expression it stands for."""
        schema, fields = self._table.schema(), self._table.spec().fields
        for field in fields:
            if field.name == text:
                return field.name
        for field in fields:
            source = schema.find_column_name(field.source_id)
            if source and describe_field(source, field.transform) == str(parse_partition_expression(text)):
                return field.name
        there = ", ".join(field.name for field in fields) or "none: the default spec is unpartitioned"
        raise ConfigError(f"{self.name} has no partition field {text!r} to drop; its default spec has: {there}.")
