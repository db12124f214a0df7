"""What a pipeline file may say, as pydantic models; their JSON Schema helps editors. No Spark and no YAML here."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from lakeshift.pipeline.parts import Name, Options, Part, Place, Text, Truth, Whole
from lakeshift.pipeline.reads import DeltaRead, HudiRead, IcebergRead, Read, StreamableRead

WRITE_FORMATS = ("iceberg", "delta", "hudi")
ICEBERG_MODES = ("append", "overwrite", "merge")


class LakeSettings(Part):
    """The lake that the pipeline works on, as ``lakeshift.connect()`` takes it."""

    catalog: Text = Field("local", description="A catalog's name; 'local' is an SQLite catalog in the warehouse.")
    warehouse: Text = Field("./lakehouse", description="The folder of the embedded catalog.")
    properties: Options = Field(default_factory=dict, description="Properties of any other catalog.")


class Transform(Part):
    """A named step between inputs and outputs: Spark SQL over earlier names, or a Python function of frames."""

    sql: Text | None = Field(None, description="A query; inputs and earlier steps are tables in it.")
    python: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = Field(
        None, description="package.module:function, called with the frames of 'inputs'."
    )
    inputs: list[Name] = Field(default_factory=list, description="The names whose frames the function takes.")
    arguments: dict[str, Any] = Field(default_factory=dict, description="Further arguments of the function, by name.")
    cache: Truth = Field(False, description="Keep the rows while the run lasts, where several steps use them.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.sql is None) == (self.python is None):
            raise PydanticCustomError("way", "give either sql or python")
        if self.sql is not None and (self.inputs or self.arguments):
            raise PydanticCustomError("way", "inputs and arguments belong to python; sql names its tables itself")
        return self


class NewTable(Part):
    """How to create the Iceberg table where it is not there yet; its columns are those of the rows."""

    partition_by: list[Text] = Field(default_factory=list, description="Such as day(ts), bucket(16, id) or region.")
    properties: Options = Field(default_factory=dict)


class _IcebergTarget(Part):
    format: Literal["iceberg"]
    from_: Name = Field(alias="from", description="The input or transform whose rows are written.")
    table: Text
    create: NewTable | None = Field(None, description="Create the table if it is not there.")
    branch: Text | None = None


class _IcebergRows(_IcebergTarget):
    spec_id: Whole | None = Field(None, description="The partition spec to write; by default the table's default.")
    quarantine: Text | None = Field(
        None, description="A folder for rows that the table cannot hold; without it they fail the step."
    )


class IcebergAppend(_IcebergRows):
    """Add rows to an Iceberg table."""

    mode: Literal["append"]


class IcebergOverwrite(_IcebergRows):
    """Replace all rows of an Iceberg table, those for which a condition is true, or those of touched partitions."""

    mode: Literal["overwrite"]
    partitions: Literal["all", "dynamic"] = Field("all", description="'dynamic': only partitions that new rows touch.")
    where: Text | None = Field(None, description="Spark SQL: only the rows for which it is true.")
    isolation: Literal["serializable", "snapshot"] = "serializable"

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        if self.where is not None and self.partitions == "dynamic":
            raise PydanticCustomError("choice", "where and partitions: dynamic exclude each other; give one")
        return self


class MergeClause(Part):
    """What becomes of rows that meet (matched) or do not; of each kind the first whose condition holds."""

    when: Literal["matched", "not-matched", "not-matched-by-source"]
    then: Literal["update", "delete", "insert"]
    condition: Text | None = None
    set_: dict[str, Text] | None = Field(
        None, alias="set", description="Columns and their SQL; without it all columns, by name."
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if (self.when == "not-matched") != (self.then == "insert"):
            raise PydanticCustomError(
                "clause",
                "'{when}' cannot {then}: not-matched rows are inserted; matched and not-matched-by-source rows are "
                "updated or deleted",
                {"when": self.when, "then": self.then},
            )
        if self.then == "delete" and self.set_ is not None:
            raise PydanticCustomError("clause", "a delete sets nothing; leave out 'set'")
        if self.when == "not-matched-by-source" and self.then == "update" and not self.set_:
            raise PydanticCustomError("clause", "needs 'set': there is no source row to take values from")
        return self


class IcebergMerge(_IcebergTarget):
    """Merge rows into an Iceberg table by a condition on both."""

    mode: Literal["merge"]
    on: Text = Field(description="Such as 'target.id = source.id'.")
    clauses: list[MergeClause] = Field(min_length=1)
    row_level_mode: Literal["merge-on-read", "copy-on-write"] | None = Field(
        None, description="By default the table's property write.merge.mode."
    )


class Evolution(Part):
    """What may change in a Delta table's schema."""

    columns: Literal["evolve", "freeze"] = "freeze"
    types: Literal["evolve", "freeze"] = "freeze"


class DeltaWrite(Place):
    """Append rows to a Delta table, whose schema changes only as far as allowed."""

    format: Literal["delta"]
    from_: Name = Field(alias="from", description="The input or transform whose rows are written.")
    evolution: Evolution = Field(default_factory=Evolution)
    enable_type_widening: Truth = Field(False, description="Allow to switch type widening on in the table.")
    partition_by: list[Text] = Field(default_factory=list, description="For a new table.")
    properties: Options = Field(default_factory=dict, description="delta.* properties of a new table.")
    create: Truth = True


