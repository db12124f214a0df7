"""What a run would do, told by the steps themselves and put together for people and machines. No Spark here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeshift.errors import LakeshiftError
from lakeshift.pipeline.environment import Environment
from lakeshift.pipeline.step import Explanation, RunMarks, Step


@dataclass(frozen=True)
class PipelinePlan:
    """The inputs with their columns, and each step with what it would do.

    ``nothing_new`` says that nothing has arrived on any of the streams, so that no step would run.
    """

    pipeline: str
    inputs: Mapping[str, Mapping[str, Any]]
    steps: tuple[Mapping[str, Any], ...]
    nothing_new: bool = False

    @classmethod
    def of(
        cls,
        pipeline: str,
        inputs: Mapping[str, Mapping[str, Any]],
        steps: Sequence[Explanation],
        environment: Environment,
        nothing_new: bool = False,
    ) -> PipelinePlan:
        return cls(
            pipeline,
            environment.redact_all(inputs),
            tuple(environment.redact_all(step.to_dict()) for step in steps),
            nothing_new,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "inputs": dict(self.inputs),
            "nothing_new": self.nothing_new,
            "steps": [dict(step) for step in self.steps],
        }

    def lines(self) -> list[str]:
        """The plan as text, for people."""
        shown = [f"{name}: {facts['format']}, {_new(facts)}{facts['columns']}" for name, facts in self.inputs.items()]
        if self.nothing_new:
            shown.append("Nothing has arrived since the last run: no step would run.")
        for step in self.steps:
            shown.append(f"{step['step']} -> {step['target']}")
            shown += [f"  {line}" for line in step["lines"]]
        return shown


def _new(facts: Mapping[str, Any]) -> str:
    """How much has arrived on a stream; nothing of other inputs."""
    if "arrived" not in facts:
        return ""
    what = "commit" if facts["format"] in ("iceberg", "delta") else "file"
    return f"{facts['arrived'] or 'no'} new {what}{'' if facts['arrived'] == 1 else 's'}, "


def explain_steps(steps: Sequence[Step], done: Collection[str], marks: RunMarks | None) -> list[Explanation]:
    """What each step would do; an error of any of them names the step.

    A step on a table that an earlier step changes is asked only when its turn comes: what it will find is not there
    yet. A rewrite says what it would do to the table as it is.
    """
    explained, changed = [], set()
    for step in steps:
        if step.name in done:
            explained.append(Explanation(step.name, "done", step.target, ("done by an earlier attempt of this run",)))
        elif marks is not None and step.committed(marks) is not None:
            explained.append(Explanation(step.name, "done", step.target, ("committed, and to be recorded",)))
        elif step.target in changed and not step.name.startswith("maintain."):
            explained.append(
                Explanation(step.name, "later", step.target, ("after an earlier step has changed this table",))
            )
        else:
            try:
                explained.append(step.explain())
            except LakeshiftError as error:
                error.args = (f"{step.name}: {error}", *error.args[1:])
                raise
        changed.add(step.target)
    return explained
