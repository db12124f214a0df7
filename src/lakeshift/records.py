"""Frozen dataclasses as Arrow: how kernels report to the driver.

Reports come back as Arrow IPC bytes of a schema that is known beforehand, not as pickles: the driver
never runs what an executor sends it. Supported are int, float, str, bytes, bool, lists, tuples of one
type, dicts, nested dataclasses and ``X | None``.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa

Record = TypeVar("Record")

_SCALARS: dict[type, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bool: pa.bool_(),
}


def encode_records(record_type: type[Record], records: Iterable[Record]) -> bytes:
    """Records as the bytes of one Arrow IPC stream."""
    schema = record_schema(record_type)
    rows = [_to_plain(record) for record in records]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return bytes(sink.getvalue())


def decode_records(record_type: type[Record], data: bytes) -> list[Record]:
    """The records that ``encode_records`` was given."""
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    if not table.schema.equals(record_schema(record_type)):
        raise TypeError(f"Expected records of {record_type.__name__}, got columns {table.schema.names}")
    return [_from_plain(record_type, row) for row in table.to_pylist(maps_as_pydicts="strict")]


def record_schema(record_type: Any) -> pa.Schema:
    """The Arrow schema of a dataclass."""
    return pa.schema([pa.field(name, *_arrow_type(hint)) for name, hint in _hints(record_type).items()])


def _hints(record_type: Any) -> dict[str, Any]:
    return _cached_hints(record_type)


@cache
def _cached_hints(record_type: type) -> dict[str, Any]:
    hints = typing.get_type_hints(record_type)
    # Not dataclasses.fields(): it finds none in a class that an older cloudpickle sent by value.
    return {name: hints[name] for name in record_type.__dataclass_fields__}  # type: ignore[attr-defined]


def _arrow_type(hint: Any) -> tuple[pa.DataType, bool]:
    """The Arrow type of a type hint, and whether it may be null."""
    hint, optional = _strip_none(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in _SCALARS:
        return _SCALARS[hint], optional
    if _is_record(hint):
        return pa.struct(list(record_schema(hint))), optional
    if origin in (list, tuple):
        return pa.list_(pa.field("item", *_arrow_type(arguments[0]))), optional
    if origin is dict:
        value, nullable = _arrow_type(arguments[1])
        return pa.map_(_arrow_type(arguments[0])[0], pa.field("value", value, nullable)), optional
    raise TypeError(f"A record cannot hold a {hint!r}")


def _is_record(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint)


def _strip_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [argument for argument in typing.get_args(hint) if argument is not types.NoneType]
        if len(others) == 1:
            return others[0], True
    return hint, False


def _to_plain(value: Any) -> Any:
    if _is_record(type(value)):
        return {name: _to_plain(getattr(value, name)) for name in _hints(type(value))}
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    if isinstance(value, dict):
        return [(key, _to_plain(item)) for key, item in value.items()]
    return value


def _from_plain(hint: Any, value: Any) -> Any:
    hint, _ = _strip_none(hint)
    if value is None or hint in _SCALARS:
        return value
    if _is_record(hint):
        return hint(**{name: _from_plain(kind, value[name]) for name, kind in _hints(hint).items()})
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is dict:
        return {key: _from_plain(arguments[1], item) for key, item in value.items()}
    return origin(_from_plain(arguments[0], item) for item in value)
