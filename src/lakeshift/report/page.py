"""The facts as one self-contained page: nothing is fetched, nothing that a table says is ever run.

What the page shows travels as JSON inside it; the script sets it as text. A Content-Security-Policy admits this one
script and this one style by their hashes and nothing else, the network included. How much of a table fits on a page is
decided here.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import numpy as np

from lakeshift import __version__
from lakeshift.iceberg.rewrite.packing import Numbers
from lakeshift.report.advice import Step
from lakeshift.report.facts import TableFacts
from lakeshift.report.history import SnapshotFacts
from lakeshift.report.layout import FieldValues, SpecPartitions

_SCRIPTS = ("elements.js", "tooltip.js", "map.js", "map_view.js", "charts.js", "sections.js", "main.js")


@dataclass(frozen=True)
class PageLimits:
    """How much a page may hold, so that one of a huge or hostile table still opens: 8 MB at most with these.

    Partitions are drawn one by one as long as their JSON takes ``layout_bytes``; beyond that, neighbours share a cell.
    Of the other lists the newest entries are shown and the rest is counted. ``text`` cuts names and values.
    """

    layout_bytes: int = 4_000_000
    cells: int = 150_000
    text: int = 160
    snapshots: int = 200
    snapshot_properties: int = 8
    schemas: int = 100
    changes: int = 20
    columns: int = 500
    specs: int = 100
    fields: int = 20
    properties: int = 100


def render_page(facts: TableFacts, steps: Sequence[Step], limits: PageLimits | None = None) -> str:
    """The page of a table."""
    content = page_content(facts, steps, limits or PageLimits())
    style = _asset("style.css")
    script = "\n".join(['"use strict";', *(_asset(name) for name in _SCRIPTS)])
    parts = {
        "title": html.escape(f"{_cut(facts.name, 160)} - lakeshift report"),
        "policy": "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'",
        "style": style,
        "facts": embedded_json(content),
        "script": script,
    }
    # In one pass: text of the table that looks like a place of the template stays text.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place.group(1)], _asset("page.html"))


def embedded_json(value: Any) -> str:
    """JSON that may stand inside a script element: no character in it can end the element or begin a tag."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    # json.dumps escapes all that is not ASCII, among it the line ends U+2028 and U+2029.
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def page_content(facts: TableFacts, steps: Sequence[Step], limits: PageLimits) -> dict[str, Any]:
    """What the page's script gets. Ids are text: JavaScript's numbers do not hold 64 bits."""

    def cut(text: str | None) -> str | None:
        return None if text is None else _cut(text, limits.text)

    shown_specs = sorted(facts.specs, key=lambda spec: (spec.is_default, spec.data_files > 0, spec.spec_id))
    shown_specs = sorted(shown_specs[-limits.specs :], key=lambda spec: spec.spec_id)
    drawn = {spec.spec_id for spec in shown_specs}
    snapshots = facts.snapshots[-limits.snapshots :]
    schemas = facts.schemas[-limits.schemas :]
    return {
        "table": {
            "name": cut(facts.name),
            "location": cut(facts.location),
            "uuid": facts.table_uuid,
            "formatVersion": facts.format_version,
            "branch": cut(facts.branch),
            "snapshotId": _id(facts.snapshot_id),
            "defaultSpecId": facts.default_spec_id,
            "madeAt": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "madeBy": f"lakeshift {__version__}",
        },
        "totals": asdict(facts.totals),
        "sizes": asdict(facts.sizes),
        "specs": [
            {**asdict(spec), "fields": [cut(field) for field in spec.fields[: limits.fields]]} for spec in shown_specs
        ],
        "specsLeftOut": len(facts.specs) - len(shown_specs),
        "layout": _bounded_layout([spec for spec in facts.partitions if spec.spec_id in drawn], limits),
        "fileSizes": [asdict(bucket) for bucket in facts.file_sizes],
        "deletes": [asdict(cost) for cost in facts.deletes],
        "snapshots": [_snapshot(snapshot, limits) for snapshot in snapshots],
        "snapshotsLeftOut": len(facts.snapshots) - len(snapshots),
        "schemas": [
            {
                **asdict(schema),
                "changes": [cut(change) for change in schema.changes[: limits.changes]],
                "changesLeftOut": max(0, len(schema.changes) - limits.changes),
            }
            for schema in schemas
        ],
        "schemasLeftOut": len(facts.schemas) - len(schemas),
        "columns": [
            {**asdict(column), "name": cut(column.name), "type": cut(column.type), "doc": cut(column.doc)}
            for column in facts.columns[: limits.columns]
        ],
        "columnsLeftOut": max(0, len(facts.columns) - limits.columns),
        "properties": _pairs(facts.properties, limits.properties, limits.text),
        "propertiesLeftOut": max(0, len(facts.properties) - limits.properties),
        "steps": [{"kind": step.kind, "text": _cut(step.text, 2000), "command": step.command} for step in steps],
    }


