"""What the Delta tests share: a session whose SQL knows Delta, and a look into a table's log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakeshift.spark.session import DELTA_CATALOG


@pytest.fixture(scope="session")
def delta_sql(spark: Any) -> Any:
    """A session for the tests' own DDL: the shared one may have given the session catalog to Hudi."""
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", DELTA_CATALOG)
    return session


@dataclass(frozen=True)
class Log:
    """A Delta log as plain JSON, read without Delta."""

    table: Path

    def versions(self) -> list[int]:
        return sorted(int(file.stem) for file in (self.table / "_delta_log").glob("*.json"))

    def actions(self, version: int) -> list[dict[str, Any]]:
        text = (self.table / "_delta_log" / f"{version:020d}.json").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def kinds(self, version: int) -> list[str]:
        return [next(iter(action)) for action in self.actions(version)]

    def action(self, version: int, kind: str) -> dict[str, Any]:
        (found,) = [action[kind] for action in self.actions(version) if kind in action]
        return dict(found)

    def columns(self, version: int) -> dict[str, Any]:
        schema = json.loads(self.action(version, "metaData")["schemaString"])
        return {field["name"]: field["type"] for field in schema["fields"]}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "orders"


@pytest.fixture
def log(table: Path) -> Log:
    return Log(table)
