"""The clauses of a MERGE, checked as SQL would check them. Nothing runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakeshift.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column


class Kind(Enum):
    """When a clause applies."""

    MATCHED = "when matched"
    NOT_MATCHED = "when not matched"
    NOT_MATCHED_BY_SOURCE = "when not matched by source"


@dataclass(frozen=True)
class Clause:
    """One clause. ``assigned`` is None for a delete, and empty for the form that takes every column by its name."""

    number: int
    kind: Kind
    condition: str | Column | None
    assigned: Mapping[str, Any] | None

    @property
    def is_delete(self) -> bool:
        return self.assigned is None

    @property
    def takes_all(self) -> bool:
        return self.assigned is not None and not self.assigned

    def __str__(self) -> str:
        does = "delete" if self.is_delete else "insert" if self.kind is Kind.NOT_MATCHED else "update"
        return f"clause {self.number + 1} of MERGE ({self.kind.value} {does})"


def check_clauses(clauses: Sequence[Clause]) -> None:
    """Refuse a MERGE without clauses, and clauses that could never apply."""
    if not clauses:
        raise ConfigError(
            "A MERGE needs at least one clause, such as when_matched_update() or when_not_matched_insert()."
        )
    for kind in Kind:
        mine = [clause for clause in clauses if clause.kind is kind]
        for clause in mine[:-1]:
            if clause.condition is None:
                raise ConfigError(
                    f"The {clause} has no condition, so that the clauses after it could never apply. Only the last "
                    f"clause of its kind may do without one."
                )


def needs_cardinality_check(clauses: Sequence[Clause]) -> bool:
    """Whether a target row that several source rows match is an error: not where all it can suffer is one deletion."""
    matched = [clause for clause in clauses if clause.kind is Kind.MATCHED]
    return bool(matched) and not (len(matched) == 1 and matched[0].is_delete and matched[0].condition is None)