def _snapshot(snapshot: SnapshotFacts, limits: PageLimits) -> dict[str, Any]:
    return {
        "id": _id(snapshot.snapshot_id),
        "at": snapshot.timestamp_ms,
        "operation": snapshot.operation,
        "schemaId": snapshot.schema_id,
        "inHistory": snapshot.in_history,
        "refs": [_cut(ref, limits.text) for ref in snapshot.refs[:5]],
        "done": dict(snapshot.done),
        "properties": _pairs(snapshot.properties, limits.snapshot_properties, limits.text // 2),
    }


def _bounded_layout(specs: Sequence[SpecPartitions], limits: PageLimits) -> list[dict[str, Any]]:
    """The partitions of each spec; as many neighbours in one cell as it takes to stay within the limits."""
    most = max((len(spec) for spec in specs), default=0)
    per_cell = max(1, -(-sum(map(len, specs)) // limits.cells))
    while True:
        found = [_cells(spec, per_cell, spec.runs, limits) for spec in specs]
        if len(embedded_json(found)) <= limits.layout_bytes:
            return found
        if per_cell >= most:  # even one cell a run is too much: names must be very long
            return [_cells(spec, len(spec), (), limits) for spec in specs]
        per_cell *= 2


def _cells(
    spec: SpecPartitions, per_cell: int, runs: tuple[tuple[str, int], ...], limits: PageLimits
) -> dict[str, Any]:
    """The partitions of a spec as cells of ``per_cell`` neighbours, none of which spans two runs."""
    lengths = [count for _, count in runs] or [len(spec)]
    ends = np.cumsum(lengths)
    starts = np.concatenate(
        [np.arange(end - length, end, per_cell) for end, length in zip(ends, lengths, strict=True)]
    ).astype(np.int64)
    span = np.diff(np.append(starts, len(spec)))
    combined = bool((span > 1).any())
    return {
        "specId": spec.spec_id,
        "partitions": len(spec),
        "cells": len(starts),
        "span": _column(span),
        "runs": [[_cut(label, limits.text), -(-count // per_cell)] for label, count in runs],
        "fields": [
            _field(field, starts, starts + span - 1, combined, limits) for field in spec.fields[: limits.fields]
        ],
        **{name: _column(np.add.reduceat(column, starts)) for name, column in spec.counts.columns().items()},
    }


def _field(field: FieldValues, first: Numbers, last: Numbers, combined: bool, limits: PageLimits) -> dict[str, Any]:
    """A field's values with only the texts that cells refer to: those of the first and last partition of each."""
    places = np.concatenate([field.numbers[first], field.numbers[last]]) if combined else field.numbers[first]
    used, numbers = np.unique(places, return_inverse=True)
    texts = [field.texts[number] for number in used.tolist()]
    return {
        "name": _cut(field.name, limits.text),
        "texts": [None if text is None else _cut(text, limits.text) for text in texts],
        "first": _column(numbers[: len(first)]),
        "last": _column(numbers[len(first) :]) if combined else None,
    }


def _column(values: Numbers) -> int | list[int]:
    """Numbers of all cells, or the one number that they all have."""
    listed: list[int] = values.tolist()
    return listed[0] if listed and listed.count(listed[0]) == len(listed) else listed


def _pairs(properties: Mapping[str, str], most: int, length: int) -> list[list[str]]:
    first: Iterable[tuple[str, str]] = list(properties.items())[:most]
    return [[_cut(name, length), _cut(value, length)] for name, value in first]


def _id(number: int | None) -> str | None:
    return None if number is None else str(number)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def _asset(name: str) -> str:
    return files("lakeshift.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
