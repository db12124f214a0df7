"""The commit loop: refresh, validate, write, swap; again after a lost race; and afterwards no file too many.

All attempts of a commit carry the same snapshot id and demand the same parent, so at most one of them can
ever land. That is what makes it safe to try again after a catalog that did not answer.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NoReturn
from uuid import uuid4

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot

from lakeshift.errors import CommitConflictError, CommitStateUnknownError, LakeshiftError
from lakeshift.iceberg.adapter import CatalogCall, Failure, adopt, may_pass, write_list
from lakeshift.iceberg.commit.change_set import ChangeSet, RemovedFile
from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.commit.grouping import spec_id_of
from lakeshift.iceberg.commit.manifests import ManifestFactory, counted_files, metadata_location
from lakeshift.iceberg.commit.properties import ManifestPolicy, RetryPolicy
from lakeshift.iceberg.commit.result import CommitResult, check_rows_kept, result_of
from lakeshift.iceberg.commit.snapshot import new_snapshot, requirements, updates
from lakeshift.iceberg.commit.snapshot_manifests import ManifestPlanner, SnapshotContents
from lakeshift.iceberg.commit.summary import CountedFile, summarise_snapshot
from lakeshift.iceberg.commit.target import check_target
from lakeshift.iceberg.specs import spec_of

logger = logging.getLogger(__name__)

# Raises CommitConflictError if the change no longer holds on the table as it is now.
Validation = Callable[[TableMetadata, FileIO], None]
# The delete files that would apply to nothing after the change, on the table as it is now.
DanglingDeletes = Callable[[TableMetadata, FileIO], Iterable[RemovedFile]]

_COMPRESS_THREADS = 4


def commit(
    table: Table,
    change: ChangeSet,
    *,
    branch: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    validations: Sequence[Validation] = (),
    dangling_deletes: DanglingDeletes | None = None,
    keep_files_on_failure: bool = False,
) -> CommitResult:
    """Commit a change set as one snapshot, or raise; ``table`` shows the new snapshot afterwards.

    Every validation runs on every attempt, against metadata that was just read. If the commit fails, the
    files that the change set adds are removed (unless ``keep_files_on_failure``, for files that were there
    before); if its outcome is unknown, they all stay.
    """
    run = _Commit(
        table, change, branch, dict(snapshot_properties or {}), validations, dangling_deletes, keep_files_on_failure
    )
    return run.run()


@dataclass
class _Attempt:
    """One try: what it would make of the table, and the files it wrote for that."""

    snapshot: Snapshot
    base: Table
    contents: SnapshotContents
    call: CatalogCall
    unresolved: bool = False


@dataclass
class _Commit:
    table: Table
    change: ChangeSet
    branch: str | None
    properties: dict[str, str]
    validations: Sequence[Validation]
    dangling_deletes: DanglingDeletes | None
    keep_files_on_failure: bool
    attempts: list[_Attempt] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    added: list[CountedFile] | None = None
    io: FileIO = field(init=False)
    staged: bool = field(init=False, default=False)

    def run(self) -> CommitResult:
        self.io = self.table.io
        metadata = self.table.metadata
        try:
            self.staged = check_target(metadata, self.branch, self.properties)
            retry = RetryPolicy.of(metadata.properties)
            policy = ManifestPolicy.of(metadata.properties)
        except LakeshiftError:
            self._remove_everything()
            raise
        if self.change.is_empty:
            return CommitResult(snapshot_id=None)
        with ThreadPoolExecutor(_COMPRESS_THREADS, thread_name_prefix="lakeshift-compress") as executor:
            factory = ManifestFactory(
                self.io, metadata.new_snapshot_id(), uuid4(), policy.codec, policy.target_size, executor
            )
            self.planner = ManifestPlanner(self.change, factory, policy)
            return self._until_settled(retry)

    def _until_settled(self, retry: RetryPolicy) -> CommitResult:
        started = time.monotonic()
        tries = 0
        while True:
            tries += 1
            failure = self._try(tries)
            if isinstance(failure, CommitResult):
                return failure
            pause = retry.wait(tries) * random.uniform(0.5, 1.0)  # noqa: S311 - spreads committers, guards no secret
            if tries > retry.retries or time.monotonic() - started + pause > retry.total_timeout:
                return self._give_up(failure, tries)
            logger.info("Commit attempt %d on %s did not land (%s); trying again.", tries, self._name, failure)
            time.sleep(pause)

    def _try(self, number: int) -> CommitResult | Exception:
        """One attempt: its result, or the failure after which another attempt makes sense."""
        try:
            current = self._refresh()
            if isinstance(current, Exception):
                return current
            landed = self._landed(current)
            if landed is not None:
                return landed
            attempt = self._prepare(current, number)
        except BaseException as error:
            self._fail(error)
        try:
            response = attempt.call.run(
                attempt.base,
                requirements(self.change.table_uuid, self.target, attempt.snapshot.parent_snapshot_id),
                updates(attempt.base.metadata, attempt.snapshot, None if self.staged else self.target),
            )
        except Exception as error:
            return self._after_failure(attempt, error)
        return self._succeed(attempt, response.metadata, response.metadata_location)

    def _after_failure(self, attempt: _Attempt, error: Exception) -> Exception | CommitResult:
        judgement = attempt.call.judge(error)
        if judgement is Failure.UNKNOWN:
            attempt.unresolved = True
            return error
        remove_files(self.io, attempt.call.metadata_files)
        attempt.call.metadata_files.clear()
        if judgement is Failure.LOST_RACE:
            return error
        # A refusal may only be the sign of a race that the catalog has no word for, such as a sequence number
        # that another branch has taken: if the table has moved on, try again.
        current = self._refresh_or_none()
        if current is not None and current.metadata_location != attempt.base.metadata_location:
            return error
        return self._fail(error)

    def _refresh(self) -> Table | Exception:
        try:
            return self.table.catalog.load_table(self.table.name())
        except NoSuchTableError as error:
            raise CommitConflictError(
                f"The table {self._name} does not exist any more; it was dropped while the change was made. "
                "Nothing was committed.",
                retryable=False,
            ) from error
        except Exception as error:
            if may_pass(error) or self._is_unresolved():
                return error
            raise

    def _refresh_or_none(self) -> Table | None:
        try:
            return self.table.catalog.load_table(self.table.name())
        except Exception as error:
            logger.warning("The table %s could not be read after a failed commit: %s", self._name, error)
            return None

    def _prepare(self, current: Table, number: int) -> _Attempt:
        """Validate against the table as it is now, and write what depends on it."""
        metadata, io = current.metadata, current.io
        self.io = self.planner.factory.io = io
        self._check_same_table(metadata)
        self.staged = check_target(metadata, self.branch, self.properties)
        self._check_specs(metadata)
        for validation in self.validations:
            validation(metadata, io)
        dangling = list(self.dangling_deletes(metadata, io)) if self.dangling_deletes else []
        parent = metadata.snapshot_by_name(self.target)
        contents = self.planner.plan(metadata, parent, io, dangling)
        factory = self.planner.factory
        location = metadata_location(metadata, f"snap-{factory.snapshot_id}-{number}-{factory.commit_uuid}.avro")
        if self.added is None:
            self.added = counted_files(metadata, (*self.change.added_data_files, *self.change.added_delete_files))
        check_rows_kept(self.change.kind, self.added, contents.removed)
        summary = summarise_snapshot(metadata, parent, self.added, contents.removed, contents.counts, self.properties)
        self.lists.append(location)
        snapshot = new_snapshot(
            metadata,
            snapshot_id=factory.snapshot_id,
            parent=parent,
            manifest_list=location,
            operation=self.change.operation,
            summary=summary,
        )
        write_list(metadata, io, snapshot, contents.manifests)
        attempt = _Attempt(snapshot, current, contents, CatalogCall())
        self.attempts.append(attempt)
        return attempt

    def _check_same_table(self, metadata: TableMetadata) -> None:
        if metadata.table_uuid != self.change.table_uuid:
            raise CommitConflictError(
                f"The table {self._name} is not the one that the change was made for: its UUID is "
                f"{metadata.table_uuid}, not {self.change.table_uuid}. It was dropped and created again. Nothing was "
                "committed.",
                retryable=False,
            )
        if metadata.format_version != self.change.format_version:
            raise CommitConflictError(
                f"The table {self._name} was upgraded from format version {self.change.format_version} to "
                f"{metadata.format_version} while the change was made. Nothing was committed; run the operation again.",
                retryable=True,
            )

    def _check_specs(self, metadata: TableMetadata) -> None:
        for spec_id in {spec_id_of(f) for f in (*self.change.added_data_files, *self.change.added_delete_files)}:
            spec_of(metadata, spec_id)

    def _landed(self, current: Table) -> CommitResult | None:
        """The result if an earlier attempt, whose answer got lost, did land."""
        if not self._is_unresolved():
            return None
        snapshot_id = self.planner.factory.snapshot_id
        found = current.metadata.snapshot_by_id(snapshot_id)
        for attempt in self.attempts:
            if found is not None and attempt.snapshot.manifest_list == found.manifest_list:
                return self._succeed(attempt, current.metadata, current.metadata_location)
        known_by_others = any(entry.snapshot_id == snapshot_id for entry in current.metadata.snapshot_log) or any(
            snapshot.parent_snapshot_id == snapshot_id for snapshot in current.metadata.snapshots
        )
        if known_by_others:
            # It landed and was expired since. Which attempt it was cannot be told, so no file is removed.
            return self._result(self.attempts[-1])
        # Each attempt demands this table, and its parent as the head of the branch: once that has changed, it
        # cannot land any more.
        head = current.metadata.snapshot_by_name(self.target)
        head_id = head.snapshot_id if head else None
        for attempt in self.attempts:
            if current.metadata.table_uuid != self.change.table_uuid or head_id != attempt.snapshot.parent_snapshot_id:
                attempt.unresolved = False
        return None

    def _is_unresolved(self) -> bool:
        return any(attempt.unresolved for attempt in self.attempts)

    def _succeed(self, attempt: _Attempt, metadata: TableMetadata, location: str) -> CommitResult:
        """The commit has landed: whatever went wrong now, it stays so."""
        try:
            used = {manifest.manifest_path for manifest in attempt.contents.manifests} | {
                attempt.snapshot.manifest_list
            }
            spare = [name for name in (*self.planner.factory.written, *self.lists) if name not in used]
            live = {location, *(entry.metadata_file for entry in metadata.metadata_log)}
            spare += [name for other in self.attempts for name in other.call.metadata_files if name not in live]
            remove_files(self.io, spare)
            adopt(self.table, attempt.base.metadata, metadata, location)
        except Exception as error:
            logger.warning("%s was committed, but tidying up afterwards failed: %s", self._name, error)
        return self._result(attempt)

    def _give_up(self, failure: Exception, tries: int) -> CommitResult:
        current = self._refresh_or_none() if self._is_unresolved() else None
        if current is not None:
            landed = self._landed(current)
            if landed is not None:
                return landed
        if self._is_unresolved():
            raise self._unknown(failure) from failure
        return self._fail(
            CommitConflictError(
                f"The commit to {self._name} lost {tries} races in a row, the last one with: {failure}. Nothing was "
                "committed; run the operation again, or raise the table property commit.retry.num-retries.",
                retryable=True,
            ),
            failure,
        )

    def _fail(self, error: BaseException, cause: BaseException | None = None) -> NoReturn:
        """Leave nothing behind and raise; but if an earlier attempt may still land, keep all and say so."""
        if self._is_unresolved():
            raise self._unknown(error) from error
        self._remove_everything()
        if cause is not None:
            raise error from cause
        raise error

    def _unknown(self, error: BaseException) -> CommitStateUnknownError:
        return CommitStateUnknownError(
            f"It is not known whether the commit to {self._name} landed: {type(error).__name__}: {error}. Every file "
            f"was kept. Look for snapshot {self.planner.factory.snapshot_id} in the table's history before you run the "
            "operation again; if it is not there, the files are orphans."
        )

    def _remove_everything(self) -> None:
        planner: ManifestPlanner | None = getattr(self, "planner", None)
        names = [*(planner.factory.written if planner else ()), *self.lists]
        names += [name for attempt in self.attempts for name in attempt.call.metadata_files]
        if not self.keep_files_on_failure:
            names += [file.file_path for file in (*self.change.added_data_files, *self.change.added_delete_files)]
        remove_files(self.io, names)

    def _result(self, attempt: _Attempt) -> CommitResult:
        return result_of(attempt.snapshot.snapshot_id, self.change.kind, self.added or [], attempt.contents.removed)

    @property
    def target(self) -> str:
        return self.branch or MAIN_BRANCH

    @property
    def _name(self) -> str:
        return ".".join(self.table.name())
