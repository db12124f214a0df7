"""Exactly once, and races: replays, stale sinks, and commits that lose to a concurrent schema change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakeshift.delta.open_table import OpenTable, UnplannedChangeWarning
from lakeshift.delta.policy import WritePlan
from lakeshift.delta.schema_diff import Identical
from lakeshift.delta.sink import DeltaSink, DeltaWriteResult
from lakeshift.errors import CommitConflictError, ConfigError, SchemaMismatchError
from lakeshift.stack import Capability, Stack
from tests.integration.delta.conftest import Log

pytestmark = pytest.mark.once_last

BOTH = {"columns": "evolve", "types": "evolve"}


def values(spark: Any, table: Path, column: str = "a") -> list[Any]:
    return sorted(row[0] for row in spark.read.format("delta").load(str(table)).select(column).collect())


def test_a_replayed_batch_is_a_no_op_whatever_its_schema(spark: Any, table: Path, log: Log) -> None:
    for _ in range(2):  # a sink that saw the first write, and one that did not
        with DeltaSink(spark, table, True, txn_app_id="nightly") as sink:
            first = sink.write_batch(spark.sql("SELECT 1 AS a"), txn_version=4)
            for query in ("SELECT 1 AS a", "SELECT 1 AS a, 2 AS b", "SELECT 'no' AS a", "SELECT null AS z"):
                replay = sink.write_batch(spark.sql(query), txn_version=4)
                assert (replay.skipped, replay.version, replay.evolved) == (True, None, False)
            assert sink.write_batch(spark.sql("SELECT 1 AS a"), txn_version=3).skipped
    assert first.skipped
    with DeltaSink(spark, table, True, txn_app_id="other") as sink:
        assert not sink.write_batch(spark.sql("SELECT 2 AS a"), txn_version=4).skipped
    assert log.versions() == [0, 1]
    assert values(spark, table) == [1, 2]


def test_a_replay_that_another_writer_committed_meanwhile_is_not_refused(spark: Any, table: Path, log: Log) -> None:
    with DeltaSink(spark, table, txn_app_id="q") as zombie, DeltaSink(spark, table, txn_app_id="q") as alive:
        zombie.write_batch(spark.sql("SELECT 1 AS a"), txn_version=1)
        alive.write_batch(spark.sql("SELECT 2 AS a"), txn_version=2)
        assert zombie.write_batch(spark.sql("SELECT 2 AS a, 'late' AS b"), txn_version=2).skipped
        assert zombie.write_batch(spark.sql("SELECT 2 AS a"), txn_version=2).skipped
    assert log.versions() == [0, 1]


def test_a_transaction_version_needs_the_writer_s_name(spark: Any, table: Path) -> None:
    with DeltaSink(spark, table) as sink:
        with pytest.raises(ConfigError, match="txn_app_id"):
            sink.write_batch(spark.range(1), txn_version=1)
        with pytest.raises(ConfigError, match="outside of a streaming query"):
            sink.foreach_batch(spark.range(1), 1)
    assert not table.exists()


def test_evolution_rows_and_transaction_are_one_commit(spark: Any, table: Path, log: Log) -> None:
    with DeltaSink(spark, table, BOTH, txn_app_id="q") as sink:
        sink.write_batch(spark.sql("SELECT 1 AS a"), txn_version=0)
        sink.write_batch(spark.sql("SELECT 2 AS a, 3 AS b"), txn_version=1)
    assert sorted(log.kinds(1)) == ["add", "commitInfo", "metaData", "txn"]
    assert log.action(1, "txn")["version"] == 1


def test_two_sinks_that_add_different_columns_both_succeed(spark: Any, table: Path) -> None:
    with DeltaSink(spark, table, True) as one, DeltaSink(spark, table, True) as other:
        one.write_batch(spark.sql("SELECT 1 AS a"))
        other.write_batch(spark.sql("SELECT 2 AS a, 'x' AS x"))
        one.write_batch(spark.sql("SELECT 3 AS a, 'y' AS y"))
        assert isinstance(other.write_batch(spark.sql("SELECT 4 AS a, 'y' AS y")).diff, Identical)
    assert spark.read.format("delta").load(str(table)).columns == ["a", "x", "y"]
    assert values(spark, table) == [1, 2, 3, 4]


def test_a_frozen_sink_sees_columns_that_others_added(spark: Any, table: Path) -> None:
    with DeltaSink(spark, table, True) as evolving, DeltaSink(spark, table) as frozen:
        evolving.write_batch(spark.sql("SELECT 1 AS a"))
        frozen.write_batch(spark.sql("SELECT 2 AS a"))
        evolving.write_batch(spark.sql("SELECT 3 AS a, 'x' AS x"))
        assert isinstance(frozen.write_batch(spark.sql("SELECT 4 AS a, 'x' AS x")).diff, Identical)
        with pytest.raises(SchemaMismatchError):
            frozen.write_batch(spark.sql("SELECT 5 AS a, 'z' AS z"))
    assert values(spark, table) == [1, 2, 3, 4]


def test_a_stale_sink_casts_up_after_another_widened(spark: Any, stack: Stack, table: Path) -> None:
    before, after = ("int", "long") if stack.can(Capability.DELTA_WIDEN_ALL) else ("short", "int")
    query = spark.sql(f"SELECT cast(1 AS {before}) AS a, named_struct('x', cast(1 AS {before})) AS s")
    query.write.format("delta").option("delta.enableTypeWidening", "true").save(str(table))
    narrow = spark.sql(f"SELECT cast(2 AS {before}) AS a, named_struct('x', cast(2 AS {before})) AS s")
    with DeltaSink(spark, table) as stale, DeltaSink(spark, table, True) as widening:
        stale.write_batch(narrow)
        widening.write_batch(spark.sql(f"SELECT cast(3 AS {after}) AS a, named_struct('x', cast(3 AS {after})) AS s"))
        stale.write_batch(narrow)
        stale.write_batch(narrow)
    assert values(spark, table) == [1, 2, 2, 2, 3]
    assert values(spark, table, "s.x") == [1, 2, 2, 2, 3]


@dataclass(frozen=True)
class Gate:
    """Holds a batch's rows back until another commit has come in between."""

    folder: Path

    def hold(self, frame: Any) -> Any:
        started, opened = str(self.folder / "started"), str(self.folder / "opened")

        def wait(batches: Iterable[Any]) -> Iterable[Any]:
            Path(started).touch()
            deadline = time.monotonic() + 120
            while not Path(opened).exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            yield from batches

        return frame.coalesce(1).mapInArrow(wait, frame.schema)

    def while_writing(self, write: Callable[[], DeltaWriteResult], meanwhile: Callable[[], Any]) -> DeltaWriteResult:
        """Start a write that is held back, commit something else under it, and return what the write came to."""
        with ThreadPoolExecutor(1) as pool:
            outcome = pool.submit(write)
            while not (self.folder / "started").exists():
                assert not outcome.done(), outcome.result()
                time.sleep(0.01)
            try:
                meanwhile()
            finally:
                (self.folder / "opened").touch()
            return outcome.result(120)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def test_a_writer_that_loses_to_a_schema_change_retries(spark: Any, table: Path, log: Log, gate: Gate) -> None:
    with DeltaSink(spark, table, True, txn_app_id="s") as loser, DeltaSink(spark, table, True) as winner:
        loser.write_batch(spark.sql("SELECT 1 AS a"), txn_version=0)
        winner.write_batch(spark.sql("SELECT 2 AS a"))
        result = gate.while_writing(
            lambda: loser.write_batch(gate.hold(spark.sql("SELECT 3 AS a, 'x' AS x")), txn_version=1),
            lambda: winner.write_batch(spark.sql("SELECT 4 AS a, 'y' AS y")),
        )
    assert result.attempts == 2
    assert log.action(log.versions()[-1], "txn")["version"] == 1
    assert spark.read.format("delta").load(str(table)).columns == ["a", "y", "x"]
    assert values(spark, table) == [1, 2, 3, 4]


