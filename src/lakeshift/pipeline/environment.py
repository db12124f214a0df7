"""Environment variables in the text of a pipeline, and how their values stay out of everything that is shown or kept.

Nothing else of lakeshift but its errors comes in here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeshift.errors import ConfigError

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_INSIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)

# A shorter value hides only where it stands alone: "eu" inside of "queue" is no secret.
_SHORTEST_PART = 4


class Expanded(str):
    """Text in which a variable was replaced: it may stand for a number or a truth value, as text alone may not."""

    __slots__ = ()


@dataclass
class Environment:
    """The variables that a pipeline may name. It remembers the values that it gave out, to hide them again."""

    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)
    used: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Environment(used={sorted(self.used)})"

    def expand(self, text: str) -> str:
        """Replace ``${NAME}`` and ``${NAME:-default}``; ``$${`` stands for ``${`` itself."""
        if "${" not in text:
            return text
        return Expanded(_REFERENCE.sub(self._value, text))

    def redact(self, text: str) -> str:
        """The text with every value that came from the environment given by its variable's name again."""
        for name, value in sorted(self.used.items(), key=lambda item: -len(item[1])):
            if text == value or (len(value) >= _SHORTEST_PART and value in text):
                text = text.replace(value, f"${{{name}}}")
        return text

    def redact_all(self, data: Any) -> Any:
        """`redact` for all texts inside of plain data; the keys of mappings stay."""
        if isinstance(data, str):
            return self.redact(data)
        if isinstance(data, Mapping):
            return {key: self.redact_all(value) for key, value in data.items()}
        if isinstance(data, (list, tuple)):
            return [self.redact_all(value) for value in data]
        return data

    def keep(self, data: Any) -> Any:
        """Data as it can be kept in a file: redacted, and such that ``restore`` gives the same data again."""
        return _map_texts(data, lambda text: self.redact(text.replace("${", "$${")))

    def restore(self, data: Any) -> Any:
        """What ``keep`` was given."""
        return _map_texts(data, lambda text: str(self.expand(text)))

    def _value(self, match: re.Match[str]) -> str:
        if match.group(1) is None:
            return "${"
        inside = _INSIDE.fullmatch(match.group(1))
        if inside is None:
            raise ConfigError(
                f"{match.group()} names no variable: write ${{NAME}} or ${{NAME:-default}}, and $${{ for the text ${{."
            )
        name, default = inside.groups()
        value = self.variables.get(name)
        if default is not None and not value:
            return str(default)
        if value is None:
            raise ConfigError(
                f"The environment variable {name} is not set. Set it, or give it a default: ${{{name}:-...}}."
            )
        if value:
            self.used[name] = value
        return value


def _map_texts(data: Any, change: Any) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, Mapping):
        return {key: _map_texts(value, change) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_map_texts(value, change) for value in data]
    return data
