"""What a manifest says of a data file's columns: sizes, counts, and bounds cut short, from the Parquet footer.

Bounds are only kept where they hold for every value of the file; where the footer has none, there are
none. Not-a-number is counted by the writer, for Parquet's footer does not know it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import MetricModeTypes, MetricsMode, match_metrics_mode
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeshift.errors import ConfigError
from lakeshift.iceberg.table_properties import whole_number

DEFAULT_MODE = "write.metadata.metrics.default"
COLUMN_MODE = "write.metadata.metrics.column."
MAX_INFERRED = "write.metadata.metrics.max-inferred-column-defaults"


@dataclass(frozen=True)
class LeafColumn:
    """A primitive column of a schema, and what to tell of it.

    ``path`` leads to it through the positions in structs, ``parquet_path`` through Parquet's names.
    ``in_repeated`` says that it lies inside a list or map, where bounds would be of no use to a filter.
    """

    field_id: int
    kind: PrimitiveType
    path: tuple[int, ...]
    parquet_path: str
    in_repeated: bool
    counts: bool
    bounds: bool
    bound_length: int | None


@dataclass(frozen=True)
class FileMetrics:
    """The column metrics of one data file, by field id; bounds in Iceberg's single-value form."""

    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: list[int]


@dataclass(frozen=True)
class MetricsPlan:
    """What to tell of each leaf column of a schema, in the order in which Parquet stores them."""

    leaves: tuple[LeafColumn, ...]

    @classmethod
    def of(cls, schema: Schema, properties: Mapping[str, str], sorted_by: frozenset[int] = frozenset()) -> MetricsPlan:
        """The plan that the table's properties ask for; ``sorted_by`` holds the ids of its sort order's columns."""
        return cls(tuple(_Planner(schema, properties, sorted_by).leaves()))

    def count_nans(self, table: pa.Table) -> dict[int, int]:
        """How many values of each floating column of these rows are not a number."""
        counted = {}
        for leaf in self.leaves:
            if leaf.counts and not leaf.in_repeated and isinstance(leaf.kind, (FloatType, DoubleType)):
                column = table.column(leaf.path[0])
                if len(leaf.path) > 1:
                    column = pc.struct_field(column, list(leaf.path[1:]))
                counted[leaf.field_id] = pc.sum(pc.is_nan(column), min_count=0).as_py()
        return counted

    def collect(self, footer: pq.FileMetaData, nan_counts: Mapping[int, int]) -> FileMetrics:
        """The metrics of a file that was just written."""
        sizes: dict[int, int] = {}
        values: dict[int, int] = {}
        nulls: dict[int, int] = {}
        lower: dict[int, bytes] = {}
        upper: dict[int, bytes] = {}
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        for position, leaf in enumerate(self.leaves):
            chunks = [group.column(position) for group in groups]
            sizes[leaf.field_id] = sum(chunk.total_compressed_size for chunk in chunks)
            if not leaf.counts:
                continue
            values[leaf.field_id] = sum(chunk.num_values for chunk in chunks)
            found = [chunk.statistics for chunk in chunks]
            if all(each is not None and each.has_null_count for each in found):
                nulls[leaf.field_id] = sum(each.null_count for each in found)
            if leaf.bounds:
                _add_bounds(leaf, found, lower, upper)
        return FileMetrics(
            column_sizes=sizes,
            value_counts=values,
            null_value_counts=nulls,
            nan_value_counts=dict(nan_counts),
            lower_bounds=lower,
            upper_bounds=upper,
            split_offsets=sorted(_offset(group) for group in groups),
        )


def _offset(group: pq.RowGroupMetaData) -> int:
    first = group.column(0)
    start: int = first.data_page_offset
    return min(start, first.dictionary_page_offset) if first.has_dictionary_page else start


@dataclass(frozen=True)
class _Place:
    """Where in a schema a walk is."""

    positions: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    in_repeated: bool = False

    def into(self, position: int, name: str) -> _Place:
        return _Place((*self.positions, position), (*self.names, name), self.in_repeated)

    def inside(self, *names: str) -> _Place:
        return _Place(self.positions, (*self.names, *names), in_repeated=True)