def test_retries_are_bounded_and_the_error_says_that_it_can_be_tried_again(spark: Any, table: Path, gate: Gate) -> None:
    with DeltaSink(spark, table, True, max_attempts=1) as loser, DeltaSink(spark, table, True) as winner:
        loser.write_batch(spark.sql("SELECT 1 AS a"))
        winner.write_batch(spark.sql("SELECT 2 AS a"))
        with pytest.raises(CommitConflictError, match="1 attempts") as error:
            gate.while_writing(
                lambda: loser.write_batch(gate.hold(spark.sql("SELECT 3 AS a, 'x' AS x"))),
                lambda: winner.write_batch(spark.sql("SELECT 4 AS a, 'y' AS y")),
            )
    assert error.value.retryable
    assert values(spark, table) == [1, 2, 4]


def test_the_same_transaction_from_two_writers_is_committed_once(spark: Any, table: Path, gate: Gate) -> None:
    with DeltaSink(spark, table, True, txn_app_id="q") as one, DeltaSink(spark, table, True, txn_app_id="q") as other:
        one.write_batch(spark.sql("SELECT 1 AS a"), txn_version=0)
        other.write_batch(spark.sql("SELECT 1 AS a"), txn_version=0)
        result = gate.while_writing(
            lambda: one.write_batch(gate.hold(spark.sql("SELECT 2 AS a")), txn_version=1),
            lambda: other.write_batch(spark.sql("SELECT 2 AS a"), txn_version=1),
        )
    assert result.skipped
    assert values(spark, table) == [1, 2]


