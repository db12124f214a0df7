"""Rows that cannot be written as they are: why, how many, what a few of them look like, and where they go instead.

A bad row is counted once, under the first thing that is wrong with it in the order of the table's columns. Arrow and
plain records only: no Spark, no catalog, no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeshift.errors import BadRowsError

SAMPLES = 5
_LONGEST_VALUE = 60
_LONGEST_ROW = 300
_MOST_KINDS = 20
_MARKS = ("reason", "column", "time", "snapshot", "operation")


class Reason(StrEnum):
    """Why a row cannot be written."""

    REQUIRED = "required value missing"
    OVERFLOW = "overflow"
    DIGITS_LOST = "digits would be lost"
    NOT_UTF8 = "text is not UTF-8"
    NOT_A_UUID = "not a UUID"
    WRONG_LENGTH = "wrong length"
    NO_PARTITION_VALUE = "no partition value"


@dataclass(frozen=True)
class BadRows:
    """The bad rows of one batch: their positions in ascending order, and why and where each is bad."""

    rows: pa.Array
    reasons: pa.Array
    columns: pa.Array

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def none(cls) -> BadRows:
        return cls(pa.array([], pa.int64()), pa.array([], pa.string()), pa.array([], pa.string()))

    def counts(self) -> Counter[tuple[str, str]]:
        """How many rows are bad for each reason and column."""
        return Counter(zip(self.reasons.to_pylist(), self.columns.to_pylist(), strict=True))

    def samples(self, batch: pa.RecordBatch, limit: int = SAMPLES) -> list[BadRowSample]:
        """A few of the rows of the batch they came from, at least one of each kind while there is room."""
        kinds = list(zip(self.reasons.to_pylist(), self.columns.to_pylist(), strict=True))
        chosen = _varied(kinds, limit)
        found = []
        for position in chosen:
            reason, column = kinds[position]
            found.append(BadRowSample(reason, column, _render_row(batch, self.rows[position].as_py(), column)))
        return found


@dataclass(frozen=True)
class BadRowSample:
    """One bad row as a person may look at it, cut where it is long."""

    reason: str
    column: str
    row: str


@dataclass(frozen=True)
class BadRowCount:
    """How many rows one task found bad for one reason in one column."""

    reason: str
    column: str
    rows: int


@dataclass(frozen=True)
class BadRowReport:
    """What one task says about its bad rows; small, however many there are."""

    counts: tuple[BadRowCount, ...]
    samples: tuple[BadRowSample, ...]

    @property
    def rows(self) -> int:
        return sum(count.rows for count in self.counts)

    @classmethod
    def merged(cls, reports: Iterable[BadRowReport], limit: int = SAMPLES) -> BadRowReport:
        """The reports of several batches or tasks as one."""
        counts: Counter[tuple[str, str]] = Counter()
        samples: list[BadRowSample] = []
        for report in reports:
            for count in report.counts:
                counts[count.reason, count.column] += count.rows
            samples.extend(report.samples)
        few = _varied([(sample.reason, sample.column) for sample in samples], limit)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls(
            tuple(BadRowCount(*kind, rows) for kind, rows in ordered), tuple(samples[position] for position in few)
        )

    @classmethod
    def of(cls, bad: BadRows, batch: pa.RecordBatch) -> BadRowReport:
        """The report on one batch."""
        counts = tuple(BadRowCount(*kind, rows) for kind, rows in bad.counts().items())
        return cls(counts, tuple(bad.samples(batch)) if len(bad) else ())

    def error(self, table: str) -> BadRowsError:
        """The error that stops a write: counts by reason and column, a few rows, and what to do."""
        kinds = [f"- {count.rows:,} in {count.column}: {count.reason}" for count in self.counts[:_MOST_KINDS]]
        if len(self.counts) > _MOST_KINDS:
            kinds.append(f"- and {len(self.counts) - _MOST_KINDS} more kinds")
        shown = [f"- {sample.column}, {sample.reason}: {sample.row}" for sample in self.samples]
        number = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return BadRowsError(
            "\n".join(
                [
                    f"{number} cannot be written to {table}:",
                    *kinds,
                    *(["For example:", *shown] if shown else []),
                    "Nothing was committed. Correct the rows, or pass on_bad_rows='quarantine' with quarantine=<path> "
                    "to write the good rows and keep the bad ones at that path.",
                ]
            )
        )


class FaultFinder:
    """Collects what is wrong with the rows of one batch; the first fault of a row is the one that counts."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._bad: pa.Array | None = None
        self._found: list[tuple[pa.Array, str, str]] = []

    def add(self, mask: pa.Array, reason: Reason, column: str) -> None:
        """These rows are bad, unless they already were."""
        mask = pc.fill_null(mask, False)
        fresh = mask if self._bad is None else pc.and_not(mask, self._bad)
        rows = pc.indices_nonzero(fresh).cast(pa.int64())
        if len(rows):
            self._found.append((rows, reason.value, column))
            self._bad = fresh if self._bad is None else pc.or_(self._bad, fresh)

    def add_rows(self, rows: pa.Array, reason: Reason, column: str) -> None:
        """As `add`, by position; a row may be named several times."""
        if len(rows):
            positions = pa.array(range(self._length), pa.int64())
            self.add(pc.is_in(positions, value_set=rows.cast(pa.int64())), reason, column)

    @property
    def good(self) -> pa.Array | None:
        """Which rows are good; None if all are."""
        return None if self._bad is None else pc.invert(self._bad)

    def bad_rows(self) -> BadRows:
        """All that was found, by row."""
        if not self._found:
            return BadRows.none()
        rows = pa.concat_arrays([rows for rows, _, _ in self._found])
        reasons = pa.concat_arrays([pa.repeat(reason, len(rows)) for rows, reason, _ in self._found])
        columns = pa.concat_arrays([pa.repeat(column, len(rows)) for rows, _, column in self._found])
        order = pc.array_sort_indices(rows)
        return BadRows(rows.take(order), reasons.take(order), columns.take(order))


