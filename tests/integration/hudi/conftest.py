"""Fixtures of the Hudi tests. They run where Hudi has a bundle; the other line only shows the error it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeshift.hudi.reader import GATE
from lakeshift.stack import Capability, Stack
from tests.integration.hudi import tables
from tests.integration.hudi.tables import HudiFixture

VECTORIZED = "spark.sql.parquet.enableVectorizedReader"
WHOLE_STAGE = "spark.sql.codegen.wholeStage"


@pytest.fixture(scope="session", autouse=True)
def _hudi_line(stack: Stack) -> None:
    if not stack.can(Capability.HUDI_DSV2_READS):
        pytest.skip(f"Spark {stack.line} has no Hudi bundle")


@pytest.fixture(autouse=True)
def _gate_unset(_hudi_line: None, spark: Any) -> Iterator[None]:
    """Each test starts with the settings that a new session of a user has.

    Hudi's V1 source switches the vectorized reader off for the whole session when it reads incrementally, and each
    read that follows, by either path, then goes row by row. So it would where stages are not compiled, as elsewhere in
    the tests.
    """
    for name in (GATE, VECTORIZED):
        spark.conf.unset(name)
    spark.conf.set(WHOLE_STAGE, "true")
    yield
    for name in (GATE, VECTORIZED, WHOLE_STAGE):
        spark.conf.unset(name)


@pytest.fixture(scope="session")
def hudi_table(_hudi_line: None, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., HudiFixture]:
    """Gives the shared table of a kind and layout, built when first asked for. Only read from it."""
    home: Path = tmp_path_factory.mktemp("hudi")
    built: dict[tuple[str, ...], HudiFixture] = {}

    def table(kind: str = "cow", layout: str = "hive_style", **options: str) -> HudiFixture:
        key = (kind, layout, *(f"{name}={value}" for name, value in sorted(options.items())))
        if key not in built:
            begun = table(tables.BEGINS_AS[kind], layout, **options) if kind in tables.BEGINS_AS else None
            path = home / f"t{len(built)}_{kind}_{layout}"
            built[key] = tables.build(spark, path, kind, layout, begun, **options)
        return built[key]

    return table


@pytest.fixture
def gate(spark: Any) -> Callable[[bool | None], None]:
    """Sets the session's gate, or unsets it with None."""

    def turn(on: bool | None) -> None:
        if on is None:
            spark.conf.unset(GATE)
        else:
            spark.conf.set(GATE, str(on).lower())

    return turn
