"""The pipeline files of the story, which are those of ``examples/story``: copied, mended and run."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from lakeshift.delta.open_table import TypeWideningWarning
from lakeshift.demo.story import Stage
from lakeshift.errors import LakeshiftError
from lakeshift.pipeline.environment import Environment
from lakeshift.pipeline.runner import open_pipeline
from lakeshift.pipeline.summary import summarize

if TYPE_CHECKING:
    from lakeshift.pipeline.runner import OpenPipeline, PipelineResult

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[2] / "examples" / "story"
_PACKAGED = _PACKAGE / "files"  # where the wheel has them


def copy_pipelines(folder: Path) -> None:
    """Put the files where they are run, and where a reader can look at them and change them."""
    source = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def opened(stage: Stage, name: str, day: str) -> OpenPipeline:
    """A pipeline file with the variable DAY set, as ``DAY=... lakeshift run`` would."""
    environment = Environment({**os.environ, "DAY": day})
    return open_pipeline(stage.folder / f"{name}.yaml", spark=stage.lake.spark, environment=environment)


def run(stage: Stage, name: str, day: str = "") -> PipelineResult:
    """Run a pipeline file to its end, and tell what each step did."""
    stage.say(f"$ {f'DAY={day} ' if day else ''}lakeshift run {name}.yaml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TypeWideningWarning)  # the chapter that widens says it
        result = opened(stage, name, day).run()
    for step in result.steps:
        stage.say(f"{step.step}: {summarize(step.details)}")
    return result


def mend(stage: Stage, name: str, old: str, new: str) -> None:
    """Change a line of a pipeline file, as a user would, and show it."""
    file = stage.folder / f"{name}.yaml"
    text = file.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise LakeshiftError(f"The demo wants to change {old!r} in {file}, which is there {text.count(old)} times.")
    file.write_text(text.replace(old, new), encoding="utf-8")
    for sign, part in (("-", old), ("+", new)):
        for line in part.splitlines():
            stage.say(f"{file.name}:  {sign} {line}")
