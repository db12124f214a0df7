"""What a DataFrame's plan tells: the kind of its scans, and how many files they read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

V1_SCAN = "FileSourceScanExec"
V2_SCAN = "BatchScanExec"
_V2_RELATION = "DataSourceV2ScanRelation"


def scans(df: DataFrame) -> list[str]:
    """The scans of the physical plan, by class."""
    return [_kind(node) for node in _scan_nodes(df._jdf.queryExecution().executedPlan())]


def files_read(df: DataFrame) -> list[int]:
    """How many files each scan of an executed plan has read."""
    return [node.metrics().apply("numFiles").value() for node in _scan_nodes(df._jdf.queryExecution().executedPlan())]


def rows_scanned(df: DataFrame) -> list[int]:
    """How many rows each scan of an executed plan has given."""
    scan_nodes = _scan_nodes(df._jdf.queryExecution().executedPlan())
    return [node.metrics().apply("numOutputRows").value() for node in scan_nodes]


def footer_scans(df: DataFrame) -> list[str]:
    """How footers answer a query, scan by scan: what they say of themselves, with the driver's or with tasks."""
    leaves = df._jdf.queryExecution().optimizedPlan().collectLeaves()
    relations = [leaf for leaf in (leaves.apply(i) for i in range(leaves.size())) if _kind(leaf) == _V2_RELATION]
    told = [str(relation.scan().description()) for relation in relations]
    return [description for description in told if description.startswith("HudiFooterScan")]


def text(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().toString())


def nodes(df: DataFrame) -> list[str]:
    """The classes of all nodes of the physical plan; after execution, of the plan that adaptive execution chose."""
    return [_kind(node) for node in _walk(df._jdf.queryExecution().executedPlan())]


def _scan_nodes(plan: Any) -> list[Any]:
    return [node for node in _walk(plan) if _kind(node) in (V1_SCAN, V2_SCAN)]


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _walk(node: Any) -> Iterator[Any]:
    yield node
    kind = _kind(node)
    if kind == "AdaptiveSparkPlanExec":
        yield from _walk(node.executedPlan())
    elif kind.endswith("QueryStageExec"):
        yield from _walk(node.plan())
    else:
        children = node.children()
        for i in range(children.size()):
            yield from _walk(children.apply(i))
