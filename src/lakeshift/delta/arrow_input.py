"""Arrow data as a Spark DataFrame, on every Spark line and with public API only.

For convenience, not for bulk: the batches pass through the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from lakeshift.delta.schema import ArrayOf, Atomic, DataType, MapOf, StructOf, as_stored, spark_json
from lakeshift.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ArrowInput = pa.Table | pa.RecordBatch | pa.RecordBatchReader | Iterable[pa.RecordBatch]

_ROWS_A_CHUNK = 64 * 1024
_ARROW_OF = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


def arrow_table(data: object) -> pa.Table:
    """One table of whatever Arrow input was given."""
    match data:
        case pa.Table():
            return data
        case pa.RecordBatch():
            return pa.Table.from_batches([data])
        case pa.RecordBatchReader():
            return data.read_all()
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        batches = list(data)
        if batches and all(isinstance(batch, pa.RecordBatch) for batch in batches):
            return pa.Table.from_batches(batches)
        if not batches:
            raise ConfigError("An empty iterator has no schema; pass a pyarrow Table or a RecordBatchReader.")
    raise ConfigError(
        f"A batch cannot be a {type(data).__name__}; pass a Spark DataFrame, a pyarrow Table, a RecordBatch, "
        "a RecordBatchReader or an iterator of record batches."
    )


def to_dataframe(spark: SparkSession, table: pa.Table, schema: StructOf) -> DataFrame:
    """A frame of the table's rows; ``schema`` is the model of the table's own schema."""
    from pyspark.sql.types import StructType

    stored = cast(StructOf, as_stored(schema))
    plain = table.cast(pa.schema([pa.field(f.name, _arrow_of(f.type)) for f in stored.fields]))
    chunks = [(_to_ipc(batch),) for batch in plain.to_batches(max_chunksize=_ROWS_A_CHUNK)]
    parts = spark.createDataFrame(chunks, "ipc binary")
    return parts.mapInArrow(_decode, StructType.fromJson(cast(dict[str, Any], spark_json(stored))))


def _decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for chunk in batch.column(0):
            with pa.ipc.open_stream(chunk.as_buffer()) as reader:
                yield from reader


def _to_ipc(batch: pa.RecordBatch) -> bytearray:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytearray(sink.getvalue())


def _arrow_of(data_type: DataType) -> pa.DataType:
    match data_type:
        case Atomic(name):
            digits = data_type.decimal
            return pa.decimal128(*digits) if digits else _ARROW_OF[name]
        case ArrayOf(element):
            return pa.list_(_arrow_of(element))
        case MapOf(key, value):
            return pa.map_(_arrow_of(key), _arrow_of(value))
        case StructOf(fields):
            return pa.struct([pa.field(f.name, _arrow_of(f.type)) for f in fields])
