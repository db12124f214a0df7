"""Table properties, read strictly: a value that cannot be meant is an error that names property and value."""

from __future__ import annotations

from collections.abc import Mapping

from lakeshift.errors import ConfigError


def whole_number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = str(properties.get(name, default))
    if not text.isdigit():
        raise ConfigError(f"The table property {name} is {text!r}; it must be a whole number of at least 0.")
    return int(text)


def truth(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = str(properties.get(name, default)).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"The table property {name} is {text!r}; it must be true or false.")
    return text == "true"


def one_of(properties: Mapping[str, str], name: str, default: str, choices: tuple[str, ...]) -> str:
    text = str(properties.get(name, default)).lower()
    if text not in choices:
        raise ConfigError(f"The table property {name} is {text!r}; it must be one of {', '.join(choices)}.")
    return text
