"""What every model of an output has in common: exact types, and no property that is not named."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """One JSON object of an output."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)