def test_a_schema_change_at_the_last_moment_is_told(spark: Any, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.sql("SELECT 1 AS a").write.format("delta").save(str(table))
    other = spark.sql("SELECT 2 AS a, cast(2 AS short) AS b").write.format("delta").mode("append")
    original = OpenTable._user_metadata

    def after_another_commit(self: OpenTable, write_id: str, plan: WritePlan) -> str:
        other.option("mergeSchema", "true").save(str(table))
        return original(self, write_id, plan)

    with DeltaSink(spark, table, {"columns": "evolve"}) as sink:
        monkeypatch.setattr(OpenTable, "_user_metadata", after_another_commit)
        with pytest.warns(UnplannedChangeWarning, match="planned on version 0"):
            result = sink.write_batch(spark.sql("SELECT 3 AS a, 70000 AS b"))
    assert result.version == 2
    assert values(spark, table) == [1, 2, 3]


def test_a_stream_writes_each_batch_once_over_restarts_and_anew_with_a_new_checkpoint(
    spark: Any, table: Path, tmp_path: Path, log: Log
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    seen: list[bool] = []

    def run(checkpoint: str) -> None:
        with DeltaSink(spark, table, True) as sink:
            stream = spark.readStream.format("text").load(str(source)).selectExpr("cast(value AS int) AS a")
            query = (
                stream.writeStream.foreachBatch(lambda df, n: seen.append(sink.foreach_batch(df, n).skipped))
                .option("checkpointLocation", str(tmp_path / checkpoint))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination(120)
            assert query.exception() is None

    (source / "1.txt").write_text("1\n2\n")
    run("one")
    # Forget that batch 0 was done: the query repeats it from its checkpoint.
    (tmp_path / "one/commits/0").unlink()
    (tmp_path / "one/commits/.0.crc").unlink(missing_ok=True)
    run("one")
    assert seen == [False, True]
    assert values(spark, table) == [1, 2]
    run("two")
    assert values(spark, table) == [1, 1, 2, 2]
