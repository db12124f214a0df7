"""The pipeline file as text: YAML that knows its lines, so that every error points at a line and a field.

Values are those of YAML's core schema (``on`` and ``no`` are text, dates are text), environment variables are
replaced in them, and a key that is there twice is an error. No Spark here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lakeshift.errors import ConfigError
from lakeshift.pipeline.environment import Environment
from lakeshift.pipeline.model import ICEBERG_MODES, WRITE_FORMATS, Pipeline
from lakeshift.pipeline.reads import READ_FORMATS

_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "value")}
_TEXT = "tag:yaml.org,2002:str"
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_PLAIN = {"true": True, "false": False, "null": None, "~": None, "": None}
_MOST_NODES = 100_000

_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of names",
    "model_type": "a mapping of names",
    "model_attributes_type": "a mapping of names",
}

Location = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A file's data, and the line and column of every field in it."""

    file: str
    data: Any
    places: Mapping[Location, tuple[int, int]] = field(repr=False)
    environment: Environment = field(repr=False)

    def place(self, location: Location) -> str:
        """Where a field is, or where what holds it is."""
        known = location
        while known not in self.places and known:
            known = known[:-1]
        line, column = self.places.get(known, (1, 1))
        return f"{self.file}:{line}:{column}"


def load_pipeline(path: str | os.PathLike[str], environment: Environment | None = None) -> Pipeline:
    """The pipeline in a file, or one ConfigError that lists everything wrong with it, by line and field."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"There is no pipeline file {str(file)!r}. Check the path.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The pipeline file {str(file)!r} cannot be read: {error}.") from error
    return parse_pipeline(text, str(path), environment)


def parse_pipeline(text: str, file: str = "pipeline.yaml", environment: Environment | None = None) -> Pipeline:
    """The pipeline that a text describes; ``file`` is the name that errors give it."""
    document = read_document(text, file, environment or Environment())
    try:
        return Pipeline.model_validate(document.data)
    except ValidationError as error:
        problems = list(_problems(document, error))
    # Not raised from pydantic's error: that one shows values, and values may be secrets.
    raise _wrong(file, [document.environment.redact(problem) for problem in problems])


def read_document(text: str, file: str, environment: Environment) -> Document:
    """YAML text as plain data with places; a ConfigError where it is not YAML, or not as pipelines have it."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
        hint = " Inside of {} and [] put text with ${...} in quotes." if "${" in line else ""
        raise ConfigError(f"{where}: this is not YAML: {error.problem or error.context}.{hint}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: this is not YAML: {str(error).splitlines()[0]}") from None
    if root is None:
        raise ConfigError(f"{file}:1:1: the file is empty. A pipeline needs at least name, read and write.")
    reader = _Reader(file, environment)
    data = reader.value(root, (), ())
    if reader.problems:
        raise _wrong(file, reader.problems)
    return Document(file, data, reader.places, environment)


@dataclass
class _Reader:
    file: str
    environment: Environment
    places: dict[Location, tuple[int, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    nodes: int = 0

    def value(self, node: yaml.Node, location: Location, inside: tuple[int, ...]) -> Any:
        self.nodes += 1
        self.places.setdefault(location, (node.start_mark.line + 1, node.start_mark.column + 1))
        if id(node) in inside or self.nodes > _MOST_NODES:
            raise ConfigError(f"{self._where(node)}: {_field(location)}: an alias repeats itself without end.")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location, (*inside, id(node)))
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*location, at), (*inside, id(node))) for at, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        if node.tag not in _TAGS:
            self._problem(node, location, f"the tag {node.tag!r} is not allowed; use plain values")
            return None
        return self._scalar(node, location)

    def _mapping(self, node: yaml.MappingNode, location: Location, inside: tuple[int, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                self._problem(key, location, "a key must be a plain name")
                continue
            inner = (*location, key.value)
            if key.value in found:
                first = self.places[inner][0]
                self._problem(key, inner, f"it is there already, in line {first}; a name can be used once")
                continue
            self.places[inner] = (key.start_mark.line + 1, key.start_mark.column + 1)
            found[key.value] = self.value(value, inner, inside)
        return found

    def _scalar(self, node: yaml.ScalarNode, location: Location) -> Any:
        text = str(node.value)
        if node.style is None and (node.tag != _TEXT or not text):
            if text.lower() in _PLAIN:
                return _PLAIN[text.lower()]
            if _INT.fullmatch(text):
                return int(text)
            if _FLOAT.fullmatch(text):
                return float(text)
        try:
            return self.environment.expand(text)
        except ConfigError as error:
            self._problem(node, location, str(error).rstrip("."))
            return None

    def _problem(self, node: yaml.Node, location: Location, message: str) -> None:
        self.problems.append(f"{self._where(node)}: {_field(location)}: {message}.")

    def _where(self, node: yaml.Node) -> str:
        return f"{self.file}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _problems(document: Document, error: ValidationError) -> Iterator[str]:
    """What pydantic found, in our words, each with its place."""
    for found in error.errors(include_url=False):
        context = found.get("ctx", {})
        location = _in_file(document.data, tuple(found["loc"]))
        kind, value = found["type"], found.get("input")
        match kind:
            case "unknown_field":
                location, message = (*location, context["field"]), found["msg"].rstrip(".")
            case "reference":
                location, message = tuple(context["place"]), context["text"]
            case "missing":
                location, message = (*location, found["loc"][-1]), "it is required, and missing"
            case "union_tag_invalid" | "union_tag_not_found":
                name = str(context["discriminator"]).strip("'")
                location = (*location, name)
                allowed = _allowed(location)
                given = value.get(name) if isinstance(value, dict) else None
                said = f"{given!r} is not known" if given is not None else "it is required, and missing"
                message = f"{said}. Allowed: {', '.join(allowed)}"
            case "literal_error":
                message = f"{value!r} is not known. Allowed: {_list(str(context['expected']))}"
            case "string_pattern_mismatch":
                message = f"{value!r} is not a name that can be used here; it must match {context['pattern']}"
            case _ if kind in _WANTED:
                quotes = "; put it in quotes" if kind == "string_type" and isinstance(value, (int, float)) else ""
                message = f"it must be {_WANTED[kind]}, not {value!r}{quotes}"
            case _:
                message = str(found["msg"])
        if location and location[-1] == "[key]":
            location = location[:-1]
        yield f"{document.place(location)}: {_field(location)}: {message}."


def _in_file(data: Any, location: Location) -> Location:
    """A place as the file has it: pydantic's also names the kind that it took a mapping for."""
    there: list[str | int] = []
    for part in location:
        known = range(len(data)) if isinstance(data, list) else data if isinstance(data, dict) else ()
        if part in known:
            data = data[part]
            there.append(part)
    return tuple(there)


def _allowed(location: Location) -> Sequence[str]:
    if location[-1] == "mode":
        return ICEBERG_MODES
    return READ_FORMATS if location[0] == "read" else WRITE_FORMATS


def _list(expected: str) -> str:
    return expected.replace("'", "").replace(" or ", ", ")


def _field(location: Location) -> str:
    return ".".join(str(part) for part in location) or "the pipeline"


def _wrong(file: str, problems: Sequence[str]) -> ConfigError:
    if len(problems) == 1:
        return ConfigError(problems[0])
    return ConfigError("\n  ".join([f"{file} has {len(problems)} problems:", *problems]))
