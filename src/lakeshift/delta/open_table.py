"""An open sink's view of its table: the cached state, the plans made on it, and the writes.

Rows go out through Spark's public writer only; what is read of the table comes from ``log``.
"""

from __future__ import annotations

import json
import uuid
import warnings
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeshift.delta.arrow_input import ArrowInput, arrow_table, to_dataframe
from lakeshift.delta.log import DeltaLog
from lakeshift.delta.policy import (
    READERS_WARNING,
    TableState,
    WritePlan,
    WriteSettings,
    check_options_against,
    plan_write,
)
from lakeshift.delta.schema import StructOf, schema_of
from lakeshift.delta.target import Target
from lakeshift.errors import InvalidStateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SESSION_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_MOST_CACHED_PLANS = 64
_MOST_COMMITS_SEARCHED = 200


class TypeWideningWarning(UserWarning):
    """The sink switched type widening on; some readers will refuse the table from now on."""


class UnplannedChangeWarning(UserWarning):
    """Another writer changed the schema between the sink's last look and its commit, and Delta merged both."""


class Incoming:
    """A batch on its way in: its schema, and a key under which plans for that schema are kept."""

    def __init__(self, batch: DataFrame | ArrowInput) -> None:
        self._frame: DataFrame | None = None
        self._table: pa.Table | None = None
        java_frame = getattr(batch, "_jdf", None)
        if java_frame is not None:
            self._frame = batch
            self.key = str(java_frame.schema().json())
        else:
            self._table = arrow_table(batch)
            self.key = f"arrow {self._table.schema}"

    @cached_property
    def schema(self) -> StructOf:
        return schema_of(self.key if self._table is None else self._table.schema)

    def frame(self, spark: SparkSession) -> DataFrame:
        if self._frame is None:
            assert self._table is not None
            self._frame = to_dataframe(spark, self._table, self.schema)
        return self._frame


class OpenTable:
    """The table of an open sink."""

    def __init__(self, spark: SparkSession, target: Target, settings: WriteSettings) -> None:
        self._spark = spark
        self._target = target
        self._settings = settings
        self._plans: dict[str, WritePlan] = {}
        self._committed: dict[str, int] = {}
        self._log: DeltaLog | None = None
        self.location = target.location()
        self.state: TableState | None = None
        if self.location is not None:
            self._log = DeltaLog(spark, self.location)
            self._adopt(self._log.refresh())

    def plan(self, incoming: Incoming) -> WritePlan:
        plan = self._plans.get(incoming.key)
        if plan is None:
            dependents = self._log.dependents if self._log is not None else lambda path: ()
            plan = plan_write(self.state, incoming.schema, self._settings, dependents)
            if len(self._plans) >= _MOST_CACHED_PLANS:
                self._plans.clear()
            self._plans[incoming.key] = plan
        return plan

    def refresh(self) -> bool:
        """Read the table's state again; whether its metadata is another than before."""
        if self._log is None:
            self.location = self._target.location()
            if self.location is None:
                return False
            self._log = DeltaLog(self._spark, self.location)
        before = self.state
        self._adopt(self._log.refresh())
        return _metadata_of(before) != _metadata_of(self.state)

    def has_committed(self, transaction: tuple[str, int], *, look_again: bool = False) -> bool:
        app_id, version = transaction
        if self._log is None:
            return False
        if look_again or app_id not in self._committed:
            last = self._log.last_txn_version(app_id)
            self._committed[app_id] = -1 if last is None else last
        return version <= self._committed[app_id]

    def create(self, plan: WritePlan) -> None:
        """Register the table under its name, empty; a path needs no such step."""
        self._target.create(plan.target, self._settings.partition_by, self._settings.properties)
        self.refresh()

    def append(
        self, frame: DataFrame, plan: WritePlan, transaction: tuple[str, int] | None
    ) -> tuple[int, dict[str, Any]] | None:
        """Write a batch by its plan; the version and commit info of its commit, if the log has it."""
        assert self.location is not None
        assert self._log is not None
        if plan.enables_type_widening:
            self._target.enable_type_widening(self.location)
            warnings.warn(
                f"Type widening is now on for {self._target}. {READERS_WARNING}", TypeWideningWarning, stacklevel=5
            )
            self.refresh()
        if plan.projection:
            frame = frame.selectExpr(*plan.projection.select_list(frame.columns))
        write_id = uuid.uuid4().hex
        writer = frame.write.format("delta").mode("append")
        # Said explicitly either way: a session-wide autoMerge would evolve what the policy has frozen.
        writer = writer.option("mergeSchema", "true" if plan.action == "evolve" else "false")
        writer = writer.option("userMetadata", self._user_metadata(write_id, plan))
        if transaction is not None:
            writer = writer.option("txnAppId", transaction[0]).option("txnVersion", str(transaction[1]))
        if plan.action == "create":
            writer = writer.options(**self._settings.properties).partitionBy(*self._settings.partition_by)
        before = -1 if self.state is None else self.state.version
        writer.save(self.location)
        version, changed = self._log.changed_state()
        if changed is not None:
            self._adopt(changed)
        elif self.state is not None:
            self.state = replace(self.state, version=version)
        found = self._find_commit(write_id, before, version)
        if found is not None and transaction is not None:
            self._committed[transaction[0]] = transaction[1]
        if found is not None and plan.action == "evolve":
            self._warn_of_unplanned_changes(before, found)
        return found

    def _warn_of_unplanned_changes(self, planned_on: int, found: tuple[int, dict[str, Any]]) -> None:
        """The public writer cannot be told which version a plan was made on; so look afterwards, and say it."""
        assert self._log is not None
        version, info = found
        between = range(planned_on + 1, int(info.get("readVersion", planned_on)) + 1)
        if any(self._log.changes_metadata(number) for number in between):
            warnings.warn(
                f"Version {version} of {self._target} was planned on version {planned_on}, and another writer changed "
                "the schema just before it was committed; Delta merged both. Compare the two in the table's history.",
                UnplannedChangeWarning,
                stacklevel=5,
            )

    def _find_commit(self, write_id: str, before: int, latest: int) -> tuple[int, dict[str, Any]] | None:
        assert self._log is not None
        for version in range(latest, max(before, latest - _MOST_COMMITS_SEARCHED), -1):
            info = self._log.commit_info(version)
            if info is not None and write_id in info.get("userMetadata", ""):
                return version, info
        return None

    def _user_metadata(self, write_id: str, plan: WritePlan) -> str:
        content: dict[str, object] = {"lakeshift": {"write": write_id}}
        if plan.action == "evolve":
            content["lakeshift"] = {"write": write_id, "evolution": plan.diff.to_dict()}
        theirs = self._spark.conf.get(_SESSION_USER_METADATA, None)
        if theirs is not None:
            content["user"] = theirs
        return json.dumps(content)

    def _adopt(self, state: TableState | None) -> None:
        before = self.state
        if before is not None and (state is None or state.table_id != before.table_id):
            raise InvalidStateError(
                f"The table {self._target} was dropped or replaced since the sink was opened. Nothing was written; "
                "open a new sink to write to what is there now."
            )
        if state is not None and before is None:
            check_options_against(state, self._settings, str(self._target))
        if _metadata_of(before) != _metadata_of(state):
            self._plans.clear()
        self.state = state


def _metadata_of(state: TableState | None) -> tuple[object, ...] | None:
    if state is None:
        return None
    return state.schema, state.partition_columns, tuple(sorted(state.properties.items())), state.features