class HudiWrite(Part):
    """Write rows through Hudi's own V1 writer."""

    format: Literal["hudi"]
    from_: Name = Field(alias="from", description="The input or transform whose rows are written.")
    path: Text = Field(description="Where the table lies; relative to the pipeline file.")
    table_name: Name
    operation: Literal["upsert", "insert", "bulk_insert"] = "upsert"
    table_type: Literal["COPY_ON_WRITE", "MERGE_ON_READ"] = "COPY_ON_WRITE"
    record_key: list[Text] = Field(min_length=1)
    precombine: Text | None = Field(None, description="Of two rows with a key the one with the larger value stays.")
    partition_by: list[Text] = Field(default_factory=list)
    options: Options = Field(default_factory=dict, description="Further hoodie.* options.")


IcebergWrite: TypeAlias = Annotated[
    IcebergAppend | IcebergOverwrite | IcebergMerge, Field(discriminator="mode", title="IcebergWrite")
]
Write: TypeAlias = Annotated[IcebergWrite | DeltaWrite | HudiWrite, Field(discriminator="format")]


class Rewrite(Part):
    """Compact an Iceberg table after the writes."""

    table: Text
    where: Text | None = None
    target_spec_id: Whole | None = Field(None, description="Move files of other specs to this one.")
    strictness: Literal["fail-open", "fail-closed"] = "fail-open"
    branch: Text | None = None
    options: dict[str, Any] = Field(
        default_factory=dict, description="Options of rewrite_data_files, such as min-input-files."
    )


class Pipeline(Part):
    """A pipeline: named inputs, steps between, outputs, and what is tidied up afterwards."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    state: Text | None = Field(None, description="The folder of the runs' records; .lakeshift/<name> beside the file.")
    lake: LakeSettings = Field(default_factory=lambda: LakeSettings.model_validate({}))
    read: dict[Name, Read] = Field(min_length=1)
    transform: dict[Name, Transform] = Field(default_factory=dict)
    write: dict[Name, Write] = Field(default_factory=dict)
    maintain: dict[Name, Rewrite] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        known: list[str] = []
        for name in self.read:
            if name.lower() in map(str.lower, known):
                _refuse(("read", name), f"{name!r} is the name of another input, but for its case; choose another")
            known.append(name)
        for name, step in self.transform.items():
            if name.lower() in map(str.lower, known):
                _refuse(("transform", name), f"{name!r} is the name of another input or transform; choose another")
            for used in step.inputs:
                _check_known(("transform", name, "inputs"), used, known)
            known.append(name)
        for name, write in self.write.items():
            _check_known(("write", name, "from"), write.from_, known)
            if write.from_ in self.streams:
                _check_takes_a_part(("write", name), write)
        for name, read in self.streams.items():
            for written, write in self.write.items():
                if isinstance(read, (IcebergRead, DeltaRead)) and _place(read) == _place(write):
                    _refuse(
                        ("read", name, "streaming"),
                        f"write.{written} writes the same table, so that each run would find the rows of the one "
                        "before it; write another table, or read this one without streaming",
                    )
        if not self.write and not self.maintain:
            _refuse((), "nothing to do: give write or maintain")
        return self

    @property
    def streams(self) -> dict[str, StreamableRead]:
        """The inputs of which a run takes only what is new."""
        return {n: read for n, read in self.read.items() if not isinstance(read, HudiRead) and read.streaming}

    @property
    def formats(self) -> tuple[str, ...]:
        """The table formats that the session must know."""
        used = {part.format for part in (*self.read.values(), *self.write.values())} | {"iceberg"}
        return tuple(name for name in WRITE_FORMATS if name in used)


def _check_known(place: tuple[str, ...], name: str, known: list[str]) -> None:
    if name not in known:
        _refuse(place, f"{name!r} is not defined before it is used; there are: {', '.join(known)}")


def _refuse(place: tuple[str | int, ...], message: str) -> None:
    raise PydanticCustomError("reference", "{text}", {"text": message, "place": list(place)})


def _check_takes_a_part(place: tuple[str, ...], write: IcebergWrite | DeltaWrite | HudiWrite) -> None:
    """Refuse a write that takes the rows of a stream for all the rows there are."""
    if isinstance(write, IcebergOverwrite) and write.where is None and write.partitions == "all":
        _refuse(
            (*place, "mode"),
            f"{write.from_!r} is a stream: only what arrived last would stay in the table; use append or merge, or "
            "overwrite with where or partitions: dynamic",
        )
    if isinstance(write, IcebergMerge):
        for at, clause in enumerate(write.clauses):
            if clause.when == "not-matched-by-source" and clause.then == "delete" and clause.condition is None:
                _refuse(
                    (*place, "clauses", at),
                    f"{write.from_!r} is a stream: every row that did not arrive anew would be deleted; give the "
                    "clause a condition, or leave it out",
                )


def _place(part: Any) -> tuple[str, str]:
    return part.format, part.table if part.format == "iceberg" else part.path or part.table
