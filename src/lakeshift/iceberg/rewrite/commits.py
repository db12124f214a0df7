"""Committing rewritten groups: all at once, or some at a time while others are still being rewritten.

A group stands or falls by itself: where several are committed together and somebody else's delete is in the way of
one, that one is left out and the others are committed. No Spark here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH

from lakeshift.errors import CommitConflictError
from lakeshift.iceberg.commit.change_set import ChangeSet, RemovedFile, removed_files, replace_change
from lakeshift.iceberg.commit.cleanup import remove_files
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.commit.dangling import DanglingAfter
from lakeshift.iceberg.commit.history import Start
from lakeshift.iceberg.commit.result import CommitResult
from lakeshift.iceberg.commit.validation import RewriteValidation
from lakeshift.iceberg.kernels.data_files import WrittenFile, to_data_file
from lakeshift.iceberg.rewrite.plan import RewriteDataFilesPlan, RewriteGroup

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RewrittenGroup:
    """A group whose new files are written and wait to be committed."""

    group: RewriteGroup
    files: tuple[WrittenFile, ...]
    seconds: float

    @property
    def locations(self) -> list[str]:
        return [file.location for file in self.files]

    def removed(self) -> list[RemovedFile]:
        """The files that the new ones take the place of."""
        return [file for part in self.group.inputs for file in removed_files({part.spec_id: part.files})]


@dataclass
class GroupCommits:
    """Commits groups of one plan to a table."""

    table: Table
    plan: RewriteDataFilesPlan
    branch: str | None
    snapshot_properties: Mapping[str, str]

    def commit(self, groups: Sequence[RewrittenGroup]) -> CommitResult:
        """Commit groups as one snapshot; if that fails, their new files are removed."""
        return self._commit(groups, keep_files_on_failure=False)

    def commit_those_that_hold(
        self, groups: Sequence[RewrittenGroup]
    ) -> tuple[CommitResult | None, list[RewrittenGroup], dict[int, CommitConflictError]]:
        """Commit groups as one snapshot, without those that another commit is in the way of.

        Returns the result (None if no group was left), the groups that it holds, and the conflicts of the others by
        group id, whose files are removed.
        """
        left, conflicts = list(groups), dict[int, CommitConflictError]()
        while left:
            try:
                return self._commit(left, keep_files_on_failure=len(left) > 1), left, conflicts
            except CommitConflictError as error:
                found = self._conflicts(left) if len(left) > 1 else {left[0].group.group_id: error}
                if not found:
                    # What stood in the way is not to be found in any group: no part of it would fare better.
                    found = {each.group.group_id: error for each in left}
                conflicts |= found
                lost = [each for each in left if each.group.group_id in found]
                remove_files(self.table.io, [name for each in lost for name in each.locations])
                left = [each for each in left if each.group.group_id not in found]
        return None, [], conflicts

    def _commit(self, groups: Sequence[RewrittenGroup], *, keep_files_on_failure: bool) -> CommitResult:
        change = self._change(groups)
        branch = self.branch or MAIN_BRANCH
        remove = self.plan.options.remove_dangling_deletes and self.table.metadata.format_version > 1
        return commit(
            self.table,
            change,
            branch=self.branch,
            snapshot_properties=self.snapshot_properties,
            validations=[self._validation(groups, change)],
            dangling_deletes=DanglingAfter(change, branch) if remove else None,
            keep_files_on_failure=keep_files_on_failure,
        )

    def _change(self, groups: Sequence[RewrittenGroup]) -> ChangeSet:
        metadata = self.table.metadata
        added: list[DataFile] = [to_data_file(metadata, file) for each in groups for file in each.files]
        keeps_number = self._is_in_place(groups) and metadata.format_version > 1
        return replace_change(
            metadata,
            added,
            [file for each in groups for file in each.removed()],
            data_sequence_number=self.plan.sequence_number if keeps_number else None,
            starting_snapshot_id=self.plan.snapshot_id,
        )

    def _is_in_place(self, groups: Sequence[RewrittenGroup]) -> bool:
        """Whether rows keep their partition and may keep the age of the snapshot that was planned on.

        Rows that move must be new: an equality delete that came to their new partition meanwhile is not about them.
        """
        moves = any(each.group.moved_files for each in groups)
        return self.plan.options.use_starting_sequence_number and not moves

    def _validation(self, groups: Sequence[RewrittenGroup], start: ChangeSet | Start) -> RewriteValidation:
        removed = start.removed_data_files if isinstance(start, ChangeSet) else [f for g in groups for f in g.removed()]
        branch = self.branch or MAIN_BRANCH
        if self._is_in_place(groups):
            return RewriteValidation(start, in_place=removed, branch=branch)
        return RewriteValidation(start, moved=removed, branch=branch)

    def _conflicts(self, groups: Sequence[RewrittenGroup]) -> dict[int, CommitConflictError]:
        """Which of these groups another commit is in the way of."""
        current = self.table.catalog.load_table(self.table.name())
        metadata = self.table.metadata
        start = Start(metadata.table_uuid, metadata.format_version, self.plan.snapshot_id)
        found = {}
        for each in groups:
            try:
                self._validation([each], start)(current.metadata, current.io)
            except CommitConflictError as error:
                found[each.group.group_id] = error
        return found
