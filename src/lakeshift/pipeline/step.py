"""What every step of a pipeline can do: tell whether this run has done it already, explain itself, and do it.

A plan asks for the explanation, a run asks for it too and then goes on: what a plan shows cannot drift from what a
run does. How each kind of table does it lives in the modules beside this one. No Spark here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lakeshift.spark.progress import Progress

PIPELINE = "lakeshift.pipeline"
RUN_ID = "lakeshift.run-id"
STEP = "lakeshift.step"


@dataclass(frozen=True)
class RunMarks:
    """What a run leaves in every commit, by which a later attempt of the same run knows it again.

    ``state_id`` tells runs of the same number apart whose state folders are not the same.
    """

    pipeline: str
    state_id: str
    number: int

    @property
    def run_id(self) -> str:
        return f"{self.state_id}-{self.number}"

    def properties(self, step: str) -> dict[str, str]:
        return {PIPELINE: self.pipeline, RUN_ID: self.run_id, STEP: step}

    def application(self, step: str) -> str:
        """The name under which a step commits Delta transactions, numbered by run."""
        return f"lakeshift/{self.pipeline}/{self.state_id}/{step}"


@dataclass(frozen=True)
class Explanation:
    """What a step would do: ``action`` in a word, ``lines`` for people, ``facts`` for machines."""

    step: str
    action: str
    target: str
    lines: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "action": self.action,
            "target": self.target,
            "lines": list(self.lines),
            **self.facts,
        }


class Step(Protocol):
    """One write or one piece of maintenance."""

    @property
    def name(self) -> str:
        """Where the file has it, such as ``write.trips``."""

    @property
    def target(self) -> str:
        """The table, as errors and records name it."""

    def committed(self, marks: RunMarks) -> dict[str, Any] | None:
        """What this run has done here already, though no record tells of it; None if nothing."""

    def explain(self) -> Explanation:
        """What it would do to the table as it is, or the error that doing it would end in. Changes nothing."""

    def execute(self, marks: RunMarks, progress: Progress | None) -> dict[str, Any]:
        """Do it; what was done, as plain values."""
