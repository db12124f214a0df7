"""That no command is without a schema of what it prints, and tests that run it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator, ValidationError

from lakeshift.cli.app import app
from lakeshift.cli.outputs import FAILURE, OUTPUTS, json_schema
from tests.command import valid

TESTS = Path(__file__).parents[2]
REFERENCE = TESTS.parent / "docs" / "reference"


def commands(group: click.Group, *before: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        else:
            yield " ".join((*before, name))


def calls_in_tests() -> dict[str, set[str]]:
    """For each function of ``tests/command.py``, the commands that tests call it for."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    found[node.func.id].add(first.value)
    return found


COMMANDS = set(commands(app))


def test_every_command_prints_json_of_a_published_schema() -> None:
    assert {name.partition(" --")[0] for name in OUTPUTS} == COMMANDS


def test_every_command_is_run_to_succeed_and_to_fail() -> None:
    calls = calls_in_tests()
    # What the tour tells people is what it prints as JSON, line by line; to see it twice would take a minute more.
    assert COMMANDS - calls["told"] == {"demo"}
    assert set(OUTPUTS) - calls["printed"] == set()
    assert COMMANDS - calls["refused"] == set()


def test_every_output_is_in_the_reference() -> None:
    outputs_page = (REFERENCE / "json.md").read_text(encoding="utf-8")
    assert [name for name in (*OUTPUTS, FAILURE) if f"`{name}`" not in outputs_page] == []


@pytest.mark.parametrize("name", [*OUTPUTS, FAILURE])
def test_a_schema_is_sound_and_admits_nothing_that_it_does_not_name(name: str) -> None:
    schema = json_schema(name)
    Draft202012Validator.check_schema(schema)
    objects = [part for part in parts(schema) if part.get("type") == "object" and "properties" in part]
    assert all(part["additionalProperties"] is False for part in objects)
    assert all(part.get("description") for part in objects)


def test_a_property_that_is_not_named_is_found() -> None:
    finding = {"subject": "Java", "status": "ok", "detail": "17"}
    assert valid("doctor", [finding]) == [finding]
    for wrong in ({**finding, "more": 1}, {**finding, "status": "fine"}, {"subject": "Java"}):
        with pytest.raises(ValidationError):
            valid("doctor", [wrong])


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object of a JSON document."""
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from parts(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from parts(value)
