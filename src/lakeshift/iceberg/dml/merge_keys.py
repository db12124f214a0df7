"""What a MERGE's condition says of the target alone: which of its columns it needs, and which files cannot match.

No Spark here. What cannot be read from the text prunes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    LessThanOrEqual,
)
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DecimalType, IntegerType, LongType, StringType

from lakeshift.errors import ConfigError
from lakeshift.iceberg.predicate_columns import name_parts
from lakeshift.iceberg.predicates import translate

if TYPE_CHECKING:
    from sqlglot import exp

TARGET, SOURCE = "target", "source"

# Types whose values Python, Spark and Iceberg order alike.
_ORDERED = (IntegerType, LongType, StringType, DateType, DecimalType)


@dataclass(frozen=True)
class KeyPair:
    """Two columns that a condition demands to be equal."""

    target: str
    source: str


def named_columns(texts: Iterable[Any], schema: Schema) -> tuple[str, ...]:
    """The top-level columns that SQL texts may name: every one whose name occurs as a word.

    What is not text, and a star, may name them all.
    """
    everything = tuple(field.name for field in schema.fields)
    given = [text for text in texts if text is not None]
    if any(not isinstance(text, str) or re.search(r"[(,.]\s*\*", text) for text in given):
        return everything
    whole = " ".join(given).lower()
    words = set(re.findall(r"\w+", whole))
    return tuple(name for name in everything if not re.fullmatch(r"\w+", name) or name.lower() in words)


def key_pairs(on: Any, schema: Schema, source: Mapping[str, str], target: Mapping[str, str]) -> list[KeyPair]:
    """The pairs of columns of one type that a condition demands to be equal, beside whatever else it demands.

    ``source`` and ``target`` are the types of columns, in Spark's words.
    """
    from sqlglot import exp

    found = []
    for conjunct in _conjuncts(on):
        if not isinstance(conjunct, exp.EQ):
            continue
        sides: dict[str, str] = {}
        for node in (conjunct.this, conjunct.expression):
            parts = name_parts(node) or []
            if len(parts) == 2:
                sides[parts[0].lower()] = parts[1]
        mine = _only(sides.get(TARGET), [field.name for field in schema.fields])
        other = _only(sides.get(SOURCE), source)
        if mine is None or other is None or source[other] != target[mine]:
            continue
        if isinstance(schema.find_field(mine).field_type, _ORDERED):
            found.append(KeyPair(mine, other))
    return found


def key_range(pairs: Iterable[KeyPair], ranges: Mapping[str, tuple[Any, Any]]) -> BooleanExpression:
    """A filter that target rows must pass to be equal to a source row; ``ranges`` by the source's columns."""
    found: BooleanExpression = AlwaysTrue()
    for pair in pairs:
        low, high = ranges[pair.source]
        if low is None or high is None:
            return AlwaysFalse()  # nothing equals null
        # PyIceberg's models take their arguments by position, which the type checker does not know.
        at_least, at_most = cast(Any, GreaterThanOrEqual), cast(Any, LessThanOrEqual)
        found = And(found, And(at_least(pair.target, low), at_most(pair.target, high)))
    return found


def target_only(on: Any, schema: Schema, *, case_sensitive: bool, session_time_zone: str | None) -> BooleanExpression:
    """What a condition demands of the target alone, as far as it can be said exactly."""
    from sqlglot import exp

    found: BooleanExpression = AlwaysTrue()
    for conjunct in _conjuncts(on):
        columns = list(conjunct.find_all(exp.Column))
        if not columns or any((column.table or "").lower() != TARGET or column.db for column in columns):
            continue
        plain = conjunct.copy()
        for column in plain.find_all(exp.Column):
            column.set("table", None)
        try:
            said = translate(
                plain.sql(dialect="spark"), schema, case_sensitive=case_sensitive, session_time_zone=session_time_zone
            )
        except ConfigError:
            continue
        if said.exact:
            found = And(found, said.pushed)
    return found


def _conjuncts(on: Any) -> Iterator[exp.Expr]:
    import sqlglot
    from sqlglot import exp

    if not isinstance(on, str):
        return
    try:
        node = sqlglot.parse_one(on, into=exp.Condition, read="spark")
    except sqlglot.errors.SqlglotError:
        return
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Paren):
            waiting.append(part.this)
        elif isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        else:
            yield part


def _only(name: str | None, names: Iterable[str]) -> str | None:
    """The one name that is meant, whatever the case; None if there are several."""
    found = [known for known in names if name is not None and known.lower() == name.lower()]
    return found[0] if len(found) == 1 else None
