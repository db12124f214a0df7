"""Spark, Arrow and SQL schemas as Iceberg schemas.

Spark's types are read from their JSON form, so that neither pyspark nor a JVM is needed here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from lakeshift.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType as SparkStructType
    from sqlglot import exp

# A pyspark StructType, a pyarrow Schema, a PyIceberg Schema, or columns as SQL text: "id bigint, ts timestamp".
SchemaLike: TypeAlias = "Schema | pa.Schema | SparkStructType | str"

_PRIMITIVES: dict[str, Callable[[], IcebergType]] = {
    "boolean": BooleanType,
    # Iceberg has no narrower integers; both fit without loss.
    "byte": IntegerType,
    "short": IntegerType,
    "integer": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "string": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestamptzType,
    "timestamp_ntz": TimestampType,
}
_SQL_NAMES = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TEXT": "string",
    "VARCHAR": "string",
    "CHAR": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_CHARS = re.compile(r"(?:var)?char\(\d+\)")


def to_iceberg_schema(schema: SchemaLike) -> Schema:
    """An Iceberg schema with fresh field ids, from whatever form the caller has."""
    if isinstance(schema, Schema):
        return assign_fresh_schema_ids(schema)
    if isinstance(schema, pa.Schema):
        return assign_fresh_schema_ids(_from_arrow(schema))
    if isinstance(schema, str):
        return _Converter().schema(_spark_json_of_sql(schema))
    if callable(getattr(schema, "jsonValue", None)):
        return _Converter().schema(schema.jsonValue())
    raise ConfigError(
        f"Cannot make a table of a {type(schema).__name__}. Give a pyspark StructType, a pyarrow Schema, "
        "a PyIceberg Schema, or text such as 'id bigint not null, ts timestamp'."
    )


def _from_arrow(schema: pa.Schema) -> Schema:
    from lakeshift.iceberg.adapter import schema_of_arrow

    try:
        return schema_of_arrow(schema)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"Iceberg has no type for a column of this Arrow schema: {error}") from error


class _Converter:
    """Walks the JSON form of a Spark schema, numbering fields in the order Iceberg does for new tables."""

    def __init__(self) -> None:
        self._ids: Iterator[int] = itertools.count(1)

    def schema(self, struct: dict[str, Any]) -> Schema:
        names = [field["name"].lower() for field in struct["fields"]]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"The column {twice[0]!r} appears twice; Iceberg's names differ in more than case.")
        return assign_fresh_schema_ids(Schema(*self._fields(struct, "")))

    def _fields(self, struct: dict[str, Any], path: str) -> list[NestedField]:
        return [
            NestedField(
                field_id=next(self._ids),
                name=field["name"],
                field_type=self._type(field["type"], f"{path}{field['name']}"),
                required=not field["nullable"],
                doc=field.get("metadata", {}).get("comment"),
            )
            for field in struct["fields"]
        ]

    def _type(self, kind: Any, path: str) -> IcebergType:
        if isinstance(kind, str):
            return self._primitive(kind, path)
        match kind.get("type"):
            case "struct":
                return StructType(*self._fields(kind, f"{path}."))
            case "array":
                element = self._type(kind["elementType"], f"{path}.element")
                return ListType(next(self._ids), element, element_required=not kind["containsNull"])
            case "map":
                key, value = self._type(kind["keyType"], f"{path}.key"), self._type(kind["valueType"], f"{path}.value")
                return MapType(
                    next(self._ids), key, next(self._ids), value, value_required=not kind["valueContainsNull"]
                )
            case _:
                raise ConfigError(f"Iceberg has no type for column {path!r}: {kind.get('type')}.")

    def _primitive(self, kind: str, path: str) -> IcebergType:
        if decimal := _DECIMAL.fullmatch(kind):
            return DecimalType(int(decimal.group(1)), int(decimal.group(2)))
        if kind == "decimal":
            return DecimalType(10, 0)
        kind = "string" if _CHARS.fullmatch(kind) else kind
        if kind not in _PRIMITIVES:
            raise ConfigError(f"Iceberg has no type for column {path!r}: {kind}.")
        return _PRIMITIVES[kind]()


def _spark_json_of_sql(text: str) -> dict[str, Any]:
    """The JSON form of Spark's schema, from the column list of a CREATE TABLE statement."""
    import sqlglot
    from sqlglot import exp

    try:
        statement = sqlglot.parse_one(f"CREATE TABLE t ({text})", read="spark")
        columns = statement.this.expressions
    except sqlglot.errors.SqlglotError as error:
        raise ConfigError(f"Cannot read the columns {text!r}: {str(error).splitlines()[0]}") from error
    if not columns or not all(isinstance(column, exp.ColumnDef) and column.args.get("kind") for column in columns):
        raise ConfigError(f"Cannot read the columns {text!r}. Write name and type: 'id bigint not null, ts timestamp'.")
    return {"type": "struct", "fields": [_sql_field(column) for column in columns]}


def _sql_field(column: exp.ColumnDef) -> dict[str, Any]:
    from sqlglot import exp

    constraints = [constraint.args["kind"] for constraint in column.args.get("constraints") or []]
    comments = [str(c.this.this) for c in constraints if isinstance(c, exp.CommentColumnConstraint)]
    return {
        "name": column.name,
        "type": _sql_type(column.args["kind"]),
        "nullable": not any(isinstance(c, exp.NotNullColumnConstraint) for c in constraints),
        "metadata": {"comment": comments[0]} if comments else {},
    }


def _sql_type(kind: exp.DataType) -> Any:
    name = kind.this.value
    match name:
        case "STRUCT":
            return {"type": "struct", "fields": [_sql_field(field) for field in kind.expressions]}
        case "ARRAY" | "LIST":
            return {"type": "array", "elementType": _sql_type(kind.expressions[0]), "containsNull": True}
        case "MAP":
            key, value = (_sql_type(part) for part in kind.expressions)
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case "DECIMAL":
            numbers = [str(parameter.this) for parameter in kind.expressions]
            return f"decimal({numbers[0]},{numbers[1] if len(numbers) > 1 else 0})" if numbers else "decimal"
        case _:
            return _SQL_NAMES.get(name, name.lower())
