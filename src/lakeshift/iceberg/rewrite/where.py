"""A filter on files, from what a caller gave: Spark SQL text, or an expression of PyIceberg's."""

from __future__ import annotations

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema

from lakeshift.errors import ConfigError
from lakeshift.iceberg.predicates import translate


def file_filter(
    where: str | BooleanExpression | None,
    schema: Schema,
    *,
    case_sensitive: bool = False,
    session_time_zone: str | None = None,
) -> tuple[BooleanExpression | None, bool]:
    """The filter as an expression, None if it admits everything; and whether its names are those of the schema by case.

    Text must be something that values in metadata can answer. What only Spark could decide, row by row, is an
    error that names it: leaving it out would rewrite more than was asked for.
    """
    if where is None or isinstance(where, BooleanExpression):
        return (None if isinstance(where, AlwaysTrue) else where), case_sensitive
    found = translate(where, schema, case_sensitive=case_sensitive, session_time_zone=session_time_zone)
    if not found.exact:
        parts = "; ".join(found.remainder)
        remedy = "" if session_time_zone else ", and give session_time_zone if times are written without a zone"
        raise ConfigError(
            f"A rewrite chooses whole files, and cannot tell from their metadata whether they match: {parts}. Compare "
            f"columns with literals, by =, <, >, IN, IS NULL, LIKE 'prefix%' and the like{remedy}."
        )
    return (None if isinstance(found.pushed, AlwaysTrue) else found.pushed), True
