"""What ``doctor``, ``demo``, ``hudi`` and ``json-schema`` print as JSON, and what any command prints when it fails."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import RootModel

from lakeshift.cli.outputs.shape import Shape


class Finding(Shape):
    """One thing that was looked at: what was found, and the remedy where it failed."""

    subject: str
    status: Literal["ok", "failed", "skipped"]
    detail: str


class Findings(RootModel[list[Finding]]):
    """All that was looked at. The command exits with 1 if something failed."""


class Chapter(Shape):
    """A chapter of the tour, and what it told."""

    title: str
    seconds: float
    told: list[str]


class Demo(Shape):
    """The tour, and the folder that its lake is in."""

    folder: str
    report: str
    chapters: list[Chapter]


class HudiReadPath(Shape):
    """Whether a read of a Hudi table goes through DataSource V2, and why."""

    table: str
    uses_v2: bool
    reason: str


class SparkSettings(RootModel[dict[str, str]]):
    """Settings of Spark by their names."""


class JsonSchemas(RootModel[dict[str, dict[str, Any]]]):
    """JSON Schemas by the command whose output they describe."""


class Failure(Shape):
    """What went wrong: the error's type, and a message that names the value and the remedy."""

    type: str
    message: str


class FailedCommand(Shape):
    """What a command that failed prints to standard error, alone; standard output stays empty."""

    error: Failure
