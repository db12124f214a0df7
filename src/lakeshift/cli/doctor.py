"""``lakeshift doctor``: what works here, what is missing, and how to get it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import click

from lakeshift import __version__
from lakeshift.cli.options import lake_options, open_lake
from lakeshift.cli.output import emit, say, show_table
from lakeshift.cli.quiet import quiet_jvm
from lakeshift.errors import LakeshiftError
from lakeshift.stack import Stack, installed_stack, require_java

OK, FAILED, SKIPPED = "ok", "failed", "skipped"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``detail`` says what was found, and the remedy where it failed."""

    subject: str
    status: str
    detail: str


@click.command()
@click.option("--no-spark", is_flag=True, help="Do not start Spark: look at what is installed only.")
@lake_options
def doctor(no_spark: bool, catalog: str, warehouse: str, properties: tuple[str, ...]) -> None:
    """Check Java, Spark, jars, executors and catalogs; exits with 1 if something is missing."""
    findings = list(_findings(no_spark, lambda: _catalog(catalog, warehouse, properties)))
    emit([asdict(finding) for finding in findings], lambda: _show(findings))
    if any(finding.status == FAILED for finding in findings):
        sys.exit(1)


def _findings(no_spark: bool, catalog: Callable[[], str]) -> Iterator[Finding]:
    yield Finding("Python", OK, f"{platform.python_version()} ({sys.executable})")
    yield Finding("lakeshift", OK, f"{__version__}, PyIceberg {metadata.version('pyiceberg')}")
    stack: Stack | None = None
    try:
        stack = installed_stack()
        yield Finding("Spark", OK, f"{metadata.version('pyspark')} (line {stack.line}, tested with {stack.spark})")
    except LakeshiftError as error:
        yield Finding("Spark", FAILED, str(error))
    java_works = False
    if stack:
        java = _look("Java", lambda: _java(stack))
        java_works = java.status == OK
        yield java
        yield from _jars(stack)
    if no_spark or stack is None or not java_works:
        why = "--no-spark was given" if no_spark else "Spark or Java is missing"
        yield Finding("Session", SKIPPED, why)
        yield Finding("Executors", SKIPPED, why)
    else:
        yield from _session(stack)
    yield _look("Catalog", catalog)


def _look(subject: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, OK, look())
    except LakeshiftError as error:
        return Finding(subject, FAILED, str(error))


def _java(stack: Stack) -> str:
    java = require_java(stack)
    return f"{java.version} ({java.path})"


def _jars(stack: Stack) -> Iterator[Finding]:
    for name in stack.available_formats():
        coordinates = stack.packages((name,))
        if not coordinates:
            yield Finding(f"Jar for {name}", OK, "none needed")
        for coordinate in coordinates:
            here = any(_ivy_jars(coordinate))
            yield Finding(
                f"Jar for {name}", OK, f"{coordinate} ({'is here' if here else 'Spark fetches it when it starts'})"
            )
    if stack.hudi is None:
        yield Finding("Jar for hudi", SKIPPED, f"Hudi publishes no bundle for Spark {stack.line}; use Spark 3.5")


def _ivy_jars(coordinate: str) -> Iterator[Path]:
    group, artifact, version = coordinate.split(":")
    for folder in Path.home().glob(".ivy2*/jars"):
        yield from folder.glob(f"{group}_{artifact}-{version}.jar")


def _session(stack: Stack) -> Iterator[Finding]:
    from lakeshift.spark.executors import find_executors
    from lakeshift.spark.session import build_session

    formats = stack.available_formats()
    try:
        with quiet_jvm():
            spark = build_session(formats, stack=stack)
    except LakeshiftError as error:
        yield Finding("Session", FAILED, str(error))
        yield Finding("Executors", SKIPPED, "no session")
        return
    try:
        yield Finding("Session", OK, f"Spark {spark.version} started for {', '.join(formats)}")
        with quiet_jvm():
            executors = find_executors(spark)
        for executor in executors:
            if executor.problem:
                yield Finding("Executors", FAILED, f"{executor.host} ({executor.python}): {executor.problem}")
            else:
                yield Finding("Executors", OK, f"{executor.host} ({executor.python}): lakeshift {executor.lakeshift}")
    except LakeshiftError as error:
        yield Finding("Executors", FAILED, str(error))


def _catalog(name: str, warehouse: str, properties: tuple[str, ...]) -> str:
    lake = open_lake(name, warehouse, properties)
    if name == "local" and not properties and not Path(warehouse, "catalog.db").exists():
        return f"local: none yet in {warehouse}; the first table creates it"
    return f"{name}: {len(lake.iceberg_tables())} tables"


def _show(findings: list[Finding]) -> None:
    show_table(["What", "Status", "Found"], [[f.subject, f.status, f.detail] for f in findings])
    failed = [finding.subject for finding in findings if finding.status == FAILED]
    say(f"Not healthy: {', '.join(failed)}." if failed else "All is well.", style="red" if failed else "green")
