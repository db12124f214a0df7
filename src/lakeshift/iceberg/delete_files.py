"""What is inside position delete files, as far as planning has to know it: the data files they refer to.

Read through the table's FileIO, one column only. Applying deletes to rows is the kernels' work.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg.io import FileIO
from pyiceberg.manifest import FileFormat

from lakeshift.iceberg.avro_files import decoding_context, fields_by_id, local_avro

# The Iceberg spec gives the column this name and this field id.
_PATH = "file_path"
_PATH_ID = 2147483546


def deleted_paths(location: str, file_format: str, io: FileIO) -> pa.Array | None:
    """The distinct data files that a position delete file refers to; None if its format cannot be read here."""
    if file_format == FileFormat.PARQUET.value:
        with io.new_input(location).open() as source:
            parquet = pq.ParquetFile(source, read_dictionary=[_PATH])
            found = [pc.unique(batch.column(0)) for batch in parquet.iter_batches(columns=[_PATH])]
    elif file_format == FileFormat.ORC.value:
        with io.new_input(location).open() as source:
            found = [pc.unique(chunk) for chunk in orc.ORCFile(source).read(columns=[_PATH]).column(0).chunks]
    elif file_format == FileFormat.AVRO.value:
        found = _avro_paths(location, io)
    else:
        return None
    plain = [array.cast(pa.string()) for array in found]
    return pc.unique(pa.chunked_array(plain, pa.string()))


def _avro_paths(location: str, io: FileIO) -> list[pa.Array]:
    with (
        tempfile.TemporaryDirectory(prefix="lakeshift-deletes-") as staging,
        local_avro(location, io, Path(staging, "deletes.avro")) as avro,
    ):
        name = fields_by_id(avro.header.schema)[_PATH_ID]["name"]
        return [pc.unique(batch.column(name)) for batch in avro.batches(decoding_context(), structs={})]
