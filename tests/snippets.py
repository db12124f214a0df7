"""Pages of the documentation, carried out: files are written, changes made, commands and Python run, output compared.

A fence says by its language what it is. With a title it is a file (``title="a.yaml, at its end"`` adds to one); a
``diff`` changes the file of its title; ``console`` holds commands after ``$`` and what they print; ``python`` is run,
all of a page in one namespace. In expected output ``...`` stands for any text, and a line of it alone for any lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.command import shared

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_AT_END = ", at its end"


@dataclass(frozen=True)
class Snippet:
    """One fence of a page."""

    line: int
    language: str
    title: str | None
    appends: bool
    text: str


def snippets(page: Path) -> list[Snippet]:
    source = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(source):
        language, info, text = match.groups()
        titled = _TITLE.search(info)
        title = titled.group(1) if titled else None
        line = source[: match.start()].count("\n") + 1
        appends = title is not None and title.endswith(_AT_END)
        found.append(Snippet(line, language, title and title.removesuffix(_AT_END), appends, text))
    return found


@dataclass
class Walk:
    """A reader who does what a page says, in a folder; ``elsewhere`` are commands that other tests run."""

    folder: Path
    elsewhere: Sequence[str] = ()
    names: dict[str, Any] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)

    def follow(self, snippet: Snippet) -> None:
        match snippet.language:
            case "console":
                for command, expected in _commands(snippet.text):
                    self._command(snippet, command, expected)
            case "python":
                exec(compile(snippet.text, f"line {snippet.line}", "exec"), self.names)
            case "diff":
                self._change(snippet)
            case _:
                assert snippet.title, f"line {snippet.line}: a {snippet.language} fence without a title"
                self._write(snippet)

    def _write(self, snippet: Snippet) -> None:
        file = self.folder / str(snippet.title)
        file.parent.mkdir(parents=True, exist_ok=True)
        before = f"{file.read_text()}\n" if snippet.appends else ""
        file.write_text(before + snippet.text, encoding="utf-8")

    def _change(self, snippet: Snippet) -> None:
        file = self.folder / str(snippet.title)
        lines = snippet.text.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line.startswith("-"))
        new = "".join(line[1:] for line in lines if line.startswith("+"))
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"line {snippet.line}: {file.name} has this {text.count(old)} times:\n{old}"
        file.write_text(text.replace(old, new), encoding="utf-8")

    def _command(self, snippet: Snippet, command: str, expected: str) -> None:
        self.commands.append(command)
        if command in self.elsewhere:
            assert not expected, f"line {snippet.line}: nobody compares the output of {command!r}"
            return
        words = shlex.split(command)
        variables = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        program, *arguments = words[len(variables) :]
        assert program == "lakeshift", f"line {snippet.line}: {command!r} is run by no test"
        done = shared(*arguments, **variables)
        told = done.stdout + done.stderr
        assert matches(expected, told), (
            f"line {snippet.line}: {command}\n--- the page says:\n{expected}\n--- it told:\n{told}"
        )


def _commands(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command.partition("  #")[0].strip(), expected


def matches(expected: str, told: str) -> bool:
    pattern = "".join(
        r"(?:.*\n)*" if line == "..." else r"[^\n]*".join(map(re.escape, line.split("..."))) + "\n"
        for line in expected.splitlines()
    )
    return re.fullmatch(pattern, told) is not None
