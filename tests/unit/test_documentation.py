"""The documentation beside what it describes: commands, pipeline fields and errors."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import mkdocs_reference
from lakeshift import errors
from lakeshift.cli.app import app
from lakeshift.pipeline import model, reads
from lakeshift.pipeline.parts import Part, Place

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, (*path, name))


def test_the_reference_tells_every_command_and_option() -> None:
    text = "\n".join(mkdocs_reference.commands())
    sections = dict(re.findall(r"^## lakeshift ([a-z -]+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    shared = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    commands = dict(leaves(app))
    assert sections.keys() == commands.keys()
    for name, command in commands.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.opts[0] in sections[name] + shared, f"lakeshift {name}: {parameter.opts}"


def test_the_reference_tells_every_field_of_a_pipeline() -> None:
    text = "\n".join(mkdocs_reference.pipeline_fields())
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    parts = {
        name: part
        for module in (model, reads)
        for name, part in inspect.getmembers(module, inspect.isclass)
        if issubclass(part, Part) and part not in (Part, Place) and not name.startswith("_")
    }
    assert sections.keys() == parts.keys()
    for name, part in parts.items():
        fields = [field.alias or key for key, field in part.model_fields.items()]
        assert re.findall(r"^\| `(\w+)` \|", sections[name], re.MULTILINE) == fields
    assert text.index("## LakeSettings") < text.index("## Rewrite")  # as a file has them


def test_pages_ask_only_for_what_is_generated() -> None:
    asked = {
        (page.name, marker)
        for page in PAGES
        for marker in re.findall(r"<!-- generated: (.*?) -->", page.read_text(encoding="utf-8"))
    }
    assert asked == {("cli.md", "commands"), ("pipeline.md", "pipeline fields")}
    assert "## lakeshift report" in mkdocs_reference.on_page_markdown("<!-- generated: commands -->")


def test_every_error_is_listed_with_its_built_in() -> None:
    rows = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", rows, re.MULTILINE))
    family = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.LakeshiftError) and kind is not errors.LakeshiftError
    }
    assert listed.keys() == family
    for name, built_in in listed.items():
        assert built_in in {base.__name__ for base in getattr(errors, name).__mro__}


def commands_of(page: Path) -> list[str]:
    fences = re.findall(r"^```\w*[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [
        line for text in fences for line in re.findall(r"^(?:\$ )?(?:[A-Z]+=\S+ )*(lakeshift .*)", text, re.MULTILINE)
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=lambda page: page.stem)
def test_commands_on_a_page_are_understood(page: Path) -> None:
    commands = dict(leaves(app))
    for line in commands_of(page):
        words = shlex.split(line.partition(" > ")[0], comments=True)[1:]
        name = next((name for name in commands if words[: len(name.split())] == name.split()), None)
        assert name is not None, line
        command = commands[name]
        arguments = words[len(name.split()) :]
        context = click.Context(command, info_name=name, **command.context_settings)
        command.make_parser(context).parse_args(arguments)  # raises at unknown options
