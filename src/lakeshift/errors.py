"""The errors that lakeshift raises: one root, and a family in which each says what to do next.

Every error also inherits from the built-in that a caller would expect, so that code written
without knowing lakeshift still catches the right thing. Nothing else of lakeshift is imported here.
"""

from __future__ import annotations


class LakeshiftError(Exception):
    """Something lakeshift refuses or failed to do; the message names the value and the remedy."""


class ConfigError(LakeshiftError, ValueError):
    """A setting, an option or a name is wrong or missing."""


class StackError(LakeshiftError, RuntimeError):
    """Java, Spark, a jar or an executor's Python package is missing or of the wrong version."""


class InvalidStateError(LakeshiftError, RuntimeError):
    """A call came at the wrong time, such as a write to a sink that is not open."""


class UnsupportedTableError(LakeshiftError, NotImplementedError):
    """The table has a property that lakeshift cannot serve; nothing was written."""


class SchemaMismatchError(LakeshiftError, ValueError):
    """The rows' columns or types do not fit the table's."""


class UnknownSpecError(LakeshiftError, ValueError):
    """A partition spec id that the table does not have."""


class SpecNotWritableError(LakeshiftError, ValueError):
    """A partition spec whose values can no longer be computed from the current schema."""


class BadRowsError(LakeshiftError, ValueError):
    """Rows that cannot be written as they are; nothing was committed."""


class MergeCardinalityError(LakeshiftError, ValueError):
    """A MERGE in which several source rows match one target row; nothing was committed."""


class FilterNotEvaluableError(LakeshiftError, ValueError):
    """A filter that cannot be decided for every partition, where the caller asked for certainty."""


class CommitConflictError(LakeshiftError, RuntimeError):
    """Another commit came in between and the change no longer holds; nothing was committed.

    ``retryable`` says whether running the same operation again, on fresh data, can succeed.
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_conflict, (str(self), self.retryable)


class CommitStateUnknownError(LakeshiftError, RuntimeError):
    """The catalog did not say whether the commit landed; every file was kept."""


class PipelineError(LakeshiftError, RuntimeError):
    """A step of a pipeline failed for a reason that is not lakeshift's own, such as an error of Spark."""


class TaskFailedError(LakeshiftError, RuntimeError):
    """A kernel raised on an executor, in every attempt that Spark gave it.

    ``task`` names the task, ``host`` the machine of the last attempt, ``cause_type`` and
    ``cause_message`` the exception as it was raised there, ``trace`` its traceback.
    """

    def __init__(
        self,
        message: str,
        *,
        task: str = "",
        host: str = "",
        cause_type: str = "",
        cause_message: str = "",
        trace: str = "",
    ) -> None:
        super().__init__(message)
        self.task = task
        self.host = host
        self.cause_type = cause_type
        self.cause_message = cause_message
        self.trace = trace


def _rebuild_conflict(message: str, retryable: bool) -> CommitConflictError:
    return CommitConflictError(message, retryable=retryable)
