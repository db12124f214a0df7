"""Which manifests can hold files that match a filter, by what the manifest list tells of their partitions.

A summary tells of a partition field what metrics tell of a column: bounds, and whether there are nulls or
NaN. So manifests are judged as files are, with the same care about NaN. No manifest is opened here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionSpec

from lakeshift.iceberg.file_filter import METRIC_COLUMNS, metrics_that_match

_METRICS = tuple(name for name in METRIC_COLUMNS.names if name != "record_count")


def manifests_that_match(
    projected: BooleanExpression, spec: PartitionSpec, manifests: Sequence[ManifestFile]
) -> list[bool]:
    """For each of these manifests of one spec, whether a filter that was projected onto partitions can match there."""
    rows = [
        {name: list(entries.items()) for name, entries in _as_metrics(spec, manifest).items()} for manifest in manifests
    ]
    table = pa.Table.from_pylist([{"record_count": 1, **row} for row in rows], schema=METRIC_COLUMNS)
    found: list[bool] = metrics_that_match(projected, table).to_pylist()
    return found


def _as_metrics(spec: PartitionSpec, manifest: ManifestFile) -> dict[str, dict[int, Any]]:
    """A manifest's summary as the metrics of one file; what is not known is left out."""
    metrics: dict[str, dict[int, Any]] = {name: {} for name in _METRICS}
    for field, summary in zip(spec.fields, manifest.partitions or (), strict=False):
        number = field.field_id
        if summary.lower_bound is not None:
            metrics["lower_bounds"][number] = summary.lower_bound
        if summary.upper_bound is not None:
            metrics["upper_bounds"][number] = summary.upper_bound
        if summary.contains_nan is False:
            metrics["nan_value_counts"][number] = 0
        if not summary.contains_null:
            metrics["null_value_counts"][number] = 0
        elif summary.lower_bound is None and summary.contains_nan is False:
            # Nulls and nothing else; without a word on NaN there might be those too.
            metrics["value_counts"][number] = metrics["null_value_counts"][number] = 1
    return metrics
