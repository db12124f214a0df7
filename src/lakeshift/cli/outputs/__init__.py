"""What each command prints with ``--json``, as models: the promise to programs that read it.

The work's own results are dataclasses that may grow; what is printed of them is written down here a second time, on
purpose, and tests hold every command's output against it. So a change of an output is seen, and made here or not at
all. Nothing of the work is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from lakeshift.cli.outputs import checks, deltas, pipelines, reports, rewrites, tables

# By the command and, where an option makes it print something else, that option.
OUTPUTS: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "delta diff": deltas.SchemaDiff,
        "delta write": deltas.WriteResult,
        "delta write --dry-run": deltas.WriteDryRun,
        "demo": checks.Demo,
        "doctor": checks.Findings,
        "hudi explain": checks.HudiReadPath,
        "hudi settings": checks.SparkSettings,
        "json-schema": checks.JsonSchemas,
        "report": reports.ReportFacts,
        "rewrite plan": rewrites.RewritePlan,
        "rewrite run": rewrites.RewriteResult,
        "run": pipelines.PipelineResult,
        "run --plan": pipelines.PipelinePlan,
        "table append": tables.Commit,
        "table create": tables.TableDescription,
        "table delete": tables.Commit,
        "table delete --dry-run": tables.ChangePreview,
        "table evolve": tables.TableDescription,
        "table list": tables.TableNames,
        "table merge": tables.Commit,
        "table merge --dry-run": tables.ChangePreview,
        "table show": tables.TableDescription,
        "table update": tables.Commit,
        "table update --dry-run": tables.ChangePreview,
    }
)
# What any command prints to standard error when it fails with --json.
FAILURE = "failure"


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of an output: one of ``OUTPUTS``, or ``FAILURE``."""
    model = checks.FailedCommand if name == FAILURE else OUTPUTS[name]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema(by_alias=True)}