@dataclass(frozen=True)
class Quarantine:
    """Makes the batches that a quarantine keeps: the bad rows as they came, and five columns that say why.

    The columns are ``_reason``, ``_column``, ``_time``, ``_snapshot`` (the table's when the write began, null if it
    had none) and ``_operation``. Where the data has such a column, ours gain underscores until they differ.
    """

    operation_id: str
    time: datetime
    snapshot_id: int | None

    def schema(self, came: pa.Schema) -> pa.Schema:
        """The schema of the quarantine for rows of this schema."""
        kinds = (pa.string(), pa.string(), pa.timestamp("us", "UTC"), pa.int64(), pa.string())
        marks = [pa.field(name, kind) for name, kind in zip(mark_names(came.names), kinds, strict=True)]
        return pa.schema([*(pa.field(field.name, field.type) for field in came), *marks])

    def batch(self, came: pa.RecordBatch, bad: BadRows) -> pa.RecordBatch:
        """The bad rows of a batch, marked."""
        schema = self.schema(came.schema)
        marks = [
            bad.reasons,
            bad.columns,
            *(
                pa.repeat(pa.scalar(value, field.type), len(bad))
                for value, field in zip(
                    (self.time, self.snapshot_id, self.operation_id), list(schema)[-3:], strict=True
                )
            ),
        ]
        return pa.RecordBatch.from_arrays([*came.take(bad.rows).columns, *marks], schema=schema)


def mark_names(taken: Sequence[str]) -> list[str]:
    """The names of the quarantine's own columns, beside columns of these names; engines may ignore case."""
    lowered = {name.lower() for name in taken}
    underscores = "_"
    while any(underscores + mark in lowered for mark in _MARKS):
        underscores += "_"
    return [underscores + mark for mark in _MARKS]


def _varied(kinds: Sequence[tuple[str, str]], limit: int) -> list[int]:
    """Positions of a few, at least one of each kind while there is room."""
    firsts = sorted({kind: position for position, kind in reversed(list(enumerate(kinds)))}.values())
    chosen = set(firsts[:limit])
    others = [position for position in range(min(len(kinds), 2 * limit)) if position not in chosen]
    return sorted([*chosen, *others[: limit - len(chosen)]])


def _render_row(batch: pa.RecordBatch, row: int, column: str) -> str:
    """A row as text of bounded length: the bad column first, then the others while there is room."""
    first = column.split(".")[0].lower()
    names = sorted(batch.schema.names, key=lambda name: name.lower() != first)
    parts: list[str] = []
    for name in names:
        index = batch.schema.names.index(name)
        part = f"{_cut(name)}={_render(batch.column(index).slice(row, 1))}"
        if sum(map(len, parts)) + len(part) > _LONGEST_ROW:
            parts.append("…")
            break
        parts.append(part)
    return ", ".join(parts)


def _render(one: pa.Array) -> str:
    if pa.types.is_string(one.type) or pa.types.is_large_string(one.type):
        # Cut before it is decoded: a value may be large, or no text at all.
        one = one.cast(pa.large_binary() if pa.types.is_large_string(one.type) else pa.binary())
        start = pc.binary_slice(one, start=0, stop=4 * _LONGEST_VALUE)[0].as_py()
        return "null" if start is None else _cut(repr(start.decode("utf-8", "backslashreplace")))
    try:
        value: Any = one[0].as_py()
    except (ValueError, OverflowError, UnicodeDecodeError):
        # Beyond Python's calendar, or no text: Arrow shows what Python cannot hold.
        return _cut(" ".join(one.view(_number_of(one.type)).to_string().split())) if _number_of(one.type) else "…"
    if value is None:
        return "null"
    return _cut(
        value.isoformat() if hasattr(value, "isoformat") else repr(value) if not _is_plain(value) else str(value)
    )


def _number_of(kind: pa.DataType) -> pa.DataType | None:
    return (pa.int32() if kind.bit_width == 32 else pa.int64()) if pa.types.is_temporal(kind) else None


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float) or type(value).__name__ in ("Decimal", "UUID")


def _cut(text: str) -> str:
    # repr has escaped control characters of values; names come as they are.
    text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
