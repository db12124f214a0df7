"""What a plan's filter did, for people and for checks: counters, a bounded list of warnings, a report per spec.

Nothing is logged here or anywhere in planning; who shows a plan decides what to say of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

MAX_WARNINGS = 20


@dataclass(frozen=True)
class FilterStats:
    """How often a filter could not be decided and files were taken in for safety.

    ``unevaluable_specs`` counts the specs whose partitions it could not be projected onto, ``eval_errors`` the
    partitions whose evaluation failed, ``fail_open_partitions`` the partitions that were included for either
    reason, and ``fail_open_files`` the candidate files in those: files that also passed the thresholds of size and
    deletes. A partition is a spec with its values, and is counted once.
    """

    unevaluable_specs: int = 0
    eval_errors: int = 0
    fail_open_partitions: int = 0
    fail_open_files: int = 0


class Concern(Enum):
    """What a warning is about."""

    UNEVALUABLE_SPEC = "unevaluable-spec"
    EVALUATION_ERROR = "evaluation-error"


@dataclass(frozen=True)
class PlanWarning:
    """Something about the filter that a careful user wants to know; ``partition`` is None if it holds for a spec."""

    concern: Concern
    spec_id: int
    partition: str | None
    message: str

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "concern": self.concern.value}


@dataclass
class WarningList:
    """Collects warnings, each once and no more than so many; counts those beyond."""

    limit: int = MAX_WARNINGS
    omitted: int = 0
    _kept: dict[PlanWarning, None] = field(default_factory=dict)

    def add(self, warning: PlanWarning) -> None:
        if warning in self._kept:
            return
        if len(self._kept) < self.limit:
            self._kept[warning] = None
        else:
            self.omitted += 1

    @property
    def kept(self) -> tuple[PlanWarning, ...]:
        return tuple(self._kept)


class SpecStatus(Enum):
    """What a filter could say about the partitions of a spec."""

    NO_FILTER = "no filter"
    CONSTRAINED = "constrained"
    NOT_CONSTRAINED = "not constrained"
    UNEVALUABLE = "unevaluable"


@dataclass(frozen=True)
class SpecReport:
    """What planning did with the files of one spec.

    ``detail`` is the filter as it was projected onto the spec's partitions, or the reason why there is none.
    ``files`` are the files of the manifests that were read; ``candidates`` are those that passed the filter and
    the thresholds, ``chosen`` those that are in the plan.
    """

    spec_id: int
    fields: tuple[str, ...]
    status: SpecStatus
    detail: str
    manifests_read: int = 0
    manifests_skipped: int = 0
    partitions: int = 0
    partitions_excluded: int = 0
    fail_open_partitions: int = 0
    files: int = 0
    files_excluded_by_partition: int = 0
    files_excluded_by_metrics: int = 0
    candidates: int = 0
    chosen: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "fields": list(self.fields), "status": self.status.value}
