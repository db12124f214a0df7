"""Partition fields as people write them (``day(ts)``, ``bucket(16, id)``, ``region``), and what they become.

No Spark here, and no catalog.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)

from lakeshift.errors import ConfigError

_PLAIN: dict[str, Callable[[], Transform[Any, Any]]] = {
    "identity": IdentityTransform,
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
    "void": VoidTransform,
}
_WITH_NUMBER: dict[str, tuple[type[BucketTransform[Any]] | type[TruncateTransform[Any]], str]] = {
    "bucket": (BucketTransform, "bucket"),
    "truncate": (TruncateTransform, "trunc"),
}
_ALIASES = {"years": "year", "months": "month", "days": "day", "date": "day", "hours": "hour", "date_hour": "hour"}

_EXAMPLES = "region, day(ts), bucket(16, id) or truncate(4, sku)"
_CALL = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)
_COLUMN = re.compile(r"(?:`(?:[^`]|``)+`|[^`\s.(),]+)(?:\.(?:`(?:[^`]|``)+`|[^`\s.(),]+))*")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


@dataclass(frozen=True)
class PartitionExpression:
    """A transform of one column, as written in ``partition_by`` or ``evolve_partitions``."""

    source: str
    transform: Transform[Any, Any]
    suffix: str = ""

    @property
    def name(self) -> str:
        """The partition field's name, as Iceberg's other engines would choose it."""
        return self.source + self.suffix

    def __str__(self) -> str:
        return describe_field(self.source, self.transform)


def parse_partition_expression(text: str) -> PartitionExpression:
    """Read one partition expression; anything else is a ConfigError that shows how to write one."""
    call = _CALL.fullmatch(text)
    if call is None:
        return PartitionExpression(_column(text, text), IdentityTransform())
    name = call.group(1).lower()
    name = _ALIASES.get(name, name)
    arguments = [part.strip() for part in call.group(2).split(",")]
    if name in _PLAIN and len(arguments) == 1:
        suffix = "" if name == "identity" else "_null" if name == "void" else f"_{name}"
        return PartitionExpression(_column(arguments[0], text), _PLAIN[name](), suffix)
    if name in _WITH_NUMBER and len(arguments) == 2:
        # Spark and Iceberg's docs write the number first, some SQL dialects last: both are clear.
        number, column = arguments if arguments[0].isdigit() else reversed(arguments)
        if number.isdigit() and int(number) > 0:
            transform, short = _WITH_NUMBER[name]
            return PartitionExpression(_column(column, text), transform(int(number)), f"_{short}_{int(number)}")
    raise ConfigError(f"Cannot read the partition expression {text!r}. Write {_EXAMPLES}.")


def build_partition_spec(schema: Schema, expressions: Sequence[str]) -> PartitionSpec:
    """The partition spec of a new table."""
    fields: list[PartitionField] = []
    for text in expressions:
        expression = parse_partition_expression(text)
        field = resolve_source(schema, expression)
        if any(expression.name == other.name for other in fields):
            raise ConfigError(f"The partition field {expression.name!r} appears twice in {list(expressions)}.")
        fields.append(
            PartitionField(field, PARTITION_FIELD_ID_START + len(fields), expression.transform, expression.name)
        )
    return PartitionSpec(*fields)


def resolve_source(schema: Schema, expression: PartitionExpression) -> int:
    """The field id of the expression's column, or a ConfigError if it cannot be partitioned that way."""
    try:
        field = schema.find_field(expression.source)
    except ValueError:
        raise ConfigError(
            f"Cannot partition by {expression}: there is no column {expression.source!r}; "
            f"the schema has {', '.join(sorted(schema.column_names))}."
        ) from None
    if not field.field_type.is_primitive or not expression.transform.can_transform(field.field_type):
        raise ConfigError(f"Cannot partition by {expression}: {expression.source!r} is of type {field.field_type}.")
    for parent in _parents(expression.source):
        if not schema.find_type(parent).is_struct:
            raise ConfigError(
                f"Cannot partition by {expression}: {parent!r} is a {schema.find_type(parent)}, "
                "and a partition source may be nested in structs only."
            )
    return field.field_id


def describe_field(source: str, transform: Transform[Any, Any]) -> str:
    """A partition field as people write it: the inverse of ``parse_partition_expression``."""
    if isinstance(transform, IdentityTransform):
        return source
    if isinstance(transform, BucketTransform):
        return f"bucket({transform.num_buckets}, {source})"
    if isinstance(transform, TruncateTransform):
        return f"truncate({transform.width}, {source})"
    return f"{transform}({source})"


def describe_spec(spec: PartitionSpec, schemas: Sequence[Schema]) -> list[str]:
    """A spec's fields as people write them; a source that no given schema has is shown by its id."""
    return [describe_field(_source_name(field.source_id, schemas), field.transform) for field in spec.fields]


def _source_name(field_id: int, schemas: Sequence[Schema]) -> str:
    for schema in schemas:
        if name := schema.find_column_name(field_id):
            return name
    return f"field#{field_id}"


def _column(text: str, whole: str) -> str:
    text = text.strip()
    if not _COLUMN.fullmatch(text):
        raise ConfigError(f"Cannot read the partition expression {whole!r}. Write {_EXAMPLES}.")
    return ".".join(quoted.replace("``", "`") if quoted else plain for quoted, plain in _PART.findall(text))


def _parents(column: str) -> list[str]:
    parts = column.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts))]