class _Planner:
    """Walks a schema to its leaves, in Parquet's order."""

    def __init__(self, schema: Schema, properties: Mapping[str, str], sorted_by: frozenset[int]) -> None:
        self._schema = schema
        self._properties = properties
        self._sorted_by = sorted_by
        self._default = _mode(properties.get(DEFAULT_MODE, "truncate(16)"), DEFAULT_MODE)
        self._limit = whole_number(properties, MAX_INFERRED, 100)
        self._check_names()

    def leaves(self) -> Iterator[LeafColumn]:
        limited = DEFAULT_MODE not in self._properties
        for position, (field_id, kind, place) in enumerate(self._walk(self._schema.fields, _Place())):
            mode = self._mode_of(field_id, inferred=not limited or position < self._limit)
            yield LeafColumn(
                field_id,
                kind,
                place.positions,
                ".".join(place.names),
                place.in_repeated,
                counts=mode.type is not MetricModeTypes.NONE,
                bounds=mode.type in (MetricModeTypes.TRUNCATE, MetricModeTypes.FULL) and not place.in_repeated,
                bound_length=mode.length,
            )

    def _mode_of(self, field_id: int, *, inferred: bool) -> MetricsMode:
        name = COLUMN_MODE + (self._schema.find_column_name(field_id) or "")
        if name in self._properties:
            return _mode(self._properties[name], name)
        chosen = self._default if inferred else MetricsMode(MetricModeTypes.NONE)
        if field_id in self._sorted_by and chosen.type in (MetricModeTypes.NONE, MetricModeTypes.COUNTS):
            # A filter on the column that files are sorted by gains the most from bounds.
            return MetricsMode(MetricModeTypes.TRUNCATE, 16)
        return chosen

    def _walk(self, fields: tuple[NestedField, ...], place: _Place) -> Iterator[tuple[int, PrimitiveType, _Place]]:
        for position, field in enumerate(fields):
            yield from self._walk_type(field.field_id, field.field_type, place.into(position, field.name))

    def _walk_type(
        self, field_id: int, kind: IcebergType, place: _Place
    ) -> Iterator[tuple[int, PrimitiveType, _Place]]:
        match kind:
            case StructType():
                yield from self._walk(kind.fields, place)
            case ListType():
                yield from self._walk_type(kind.element_id, kind.element_type, place.inside("list", "element"))
            case MapType():
                yield from self._walk_type(kind.key_id, kind.key_type, place.inside("key_value", "key"))
                yield from self._walk_type(kind.value_id, kind.value_type, place.inside("key_value", "value"))
            case PrimitiveType():
                yield field_id, kind, place

    def _check_names(self) -> None:
        for name, value in self._properties.items():
            if name.startswith(COLUMN_MODE):
                _mode(value, name)


def _mode(text: str, name: str) -> MetricsMode:
    try:
        return match_metrics_mode(text)
    except ValueError as error:
        raise ConfigError(
            f"The table property {name} is {text!r}; it must be none, counts, truncate(<length>) or full."
        ) from error


def _add_bounds(leaf: LeafColumn, found: list[Any], lower: dict[int, bytes], upper: dict[int, bytes]) -> None:
    """Bounds over all row groups, or none: a group without them, unless it holds only nulls, could hold anything."""
    known = []
    for each in found:
        if each is None:
            return
        if each.has_min_max:
            known.append(each)
        elif not (each.has_null_count and each.num_values == 0):
            return
    if not known:
        return
    low = _ENCODERS[type(leaf.kind)](leaf.kind, min((each.min_raw for each in known), key=_order(leaf.kind)))
    high = _ENCODERS[type(leaf.kind)](leaf.kind, max((each.max_raw for each in known), key=_order(leaf.kind)))
    if leaf.bound_length is not None and isinstance(leaf.kind, (StringType, BinaryType)):
        cut = _cut_text if isinstance(leaf.kind, StringType) else _cut_bytes
        low, above = cut(low, leaf.bound_length)[0], cut(high, leaf.bound_length)[1]
        if above is not None:
            upper[leaf.field_id] = above
    else:
        upper[leaf.field_id] = high
    lower[leaf.field_id] = low


def _order(kind: IcebergType) -> Callable[[Any], Any]:
    return _signed if isinstance(kind, DecimalType) else lambda raw: raw


def _signed(raw: int | bytes) -> int:
    return raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)


def _decimal(_: IcebergType, raw: int | bytes) -> bytes:
    number = _signed(raw)
    # The shortest two's complement: one bit more than the magnitude needs.
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _packed(form: str) -> Callable[[IcebergType, Any], bytes]:
    return lambda _, raw: struct.pack(form, raw)


def _as_bytes(_: IcebergType, raw: Any) -> bytes:
    return raw.encode() if isinstance(raw, str) else bytes(raw)


_ENCODERS: Mapping[type[IcebergType], Callable[[IcebergType, Any], bytes]] = {
    BooleanType: _packed("<?"),
    **dict.fromkeys((IntegerType, DateType), _packed("<i")),
    **dict.fromkeys((LongType, TimeType, TimestampType, TimestamptzType), _packed("<q")),
    FloatType: _packed("<f"),
    DoubleType: _packed("<d"),
    DecimalType: _decimal,
    **dict.fromkeys((StringType, BinaryType, FixedType, UUIDType), _as_bytes),
}


def _cut_text(value: bytes, length: int) -> tuple[bytes, bytes | None]:
    """A text cut to so many code points: at most the text, and at least it (None if nothing short enough is)."""
    text = value.decode()
    short = text[:length]
    if short == text:
        return value, value
    for end in range(len(short) - 1, -1, -1):
        following = ord(short[end]) + 1
        # No character has a code between these two: they are halves of pairs in UTF-16.
        following = 0xE000 if following == 0xD800 else following
        if following <= 0x10FFFF:
            return short.encode(), (short[:end] + chr(following)).encode()
    return short.encode(), None


def _cut_bytes(value: bytes, length: int) -> tuple[bytes, bytes | None]:
    short = value[:length]
    if short == value:
        return value, value
    for end in range(len(short) - 1, -1, -1):
        if short[end] < 0xFF:
            return short, short[:end] + bytes([short[end] + 1])
    return short, None
