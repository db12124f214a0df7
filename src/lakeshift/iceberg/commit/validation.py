"""Conflict checks: does a change that was planned on one snapshot still hold on the table as it is now?

Each check is a function of the commits since the operation started, and of what the operation relies on;
it returns nothing, or raises a CommitConflictError that names the commit and the files in the way. The
three validations at the end are what a kind of operation needs of them. They are called with the current
metadata on every attempt of a commit, and nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import IsolationLevel

from lakeshift.errors import CommitConflictError, ConfigError
from lakeshift.iceberg.commit.history import History, StartingPoint, history_since
from lakeshift.iceberg.deletes import DATA_COLUMNS, DELETE_COLUMNS, DeleteIndex
from lakeshift.iceberg.file_filter import FILTER_COLUMNS, files_that_can_match
from lakeshift.iceberg.ledger import read_ledger
from lakeshift.locations import canonical_location, canonical_locations

_NAMED_FILES = 3


class PlannedFile(Protocol):
    """A file of the starting snapshot that an operation removes or deletes from."""

    @property
    def file_path(self) -> str: ...
    @property
    def spec_id(self) -> int: ...
    @property
    def manifest_path(self) -> str | None: ...


def check_no_new_data(history: History, where: BooleanExpression, *, case_sensitive: bool = True) -> None:
    """Fail if rows that ``where`` may select came in since; each new file is judged by its own spec and metrics."""
    found = []
    for spec_id, added in history.added_data([*FILTER_COLUMNS, "file_path"]).items():
        try:
            mask = files_that_can_match(where, spec_id, added, history.metadata, case_sensitive=case_sensitive)
        except (ValueError, TypeError) as error:
            # The filter does not fit the table any more, so nothing can be said about the new rows.
            raise _conflict(
                history, [added], f"added data files, and {where} cannot be evaluated on them ({error})"
            ) from error
        if pc.any(mask, min_count=0).as_py():
            found.append(added.filter(mask))
    if found:
        raise _conflict(history, found, f"added data files that may hold rows which match {where}")


def check_data_files_exist(history: History, paths: Iterable[str]) -> None:
    """Fail if a data file that the operation removes, or deletes rows from, was removed since."""
    _check_exist(history, history.removed_data, paths, "removed data files that the operation relies on")


def check_delete_files_exist(history: History, paths: Iterable[str]) -> None:
    """Fail if a delete file that the operation removes was removed since."""
    _check_exist(history, history.removed_deletes, paths, "removed delete files that the operation replaces")


def check_no_new_deletes(
    history: History, files: Callable[[], Mapping[int, pa.Table]], *, tolerate_equality: bool = False
) -> None:
    """Fail if deletes came in since that apply to data files which the operation replaces or deletes from.

    ``files`` gives the rows of these data files in the ledger, by spec id; it is only called if there are new
    deletes at all. With ``tolerate_equality`` new equality deletes are no conflict: they still apply to files
    that take the place of the old ones with the same PartitionKey and the starting sequence number.
    """
    added = history.added_deletes([*DELETE_COLUMNS])
    if tolerate_equality:
        added = {
            spec_id: table.filter(pc.not_equal(table.column("content"), DataFileContent.EQUALITY_DELETES.value))
            for spec_id, table in added.items()
        }
    if not any(table.num_rows for table in added.values()):
        return
    index = DeleteIndex(history.metadata, added)
    affected, culprits = [], []
    for spec_id, rows in files().items():
        pairs = index.match(spec_id, rows).pairs()
        affected += rows.column("file_path").take(pc.unique(pairs.column("data_row"))).to_pylist()
        for delete_spec_id, deletes in added.items():
            mine = pairs.filter(pc.equal(pairs.column("delete_spec_id"), delete_spec_id))
            culprits.append(deletes.take(pc.unique(mine.column("delete_row"))))
    if affected:
        raise _conflict(
            history, culprits, f"added deletes for {_some(affected)}, which the operation replaces or deletes from"
        )


def rows_at_start(
    start: StartingPoint, metadata: TableMetadata, io: FileIO, planned: Sequence[PlannedFile]
) -> dict[int, pa.Table]:
    """The ledger rows of data files in the snapshot that an operation started from, as matching deletes needs them."""
    if not planned:
        return {}
    if start.starting_snapshot_id is None:
        raise ConfigError(f"{planned[0].file_path} cannot have been planned on a branch that had no snapshot.")
    specs = {file.spec_id for file in planned}
    manifests = {file.manifest_path for file in planned}

    def is_needed(manifest: ManifestFile) -> bool:
        return (
            manifest.content == ManifestContent.DATA
            and manifest.partition_spec_id in specs
            and (None in manifests or manifest.manifest_path in manifests)
        )

    ledger = read_ledger(metadata, io, start.starting_snapshot_id, columns=DATA_COLUMNS, manifest_filter=is_needed)
    wanted = pa.array({canonical_location(file.file_path) for file in planned}, pa.string())
    found = {
        spec_id: rows.filter(pc.is_in(canonical_locations(rows.column("file_path")), value_set=wanted))
        for spec_id, rows in ledger.data.items()
    }
    if sum(rows.num_rows for rows in found.values()) < len(wanted):
        present = [
            pa.chunked_array([], pa.string()),
            *(canonical_locations(r.column("file_path")) for r in found.values()),
        ]
        known = pa.chunked_array([chunk for column in present for chunk in column.chunks], pa.string())
        missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=known)))
        raise ConfigError(
            f"{_some(missing.to_pylist())} is not live in snapshot {start.starting_snapshot_id}, which the operation "
            "started from. Plan the operation on one snapshot, and start from that one."
        )
    return found


@dataclass(frozen=True)
class OverwriteValidation:
    """For an overwrite, and for copy-on-write DELETE, UPDATE and MERGE: ``removed`` are replaced by other files.

    ``where`` selects the rows that the operation read or replaces, None if it read none but those of the
    removed files. The new files take a new sequence number, so that new equality deletes conflict too.
    """

    start: StartingPoint
    where: BooleanExpression | None
    removed: Sequence[PlannedFile]
    isolation: IsolationLevel = IsolationLevel.SERIALIZABLE
    branch: str = MAIN_BRANCH
    case_sensitive: bool = True

    def __call__(self, metadata: TableMetadata, io: FileIO) -> None:
        history = history_since(self.start, metadata, io, self.branch)
        check_data_files_exist(history, [file.file_path for file in self.removed])
        check_no_new_deletes(history, lambda: rows_at_start(self.start, metadata, io, self.removed))
        if self.isolation == IsolationLevel.SERIALIZABLE and self.where is not None:
            check_no_new_data(history, self.where, case_sensitive=self.case_sensitive)


@dataclass(frozen=True)
class RowDeltaValidation:
    """For merge-on-read DELETE, UPDATE and MERGE: ``deleted_from`` are the data files that new deletes refer to.

    ``moves_rows`` says that rows are written anew elsewhere, as UPDATE and MERGE do: a row that somebody else
    deletes meanwhile would return with them. A DELETE only deletes it twice.
    """

    start: StartingPoint
    where: BooleanExpression | None
    deleted_from: Sequence[PlannedFile]
    moves_rows: bool
    isolation: IsolationLevel = IsolationLevel.SERIALIZABLE
    branch: str = MAIN_BRANCH
    case_sensitive: bool = True

    def __call__(self, metadata: TableMetadata, io: FileIO) -> None:
        history = history_since(self.start, metadata, io, self.branch)
        check_data_files_exist(history, [file.file_path for file in self.deleted_from])
        if self.moves_rows:
            check_no_new_deletes(history, lambda: rows_at_start(self.start, metadata, io, self.deleted_from))
        if self.isolation == IsolationLevel.SERIALIZABLE and self.where is not None:
            check_no_new_data(history, self.where, case_sensitive=self.case_sensitive)


@dataclass(frozen=True)
class RewriteValidation:
    """For compaction, which replaces files by others with the same rows.

    ``in_place`` are the files whose rows keep their PartitionKey and the data sequence number of the starting
    snapshot: new equality deletes still apply to these rows. The rows of ``moved`` files go to another key,
    where a new equality delete would not find them. ``removed_deletes`` are delete files that go as well.
    """

    start: StartingPoint
    in_place: Sequence[PlannedFile] = ()
    moved: Sequence[PlannedFile] = ()
    removed_deletes: Sequence[PlannedFile] = ()
    branch: str = MAIN_BRANCH

    def __call__(self, metadata: TableMetadata, io: FileIO) -> None:
        history = history_since(self.start, metadata, io, self.branch)
        check_data_files_exist(history, [file.file_path for file in (*self.in_place, *self.moved)])
        check_delete_files_exist(history, [file.file_path for file in self.removed_deletes])
        if self.in_place:
            check_no_new_deletes(
                history, lambda: rows_at_start(self.start, metadata, io, self.in_place), tolerate_equality=True
            )
        if self.moved:
            check_no_new_deletes(history, lambda: rows_at_start(self.start, metadata, io, self.moved))


def _check_exist(
    history: History, removed: Callable[[Sequence[str]], Mapping[int, pa.Table]], paths: Iterable[str], what: str
) -> None:
    wanted = pa.array({canonical_location(path) for path in paths}, pa.string())
    if not len(wanted):
        return
    found = []
    for table in removed(["file_path"]).values():
        hit = table.filter(pc.is_in(canonical_locations(table.column("file_path")), value_set=wanted))
        if hit.num_rows:
            found.append(hit)
    if found:
        raise _conflict(history, found, what)


def _conflict(history: History, culprits: Sequence[pa.Table], what: str) -> CommitConflictError:
    by_snapshot: dict[int, list[str]] = {}
    for table in culprits:
        for snapshot_id, path in zip(
            table.column("snapshot_id").to_pylist(), table.column("file_path").to_pylist(), strict=True
        ):
            by_snapshot.setdefault(snapshot_id, []).append(path)
    commits = "; ".join(f"{history.describe(number)}: {_some(paths)}" for number, paths in by_snapshot.items())
    return CommitConflictError(
        f"While the operation ran, other commits to branch {history.branch!r} of the table at "
        f"{history.metadata.location} {what} ({commits}). Nothing was committed; run the operation again, and it will "
        "take them into account.",
        retryable=True,
    )


def _some(paths: Sequence[str]) -> str:
    named = ", ".join(paths[:_NAMED_FILES])
    return named if len(paths) <= _NAMED_FILES else f"{named} and {len(paths) - _NAMED_FILES} more"
