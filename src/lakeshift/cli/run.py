"""``lakeshift run``: a pipeline file, run, planned or gone on with."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lakeshift.cli.inputs import progress_bar, quiet_session
from lakeshift.cli.options import output_options, settings
from lakeshift.cli.output import emit, say
from lakeshift.pipeline.summary import summarize

if TYPE_CHECKING:
    from lakeshift.pipeline.plan import PipelinePlan
    from lakeshift.pipeline.runner import PipelineResult
    from lakeshift.spark.progress import Progress


def _print_schema(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from lakeshift.pipeline.model import Pipeline

        sys.stdout.write(json.dumps(Pipeline.model_json_schema(by_alias=True), indent=2) + "\n")
        ctx.exit()


@click.command()
@click.argument("file", metavar="PIPELINE.YAML", type=click.Path())
@click.option("--plan", is_flag=True, help="Show what would happen, and change nothing.")
@click.option("--resume", is_flag=True, help="Go on with the last run, which did not finish.")
@click.option("--new", is_flag=True, help="Begin another run, and give up the one that did not finish.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of pipeline files, for editors.",
)
@output_options
def run(file: str, plan: bool, resume: bool, new: bool) -> None:
    """Run a pipeline file: read, transform, write, maintain."""
    from lakeshift.pipeline.runner import open_pipeline

    if resume and new:
        raise click.UsageError("--resume and --new exclude each other.")
    if plan and new:
        raise click.UsageError("--plan begins nothing, so that --new has no meaning with it.")
    opened = open_pipeline(file)
    if not plan:
        opened.check_startable(resume=resume, new=new)
    with quiet_session(opened.lake):
        if plan:
            planned = opened.plan(resume=resume)
            emit(planned.to_dict(), lambda: _show(planned))
            return
        result = opened.run(resume=resume, new=new, listener=None if settings.json else _tell, progress_for=_progress)
    emit(result.to_dict(), lambda: _finish(result))


@contextmanager
def _progress(step: str) -> Iterator[Progress | None]:
    with progress_bar(step) as progress:
        yield progress


def _tell(event: Mapping[str, Any]) -> None:
    match event["event"]:
        case "run-started":
            say(f"Run {event['number']} ({event['run_id']})")
        case "arrived":
            told = (f"{name}: {count or 'nothing'} new" for name, count in event["arrived"].items())
            say(f"Arrived since the last run: {', '.join(told)}")
        case "run-abandoned":
            say(f"The unfinished run {event['run_id']} is given up.")
        case "run-resumed":
            after = f"after {', '.join(event['after'])}" if event["after"] else "from its first step"
            say(
                f"Run {event['number']} ({event['run_id']}) goes on {after}; left: {', '.join(event['left']) or 'none'}"
            )
        case "step-done":
            found = "was committed already; " if event["found"] else ""
            say(
                f"{event['step']} -> {event['target']}: {found}{summarize(event['details'])} ({event['seconds']:.1f} s)"
            )


def _show(planned: PipelinePlan) -> None:
    say("\n".join(planned.lines()))


def _finish(result: PipelineResult) -> None:
    told = "Nothing has arrived since the last run, so nothing was done. " if result.nothing_new else ""
    say(f"{told}Run {result.number} finished in {result.seconds:.1f} s.")
