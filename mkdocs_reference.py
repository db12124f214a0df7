"""Fills the reference pages when the site is built: commands from the program, fields from the pipeline's models.

A page holds a marker, such as ``<!-- generated: commands -->``, where the text goes. What is generated cannot drift
from what it describes; what a page says around it is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import click

_MARKER = re.compile(r"<!-- generated: ([a-z ]+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What mkdocs calls for every page."""
    return _MARKER.sub(lambda match: "\n".join(_GENERATED[match.group(1)]()), markdown)


def commands() -> Iterator[str]:
    """Every command with its arguments and options, as ``--help`` tells them."""
    from lakeshift.cli.app import app

    yield from _command(app, click.Context(app, info_name="lakeshift"))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, info_name=name, parent=context))
        return
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## {context.command_path}\n"
    yield f"```text\n{context.command_path} {usage}\n```\n"
    yield f"{_prose(command.help or '')}\n"
    options = [found for found in command.params if isinstance(found, click.Option) and found.name not in _SHARED]
    if options:
        yield "| option | meaning |\n|---|---|"
        for option in options:
            told = option.get_help_record(context)
            if told is not None:
                yield f"| `{told[0]}` | {_cell(told[1])} |"
        yield ""


# Every command has them; the page tells them once.
_SHARED = {"json", "debug", "catalog", "warehouse", "properties"}


def pipeline_fields() -> Iterator[str]:
    """Every part of a pipeline file with its fields, from the JSON Schema that ``lakeshift run --schema`` prints."""
    from lakeshift.pipeline.model import Pipeline

    schema = Pipeline.model_json_schema(by_alias=True)
    parts: dict[str, Mapping[str, Any]] = schema.pop("$defs")
    parts["Pipeline"] = schema
    for name in _in_order(parts):
        part = parts[name]
        yield f"## {name}\n"
        yield f"{_prose(part.get('description', ''))}\n"
        yield "| field | | meaning |\n|---|---|---|"
        required = set(part.get("required", ()))
        for field, facts in part["properties"].items():
            default = "**required**" if field in required else _default(facts)
            yield f"| `{field}` | {_kind(facts)}, {default} | {_cell(facts.get('description', ''))} |"
        yield ""


def _in_order(parts: Mapping[str, Any]) -> list[str]:
    """As the file has them: each part after the one that first names it."""
    order = ["Pipeline"]
    for name in order:
        order += [found for found in re.findall(r"'#/\$defs/(\w+)'", str(parts[name])) if found not in order]
        order[:] = dict.fromkeys(found for found in order if found in parts)
    return order


def _kind(facts: Mapping[str, Any]) -> str:
    if "$ref" in facts:
        name = str(facts["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in facts:
        return f"`{facts['const']}`"
    if "enum" in facts:
        return " or ".join(f"`{value}`" for value in facts["enum"])
    for choice in ("anyOf", "oneOf"):
        if choice in facts:
            kinds = [_kind(found) for found in facts[choice] if found.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    match facts.get("type"):
        case "array":
            return f"list of {_kind(facts['items'])}"
        case "object" if isinstance(facts.get("additionalProperties"), dict) and facts["additionalProperties"]:
            return f"names with {_kind(facts['additionalProperties'])}"
        case "object" if facts.get("patternProperties"):
            return f"names with {_kind(next(iter(facts['patternProperties'].values())))}"
        case "object":
            return "mapping"
        case kind:
            return {"string": "text", "integer": "number", "boolean": "true or false"}.get(str(kind), "any value")


def _default(facts: Mapping[str, Any]) -> str:
    value = facts.get("default")
    if value is None or value in ({}, []):
        return "optional"
    return f"default `{str(value).lower() if isinstance(value, bool) else value}`"


def _prose(text: str) -> str:
    """A docstring in Markdown: its double backticks are reStructuredText's."""
    return re.sub(r"``([^`]+)``", r"`\1`", re.sub(r"[ \t]*\n[ \t]*", "\n", text.strip()))


def _cell(text: str) -> str:
    return " ".join(_prose(text).split()).replace("|", "\\|").replace("<", "&lt;")


_GENERATED = {"commands": commands, "pipeline fields": pipeline_fields}
