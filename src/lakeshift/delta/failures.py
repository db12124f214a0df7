"""What a failed Delta write means: a lost race, rows that break a rule, or something else.

Delta's exceptions reach Python as py4j errors or as pyspark's captured ones; both carry the JVM's throwable.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

_CHANGED_UNDER_US = frozenset({"MetadataChangedException", "ProtocolChangedException"})
_SAME_TRANSACTION = frozenset({"ConcurrentTransactionException"})
_OTHER_CONFLICTS = frozenset(
    {
        "ConcurrentWriteException",
        "ConcurrentAppendException",
        "ConcurrentDeleteReadException",
        "ConcurrentDeleteDeleteException",
        "DeltaConcurrentModificationException",
    }
)


class Failure(Enum):
    """What to do about a failed write; the first four committed nothing."""

    TABLE_CHANGED = "another writer changed the table's schema, properties or protocol"
    SAME_TRANSACTION = "another writer committed the same transaction id"
    CONFLICT = "another writer's commit conflicts with what the batch has read"
    ANALYSIS = "Delta or Spark refused the batch as it is"
    BAD_ROWS = "rows break a constraint of the table"
    OTHER = "something else"


def classify(error: BaseException) -> Failure:
    """Tell a failure by the classes of the JVM's throwable and its causes."""
    names = _throwable_names(error)
    if names & _CHANGED_UNDER_US:
        return Failure.TABLE_CHANGED
    if names & _SAME_TRANSACTION:
        return Failure.SAME_TRANSACTION
    if names & _OTHER_CONFLICTS:
        return Failure.CONFLICT
    if any("InvariantViolation" in name for name in names):
        return Failure.BAD_ROWS
    if any(name.endswith("AnalysisException") for name in names):
        return Failure.ANALYSIS
    return Failure.OTHER


def first_line(error: BaseException) -> str:
    """The JVM's own message without its stack trace."""
    throwable = _throwable(error)
    while throwable is not None and throwable.getCause() is not None and "Invariant" not in _name(throwable):
        throwable = throwable.getCause()
    text = str(throwable.getMessage() if throwable is not None else error)
    return " ".join(line.strip() for line in text.strip().splitlines() if line.strip())


def _throwable(error: BaseException) -> Any:
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _throwable_names(error: BaseException) -> frozenset[str]:
    names, throwable = {type(error).__name__}, _throwable(error)
    for _ in range(20):  # causes can form a circle
        if throwable is None:
            break
        names.add(_name(throwable))
        throwable = throwable.getCause()
    return frozenset(names)


def _name(throwable: Any) -> str:
    return str(throwable.getClass().getName()).replace("$", ".").rpartition(".")[2]
