"""What all parts of a pipeline file have in common: values as text gives them, and refusal of what is not known.

Nothing else of the pipeline but its environment comes in here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from lakeshift.pipeline.environment import Expanded


def _number_of_text(value: Any) -> Any:
    """A variable's text may stand for a number."""
    if isinstance(value, Expanded) and re.fullmatch(r"[-+]?[0-9]+", value):
        return int(value)
    return value


def _truth_of_text(value: Any) -> Any:
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, Expanded) else value


def _plain_text(value: Any) -> Any:
    return str(value) if isinstance(value, Expanded) else value


Text: TypeAlias = Annotated[str, BeforeValidator(_plain_text)]
Whole: TypeAlias = Annotated[int, BeforeValidator(_number_of_text)]
Truth: TypeAlias = Annotated[bool, BeforeValidator(_truth_of_text)]
Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Options: TypeAlias = dict[str, Text]


_STREAMS = " A run takes what is there when it begins, as Spark's available-now trigger does: say streaming: true."
_HINTS = {"stream": _STREAMS, "trigger": _STREAMS, "checkpoint": " The run's records are the checkpoint."}


class Part(BaseModel):
    """A part of the file; what it does not know it refuses, with the names that it knows."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)
    hints: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, data: Any) -> Any:
        if isinstance(data, dict):
            known = {field.alias or name for name, field in cls.model_fields.items()}
            unknown = [key for key in data if key not in known and key not in cls.model_fields]
            if unknown:
                close = difflib.get_close_matches(str(unknown[0]), sorted(known), 1)
                told = cls.hints.get(str(unknown[0])) or _HINTS.get(str(unknown[0]), "")
                hint = told or (f" Did you mean {close[0]!r}?" if close else "")
                raise PydanticCustomError(
                    "unknown_field",
                    "{name} is not known here.{hint} Allowed: {allowed}.",
                    {"name": repr(unknown[0]), "hint": hint, "allowed": ", ".join(sorted(known)), "field": unknown[0]},
                )
        return data


class Place(Part):
    """A table by its path or by its name."""

    path: Text | None = Field(None, description="Where the table lies; relative to the pipeline file.")
    table: Text | None = Field(None, description="The table's name in the session's catalog, instead of a path.")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.table is None):
            raise PydanticCustomError("place", "give either path or table")
        return self

    @property
    def place(self) -> str:
        return self.path or self.table or ""
