"""What Spark says when SQL or a value is wrong, as errors that name the text and the remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lakeshift.errors import BadRowsError, ConfigError, TaskFailedError

# What a value that does not fit says in Spark's error text, so that the driver knows it again.
MISFIT, MISFIT_END = "lakeshift-misfit:", "[misfit]"


@contextlib.contextmanager
def value_errors(what: str) -> Iterator[None]:
    """Errors about assigned values, in the words of the operation that assigned them."""
    remedy = "Nothing was committed. Correct the values that the operation assigns."
    try:
        yield
    except BadRowsError as error:
        raise BadRowsError(str(error).split("\nNothing was committed.")[0] + f"\n{remedy}") from error
    except TaskFailedError as error:
        if MISFIT in str(error):
            reason = str(error).split(MISFIT, 1)[1].split(MISFIT_END, 1)[0]
            raise BadRowsError(f"{what}: {reason} {remedy}") from error
        raise


@contextlib.contextmanager
def sql_errors(what: str) -> Iterator[None]:
    """What Spark finds wrong with SQL text, as an error that names the text."""
    try:
        yield
    except Exception as error:
        module = type(error).__module__
        if type(error).__name__ not in ("AnalysisException", "ParseException") or not module.startswith("pyspark."):
            raise
        message = str(error).split("\nJVM stacktrace")[0].strip()
        raise ConfigError(f"Spark cannot evaluate {what}: {message}") from error
