"""The Delta sink: appends batches to a table, and lets its schema evolve only as far as it was asked to.

A batch is planned by ``policy`` on a cached state of the table and written by Spark's public writer, schema change
and rows in one commit. What Delta answers decides whether that state is read again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Self

from lakeshift.delta.arrow_input import ArrowInput
from lakeshift.delta.failures import Failure, classify, first_line
from lakeshift.delta.open_table import Incoming, OpenTable
from lakeshift.delta.policy import EvolutionPolicy, WritePlan, WriteSettings
from lakeshift.delta.schema_diff import Identical, SchemaDiff
from lakeshift.delta.target import Target
from lakeshift.errors import BadRowsError, CommitConflictError, ConfigError, InvalidStateError
from lakeshift.spark.session import check_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class DeltaWriteResult:
    """What one batch did. ``skipped`` says that its transaction had been committed before.

    ``version`` is the table version that holds the batch; None if it was skipped, or if the log keeps no commit info.
    """

    version: int | None
    skipped: bool
    diff: SchemaDiff
    attempts: int
    rows_written: int | None
    files_added: int | None

    @property
    def evolved(self) -> bool:
        return not self.skipped and not isinstance(self.diff, Identical)

    def to_dict(self) -> dict[str, object]:
        return {
            "version": self.version,
            "skipped": self.skipped,
            "evolved": self.evolved,
            "attempts": self.attempts,
            "rows_written": self.rows_written,
            "files_added": self.files_added,
            "diff": self.diff.to_dict(),
        }


class DeltaSink:
    """Appends batches to a Delta table. Open it, write to it, close it, or use it as a context manager.

    ``evolution`` says what may change: ``{"columns": "evolve" | "freeze", "types": "evolve" | "freeze"}``, both
    frozen by default, ``True`` for both. ``enable_type_widening`` allows the sink to switch that table feature on
    when a type must widen. ``partition_by`` and ``properties`` (``delta.*``) are for a table that the sink creates.
    ``txn_app_id`` names the writer for exactly-once writes; in streaming the query's own id is the default.
    """

    def __init__(
        self,
        spark: SparkSession,
        target: str | PurePath,
        evolution: EvolutionPolicy | Mapping[str, str] | bool | None = None,
        *,
        enable_type_widening: bool = False,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        create: bool = True,
        txn_app_id: str | None = None,
        max_attempts: int = 20,
    ) -> None:
        if isinstance(partition_by, str):
            raise ConfigError(f"partition_by={partition_by!r} is text; pass a list of column names.")
        if max_attempts < 1:
            raise ConfigError(f"max_attempts is {max_attempts}; at least one attempt is needed.")
        foreign = [key for key in properties or {} if not key.startswith("delta.")]
        if foreign:
            raise ConfigError(f"properties has {foreign[0]!r}; only Delta's own (delta.*) can be set by a writer.")
        self._policy = EvolutionPolicy.of(evolution)
        self._spark = spark
        self._target = Target(spark, target)
        self._creation = (tuple(partition_by), dict(properties or {}))
        self._enable_type_widening = enable_type_widening
        self._create = create
        self._txn_app_id = txn_app_id
        self._max_attempts = max_attempts
        self._opened: OpenTable | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"DeltaSink({self._target.text!r}, evolution={self._policy.to_dict()})"

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> Self:
        """Look the table up. Nothing is written, also if it is not there yet."""
        if self._closed:
            raise InvalidStateError(f"The sink for {self._target} is closed; make a new one.")
        if self._opened is None:
            settings = WriteSettings(
                self._policy, check_session(self._spark, ("delta",)), self._enable_type_widening, *self._creation
            )
            self._opened = OpenTable(self._spark, self._target, settings)
            if self._opened.state is None and not self._create:
                self._opened = None
                raise ConfigError(f"There is no Delta table at {self._target}, and create is False.")
        return self

    def close(self) -> None:
        """Forget the table. Every batch was committed when its write returned."""
        self._opened = None
        self._closed = True

    def explain(self, batch: DataFrame | ArrowInput) -> WritePlan:
        """What writing this batch would do, by the code that would do it. Nothing is written or evaluated."""
        table = self._open_table()
        table.refresh()
        return table.plan(Incoming(batch))

    def write_batch(self, batch: DataFrame | ArrowInput, txn_version: int | None = None) -> DeltaWriteResult:
        """Append a batch in one commit, with the schema change it needs if the policy allows that.

        ``txn_version`` makes the write idempotent: a batch with a version that this writer (``txn_app_id``) has
        committed already is skipped, whatever its schema. Versions must grow.
        """
        table = self._open_table()
        if txn_version is not None and self._txn_app_id is None:
            raise ConfigError(
                f"txn_version={txn_version} needs a txn_app_id, the name of the writer whose versions these are: "
                "DeltaSink(..., txn_app_id='nightly-orders'). Two writers must never share one."
            )
        transaction = None if txn_version is None else (str(self._txn_app_id), txn_version)
        return self._write(table, batch, transaction)

    def foreach_batch(self, batch: DataFrame, batch_id: int) -> DeltaWriteResult:
        """For ``writeStream.foreachBatch``: each micro-batch exactly once, also over restarts from its checkpoint.

        The writer's name is ``txn_app_id`` or else the query's id, which lives in the checkpoint: a query that
        starts over with a new checkpoint writes its batches anew.
        """
        table = self._open_table()
        app_id = self._txn_app_id or batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        if app_id is None:
            raise ConfigError(
                "foreach_batch was called outside of a streaming query: there is no query id to tell replays by. "
                "Pass it to writeStream.foreachBatch, or give the sink a txn_app_id."
            )
        return self._write(table, batch, (app_id, batch_id))

    def _open_table(self) -> OpenTable:
        if self._opened is None:
            remedy = "it is closed; make a new one" if self._closed else "call open() first, or use it in a with block"
            raise InvalidStateError(f"The sink for {self._target} is not open: {remedy}.")
        return self._opened

    def _write(
        self, table: OpenTable, batch: DataFrame | ArrowInput, transaction: tuple[str, int] | None
    ) -> DeltaWriteResult:
        if transaction is not None and table.has_committed(transaction):
            return _skipped(attempts=1)
        incoming = Incoming(batch)
        for attempt in range(1, self._max_attempts + 1):
            plan = table.plan(incoming)
            if plan.action != "append" or plan.refused:
                # A cached state may be old. What changes the table, or is refused, must hold for the table as it is.
                table.refresh()
                plan = table.plan(incoming)
            if plan.refused and transaction is not None and table.has_committed(transaction, look_again=True):
                return _skipped(attempt)
            plan.raise_if_refused(str(self._target))
            if table.location is None:
                table.create(plan)
                plan = table.plan(incoming)
                plan.raise_if_refused(str(self._target))
            try:
                found = table.append(incoming.frame(self._spark), plan, transaction)
            except Exception as error:
                if self._is_settled(table, error, transaction):
                    return _skipped(attempt)
                if attempt < self._max_attempts:
                    time.sleep(random.uniform(0, min(2.0, 0.05 * 2**attempt)))  # noqa: S311
                continue
            if transaction is not None and found is None and table.has_committed(transaction, look_again=True):
                return _skipped(attempt)
            version, info = found or (None, {})
            metrics = info.get("operationMetrics", {})
            return DeltaWriteResult(
                version, False, plan.diff, attempt, _count(metrics, "numOutputRows"), _count(metrics, "numFiles")
            )
        raise CommitConflictError(
            f"The table {self._target} changed under each of {self._max_attempts} attempts to write the batch; "
            "nothing was committed. Write it again, or raise max_attempts.",
            retryable=True,
        )

    def _is_settled(self, table: OpenTable, error: Exception, transaction: tuple[str, int] | None) -> bool:
        """True: another attempt of this batch has committed it. False: try again. Raises if neither can be."""
        failure = classify(error)
        if failure is Failure.BAD_ROWS:
            raise BadRowsError(f"Nothing was written to {self._target}: {first_line(error)}") from error
        if failure is Failure.CONFLICT:
            raise CommitConflictError(
                f"The batch for {self._target} conflicts with another commit: {first_line(error)}", retryable=True
            ) from error
        if failure is Failure.OTHER:
            raise error
        changed = table.refresh()
        if transaction is not None and table.has_committed(transaction, look_again=True):
            return True
        if failure is Failure.ANALYSIS and not changed:
            raise error
        return False


def _skipped(attempts: int) -> DeltaWriteResult:
    return DeltaWriteResult(None, True, Identical(), attempts, None, None)


def _count(metrics: Mapping[str, str], name: str) -> int | None:
    return int(metrics[name]) if name in metrics else None
