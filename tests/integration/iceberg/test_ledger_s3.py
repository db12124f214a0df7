"""The ledger of a table in an object store: everything through the table's FileIO, nothing left on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.kernels.applied_deletes import DeleteFile
from lakeshift.iceberg.kernels.read import FileToRead, ReadContext, read_file
from lakeshift.iceberg.ledger import read_ledger
from tests.handmade import HandmadeTable

pytestmark = pytest.mark.plain

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


@pytest.fixture(scope="module")
def io() -> Iterator[FileIO]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}", "region_name": "us-east-1"}
    client = boto3.client("s3", aws_access_key_id="the-key", aws_secret_access_key="the-secret", **options)
    client.create_bucket(Bucket="ledger")
    client.close()
    yield PyArrowFileIO(
        {
            "s3.endpoint": options["endpoint_url"],
            "s3.region": "us-east-1",
            "s3.access-key-id": "the-key",
            "s3.secret-access-key": "the-secret",
        }
    )
    server.stop()


def test_a_table_on_s3_has_its_ledger(io: FileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = HandmadeTable(tmp_path, SCHEMA, SPEC, PartitionSpec(spec_id=1))
    table.io, table.location = io, "s3://ledger/db/table"
    first = table.data_file(0, "eu")
    table.commit(first, table.data_file(0, None), table.data_file(1))
    table.commit(table.position_deletes([first.file_path], 0, "eu"))
    ledger = read_ledger(table.metadata, io)
    assert [row["region"] for row in ledger.data[0].column("partition").to_pylist()] == ["eu", None]
    assert ledger.data[0].column("file_path")[0].as_py() == first.file_path
    assert (ledger.data[1].num_rows, ledger.deletes[0].num_rows) == (1, 1)
    assert list(tmp_path.iterdir()) == []


def test_data_and_delete_files_on_s3_are_read_by_the_kernel(io: FileIO) -> None:
    data, deletes = "s3://ledger/db/data.parquet", "s3a://ledger/db/deletes.parquet"
    positions = Schema(NestedField(2147483546, "file_path", StringType()), NestedField(2147483545, "pos", LongType()))
    for location, schema, rows in [
        (data, SCHEMA, [{"id": n, "region": None} for n in range(5)]),
        # Hadoop's spelling of the same place.
        (deletes, positions, [{"file_path": data.replace("s3:", "s3a:"), "pos": 2}]),
    ]:
        with io.new_output(location).create() as stream:
            pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(schema)), stream)
    context = ReadContext(SCHEMA, ("id", "region"), (SCHEMA,), {0: SPEC})
    file = FileToRead(data, "PARQUET", 1000, 0, ("eu",), 5, (DeleteFile(deletes, "PARQUET", 1, 1000),))
    (batch,) = read_file(file, context, io)
    assert batch.column("id").to_pylist() == [0, 1, 3, 4]
