"""What a pipeline file may say about its inputs, as pydantic models. No Spark and no YAML here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from lakeshift.pipeline.parts import Options, Part, Place, Text, Truth, Whole

READ_FORMATS = ("hudi", "iceberg", "delta", "parquet", "json", "csv")


class IncrementalRange(Part):
    """Which commits of a Hudi table to read: after the first, up to the second."""

    from_: Text = Field(alias="from", description="A completion time such as 20260131120000000; '0' for all commits.")
    to: Text | None = None


Start: TypeAlias = Annotated[
    Literal["all", "latest"],
    Field(description="Where a stream's first run begins: with all that is there, or after it."),
]
_STREAMING = "Each run takes only what arrived since the last one that finished."


class HudiRead(Place):
    """Rows of a Hudi table, through DataSource V2 or Hudi's own source."""

    hints: ClassVar[Mapping[str, str]] = {
        "streaming": " Not of Hudi tables: read what changed since a commit with incremental: {from: ...}."
    }

    format: Literal["hudi"]
    dsv2: Truth = Field(True, description="Read through DataSource V2.")
    as_of: Text | None = Field(None, description="An instant or a time: the table as it was then.")
    incremental: IncrementalRange | None = None
    read_optimized: Truth = False
    options: Options = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_kind_of_query(self) -> Self:
        if sum((self.as_of is not None, self.incremental is not None, self.read_optimized)) > 1:
            raise PydanticCustomError("query", "as_of, incremental and read_optimized exclude each other; give one")
        return self


class IcebergRead(Part):
    """Rows of an Iceberg table."""

    format: Literal["iceberg"]
    table: Text
    columns: list[Text] | None = None
    where: Text | None = Field(None, description="Spark SQL; files that cannot match are not read.")
    snapshot_id: Whole | None = Field(None, description="The table as it was; by default its head when the run began.")
    streaming: Truth = Field(False, description=f"{_STREAMING} Only appends can be read so.")
    start: Start = "all"

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        _check_stream(self.streaming, self.start, {"snapshot_id": self.snapshot_id})
        return self


class DeltaRead(Place):
    """Rows of a Delta table."""

    format: Literal["delta"]
    version: Whole | None = Field(None, description="A version; by default the last when the run began.")
    streaming: Truth = Field(False, description=f"{_STREAMING} Only appends can be read so.")
    start: Start = "all"

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        _check_stream(self.streaming, self.start, {"version": self.version})
        return self


class FileRead(Part):
    """Files that hold rows."""

    # Parquet files tell their columns themselves.
    model_config = ConfigDict(
        json_schema_extra={
            "if": {
                "properties": {"streaming": {"const": True}, "format": {"enum": ["json", "csv"]}},
                "required": ["streaming", "format"],
            },
            "then": {"required": ["schema"]},
        }
    )

    format: Literal["parquet", "json", "csv"]
    path: Text | list[Text] = Field(description="Paths or globs, relative to the pipeline file.")
    schema_: Text | None = Field(
        None, alias="schema", description="Columns and types, such as 'id bigint, ts timestamp'."
    )
    options: Options = Field(default_factory=dict, description="Options of Spark's reader.")
    streaming: Truth = Field(False, description=f"{_STREAMING} A file is known by its path.")
    start: Start = "all"

    @model_validator(mode="after")
    def _types_do_not_change(self) -> Self:
        _check_stream(self.streaming, self.start, {})
        if self.streaming and self.format != "parquet" and self.schema_ is None:
            raise PydanticCustomError(
                "stream",
                "a stream of {format} files needs 'schema': guessed from each run's files, types would come and go",
                {"format": self.format},
            )
        return self

    @property
    def paths(self) -> list[str]:
        return [self.path] if isinstance(self.path, str) else list(self.path)


StreamableRead: TypeAlias = IcebergRead | DeltaRead | FileRead
Read: TypeAlias = Annotated[HudiRead | IcebergRead | DeltaRead | FileRead, Field(discriminator="format")]


def _check_stream(streaming: bool, start: str, excluded: Mapping[str, Any]) -> None:
    for name, value in excluded.items():
        if streaming and value is not None:
            raise PydanticCustomError(
                "stream",
                "streaming and {name} exclude each other: a stream goes on from where the last run ended; give one",
                {"name": name},
            )
    if start != "all" and not streaming:
        raise PydanticCustomError("stream", "'start' belongs to a stream; add streaming: true, or leave it out")
