"""MERGE as it is put together, clause by clause. How it runs is in `merging`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakeshift.errors import ConfigError
from lakeshift.iceberg.commit.result import CommitResult
from lakeshift.iceberg.dml.merge_clauses import Clause, Kind, check_clauses
from lakeshift.iceberg.dml.merging import Merging
from lakeshift.iceberg.dml.run import Preview, Run

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Merge:
    """A MERGE that is being put together; nothing happens before ``execute()``. Of each kind the first match wins."""

    def __init__(self, begin: Callable[[], Run], source: DataFrame, on: str | Column) -> None:
        self._begin = begin
        self._source = source
        self._on = on
        self._clauses: list[Clause] = []

    def when_matched_update(
        self,
        set: Mapping[str, str | Column] | None = None,  # noqa: A002 - SQL's own word, and the API's
        condition: str | Column | None = None,
    ) -> Merge:
        """Assign to columns of target rows that a source row matches; without ``set`` to all, by name."""
        return self._add(Kind.MATCHED, condition, _given(set, "set"))

    def when_matched_delete(self, condition: str | Column | None = None) -> Merge:
        """Delete target rows that a source row matches."""
        return self._add(Kind.MATCHED, condition, None)

    def when_not_matched_insert(
        self, values: Mapping[str, str | Column] | None = None, condition: str | Column | None = None
    ) -> Merge:
        """Insert source rows that match no target row; without ``values`` all columns, by name."""
        return self._add(Kind.NOT_MATCHED, condition, _given(values, "values"))

    def when_not_matched_by_source_delete(self, condition: str | Column | None = None) -> Merge:
        """Delete target rows that no source row matches."""
        return self._add(Kind.NOT_MATCHED_BY_SOURCE, condition, None)

    def when_not_matched_by_source_update(
        self,
        set: Mapping[str, str | Column],  # noqa: A002
        condition: str | Column | None = None,
    ) -> Merge:
        """Assign to columns of target rows that no source row matches."""
        if not set:
            raise ConfigError("when_not_matched_by_source_update needs set={...}: there is no source row to take from.")
        return self._add(Kind.NOT_MATCHED_BY_SOURCE, condition, set)

    def execute(self) -> CommitResult:
        """Do it, in one commit."""
        return self.begin().execute()

    def preview(self) -> Preview:
        """What ``execute()`` would change; nothing is written."""
        return self.begin().preview()

    def begin(self) -> Merging:
        """Check the clauses against the table as it is now."""
        check_clauses(self._clauses)
        merging = Merging(self._begin(), self._source, self._on, tuple(self._clauses))
        merging.check()
        return merging

    def _add(self, kind: Kind, condition: str | Column | None, assigned: Mapping[str, Any] | None) -> Merge:
        self._clauses.append(Clause(len(self._clauses), kind, condition, assigned))
        return self


def _given(assigned: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    if assigned is not None and not assigned:
        raise ConfigError(f"{name} is empty; leave it out to take every column of the source by its name.")
    return assigned or {}
