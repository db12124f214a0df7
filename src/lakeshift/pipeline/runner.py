"""Running a pipeline: every step is checked before the first one writes, and recorded when it is done.

A step commits with the run's id inside, and is recorded afterwards. If the process dies between the two, the run that
is resumed finds the commit and does nothing twice; what it reads is what the run saw when it began.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lakeshift.errors import ConfigError, InvalidStateError, LakeshiftError, PipelineError
from lakeshift.pipeline.environment import Environment
from lakeshift.pipeline.model import DeltaWrite, HudiWrite, Pipeline
from lakeshift.pipeline.paths import resolve
from lakeshift.pipeline.plan import PipelinePlan, explain_steps
from lakeshift.pipeline.state import PipelineState, RunRecord
from lakeshift.pipeline.step import RunMarks, Step
from lakeshift.pipeline.streams import positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeshift.lake import Lake
    from lakeshift.pipeline.frames import Frames
    from lakeshift.spark.progress import Progress

# Told of every event as it is recorded, and of steps that begin.
Listener: TypeAlias = Callable[[Mapping[str, Any]], None]
# Makes the callback for one step's progress.
ProgressFor: TypeAlias = Callable[[str], AbstractContextManager["Progress | None"]]


@dataclass(frozen=True)
class StepResult:
    """What became of one step. ``found`` says that an earlier attempt had done it; ``details`` is what it did."""

    step: str
    target: str
    found: bool
    seconds: float
    details: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "target": self.target,
            "found": self.found,
            "seconds": self.seconds,
            "details": dict(self.details),
        }


@dataclass(frozen=True)
class PipelineResult:
    """What a run did. ``resumed_after`` are the steps that earlier attempts of this run had recorded.

    ``arrived`` counts what was new on each stream: files, or commits. If there are streams and nothing was new on any
    of them, ``nothing_new`` is true and no step ran.
    """

    pipeline: str
    run_id: str
    number: int
    steps: tuple[StepResult, ...]
    resumed_after: tuple[str, ...] | None
    seconds: float
    arrived: Mapping[str, int] = field(default_factory=dict)

    @property
    def nothing_new(self) -> bool:
        return bool(self.arrived) and not any(self.arrived.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "run_id": self.run_id,
            "number": self.number,
            "resumed_after": None if self.resumed_after is None else list(self.resumed_after),
            "seconds": self.seconds,
            "arrived": dict(self.arrived),
            "nothing_new": self.nothing_new,
            "steps": [step.to_dict() for step in self.steps],
        }


def run_pipeline(
    pipeline: str | os.PathLike[str] | Pipeline,
    *,
    resume: bool = False,
    new: bool = False,
    spark: SparkSession | None = None,
) -> PipelineResult:
    """Run a pipeline file, or a model of one.

    ``resume`` goes on with the last run if it did not finish; ``new`` begins another one in spite of it, and gives it
    up. Without either, an unfinished run is an error: beginning anew could write its rows twice.
    """
    return open_pipeline(pipeline, spark=spark).run(resume=resume, new=new)


def plan_pipeline(
    pipeline: str | os.PathLike[str] | Pipeline, *, resume: bool = False, spark: SparkSession | None = None
) -> PipelinePlan:
    """What a run would do, by the code that does it; nothing is changed."""
    return open_pipeline(pipeline, spark=spark).plan(resume=resume)


def open_pipeline(
    pipeline: str | os.PathLike[str] | Pipeline,
    *,
    spark: SparkSession | None = None,
    environment: Environment | None = None,
) -> OpenPipeline:
    """A pipeline that is ready to run. Starts no Spark and changes nothing."""
    environment = environment or Environment()
    if isinstance(pipeline, Pipeline):
        return OpenPipeline(pipeline, Path.cwd(), environment, spark)
    from lakeshift.pipeline.text import load_pipeline

    return OpenPipeline(
        load_pipeline(pipeline, environment), Path(pipeline).absolute().parent, environment, spark, str(pipeline)
    )


@dataclass
class OpenPipeline:
    """A pipeline with its place: relative paths are relative to ``base``."""

    model: Pipeline
    base: Path
    environment: Environment = field(default_factory=Environment)
    spark: SparkSession | None = None
    file: str | None = None

    @cached_property
    def state(self) -> PipelineState:
        folder = self.model.state or f".lakeshift/{self.model.name}"
        return PipelineState(self.base / folder, self.model.name)

    @cached_property
    def lake(self) -> Lake:
        from lakeshift.lake import connect

        settings = self.model.lake
        warehouse = resolve(self.base, settings.warehouse)
        with self._redacted():
            return connect(
                settings.catalog, warehouse, self.spark, self.model.formats, properties=settings.properties or None
            )

    def check_startable(self, *, resume: bool = False, new: bool = False) -> None:
        """Whether a run may begin or go on, asked before a session is started for it."""
        self._begin_with(self.state.last_run(), resume=resume, new=new)

    def plan(self, *, resume: bool = False) -> PipelinePlan:
        """What a run would do now. Nothing is changed, not even the state folder is made."""
        last = self._begin_with(self.state.last_run(), resume=resume, new=not resume)
        with self._redacted(), self.frames(last) as frames:
            marks = None if last is None else RunMarks(self.model.name, self.state.identity(), last.number)
            steps = self._steps(frames.by_name) if not frames.nothing_new else []
            explained = explain_steps(steps, () if last is None else last.steps, marks)
            inputs = {
                name: {
                    "format": read.format,
                    "columns": frames.by_name[name].schema.simpleString(),
                    **({"arrived": frames.arrived[name]} if name in frames.arrived else {}),
                }
                for name, read in self.model.read.items()
            }
        return PipelinePlan.of(self.model.name, inputs, explained, self.environment, frames.nothing_new)

    def frames(self, going_on: RunRecord | None) -> AbstractContextManager[Frames]:
        """The frames of a new run, or of one to go on with, which reads what it saw when it began."""
        from lakeshift.pipeline.frames import open_frames

        pins = {} if going_on is None else self.environment.restore(going_on.pins)
        return open_frames(self.lake, self.base, self.model, pins, positions(self.state.runs()))

    def run(
        self,
        *,
        resume: bool = False,
        new: bool = False,
        listener: Listener | None = None,
        progress_for: ProgressFor | None = None,
    ) -> PipelineResult:
        """Run it; see ``run_pipeline``. ``listener`` is told of every step, ``progress_for`` of the tasks of one."""
        with self.state.locked():
            last = self.state.last_run()
            going_on = self._begin_with(last, resume=resume, new=new)
            run = _Run(self, listener or (lambda event: None), progress_for or (lambda step: nullcontext()))
            return run.run(going_on, last)

    def _begin_with(self, last: RunRecord | None, *, resume: bool, new: bool) -> RunRecord | None:
        """The run to go on with; None to begin another one."""
        if resume and new:
            raise ConfigError("Both resume and new were given; a run is either gone on with or begun.")
        if resume:
            if last is None or not last.is_open:
                told = "it has no run yet" if last is None else f"its last run, {last.number}, is {last.status}"
                raise InvalidStateError(
                    f"The pipeline {self.model.name!r} has nothing to resume: {told}. Begin one without --resume."
                )
            return last
        if last is not None and last.is_open and not new:
            raise InvalidStateError(
                f"{last.told}. Go on with it by `{self._call('resume')}`, or give it up and begin another one by "
                f"`{self._call('new')}`: what it wrote stays, and rows that both runs write are then there twice."
            )
        return None

    def _call(self, how: str) -> str:
        """How a user says ``resume`` or ``new``."""
        return f"lakeshift run {self.file} --{how}" if self.file else f"run_pipeline(..., {how}=True)"

    def _steps(self, frames: Mapping[str, DataFrame]) -> list[Step]:
        from lakeshift.pipeline.iceberg_steps import IcebergWriteStep, RewriteStep
        from lakeshift.pipeline.other_steps import DeltaStep, HudiStep

        steps: list[Step] = []
        for name, write in self.model.write.items():
            where, frame = f"write.{name}", frames[write.from_]
            match write:
                case DeltaWrite():
                    steps.append(DeltaStep(where, self.lake, self.base, frame, write))
                case HudiWrite():
                    steps.append(HudiStep(where, self.lake, self.base, frame, write))
                case _:
                    steps.append(IcebergWriteStep(where, self.lake, self.base, frame, write))
        steps += [RewriteStep(f"maintain.{name}", self.lake, model) for name, model in self.model.maintain.items()]
        return steps

    @contextmanager
    def _redacted(self) -> Iterator[None]:
        """Keep what came from the environment out of errors."""
        try:
            yield
        except Exception as error:
            raise _without_secrets(error, self.environment, "") from _harmless(error, self.environment)


@dataclass
class _Run:
    opened: OpenPipeline
    listener: Listener
    progress_for: ProgressFor

    def run(self, going_on: RunRecord | None, last: RunRecord | None) -> PipelineResult:
        opened, environment, began = self.opened, self.opened.environment, time.perf_counter()
        state, model = opened.state, opened.model
        number = going_on.number if going_on is not None else (last.number if last is not None else 0) + 1
        marks = RunMarks(model.name, state.identity(), number)
        with opened._redacted(), opened.frames(going_on) as frames:
            steps = opened._steps(frames.by_name) if not frames.nothing_new else []
            done: Mapping[str, Any] = going_on.steps if going_on is not None else {}
            if going_on is None:
                # A mistake in any step is found here, before a run has begun that would have to be resumed.
                explain_steps(steps, (), None)
                if last is not None and last.is_open:
                    self._tell("run-abandoned", run_id=last.run_id)
                self._tell("run-started", run_id=marks.run_id, number=number, inputs=environment.keep(frames.pins))
                if frames.arrived:
                    self.listener({"event": "arrived", "arrived": frames.arrived})
            else:
                left = [step.name for step in steps if step.name not in done]
                self._tell("run-resumed", run_id=marks.run_id, number=number, after=list(done), left=left)
            results = [self._step(step, marks, checked=going_on is None) for step in steps if step.name not in done]
        seconds = round(time.perf_counter() - began, 3)
        self._tell("run-finished", run_id=marks.run_id, number=number, seconds=seconds)
        after = None if going_on is None else tuple(done)
        return PipelineResult(model.name, marks.run_id, number, tuple(results), after, seconds, frames.arrived)

    def _step(self, step: Step, marks: RunMarks, *, checked: bool) -> StepResult:
        environment, began = self.opened.environment, time.perf_counter()
        self.listener({"event": "step-started", "step": step.name, "target": environment.redact(step.target)})
        try:
            details = step.committed(marks)
            found = details is not None
            if details is None:
                if not checked:
                    step.explain()
                with self.progress_for(step.name) as progress:
                    details = step.execute(marks, progress)
        except BaseException as error:
            told = environment.redact(_text(error))
            self._tell("run-failed", run_id=marks.run_id, step=step.name, error=told, kind=type(error).__name__)
            if not isinstance(error, Exception):
                raise
            how = self.opened._call("resume")
            where = f"\nThis was {step.name} in run {marks.number} ({marks.run_id}). Go on from there with: {how}"
            raise _without_secrets(error, environment, where) from _harmless(error, environment)
        details = environment.redact_all(details)
        seconds = round(time.perf_counter() - began, 3)
        target = environment.redact(step.target)
        self._tell(
            "step-done",
            run_id=marks.run_id,
            step=step.name,
            target=target,
            found=found,
            seconds=seconds,
            details=details,
        )
        return StepResult(step.name, target, found, seconds, details)

    def _tell(self, event: str, **facts: Any) -> None:
        self.opened.state.append(event, **facts)
        self.listener({"event": event, **facts})


def _text(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__


def _without_secrets(error: Exception, environment: Environment, where: str) -> Exception:
    """The error to raise instead: of the same type if it is lakeshift's own, with nothing secret in it."""
    if isinstance(error, LakeshiftError):
        error.args = (environment.redact(_text(error)) + where, *error.args[1:])
        return error
    return PipelineError(environment.redact(f"{type(error).__name__}: {_text(error)}") + where)


def _harmless(error: Exception, environment: Environment) -> BaseException | None:
    """The error's cause, for those who look for where it came from; None if it tells a secret."""
    cause = error.__cause__ if isinstance(error, LakeshiftError) else error
    at = cause
    while at is not None:
        if environment.redact(_text(at)) != _text(at):
            return None
        at = at.__cause__ or at.__context__
    return cause
