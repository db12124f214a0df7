"""A lake on S3: a local server from the Python package index, and kernels that read it on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io import FileIO

import lakeshift
from lakeshift.errors import TaskFailedError
from lakeshift.kernel import Attempt
from lakeshift.locations import canonical_location
from lakeshift.spark.jobs import run_tasks

BUCKET = "lake"


@dataclass(frozen=True)
class Rows:
    count: int


def count_rows(location: str, _: Attempt, io: FileIO) -> Iterable[Rows]:
    with io.new_input(location).open() as stream:
        yield Rows(pq.read_metadata(stream).num_rows)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def properties(endpoint: str, tmp_path: Path) -> dict[str, str]:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="the-key",
        aws_secret_access_key="the-secret",
    )
    client.create_bucket(Bucket=BUCKET)
    client.close()
    return {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "s3.endpoint": endpoint,
        "s3.access-key-id": "the-key",
        "s3.secret-access-key": "the-secret",
        "s3.region": "us-east-1",
    }


@pytest.mark.parametrize("scheme", ["s3", pytest.param("s3a", marks=pytest.mark.once_first)])
def test_a_table_on_s3_is_created_written_evolved_and_read_by_executors(
    spark: Any, properties: dict[str, str], scheme: str
) -> None:
    warehouse = {**properties, "warehouse": f"{scheme}://{BUCKET}/{scheme}"}
    lake = lakeshift.connect("s3lake", properties=warehouse, spark=spark)
    table = lake.create_iceberg_table("db.t", "id bigint, region string", partition_by=["region"])
    table.table.append(pa.table({"id": [1, 2, 3], "region": ["eu", "us", "eu"]}))
    table.evolve_partitions(drop=["region"], add=["bucket(4, id)"])
    table.table.append(pa.table({"id": [4], "region": ["eu"]}))

    reopened = lakeshift.connect("s3lake", properties=warehouse, spark=spark).iceberg("db.t")
    assert [(spec.spec_id, spec.rows) for spec in reopened.layout()] == [(0, 3), (1, 1)]
    locations = reopened.table.inspect.data_files()["file_path"].to_pylist()
    assert all(location.startswith(f"{scheme}://{BUCKET}/") for location in locations)

    # Both names of the store lead executors to the same objects, whichever of them is stored.
    other = "s3a" if scheme == "s3" else "s3"
    renamed = [location.replace(f"{scheme}://", f"{other}://", 1) for location in locations]
    assert [canonical_location(one) for one in locations] == [canonical_location(one) for one in renamed]
    for names in (locations, renamed):
        kernel = partial(count_rows, io=reopened.table.io)
        reports = run_tasks(spark, kernel, names, Rows, operation_id="op", title="count")
        assert sum(record.count for report in reports for record in report.records) == 4


def test_a_missing_object_fails_with_its_name_and_without_the_secret(spark: Any, properties: dict[str, str]) -> None:
    lake = lakeshift.connect("s3lake", properties={**properties, "warehouse": f"s3://{BUCKET}/x"}, spark=spark)
    io = lake.create_iceberg_table("db.gone", "id bigint").table.io
    missing = f"s3://{BUCKET}/gone.parquet"
    with pytest.raises(TaskFailedError, match="gone.parquet failed on .*FileNotFoundError") as caught:
        run_tasks(spark, partial(count_rows, io=io), [missing], Rows, operation_id="op", title="count", names=[missing])
    assert "the-secret" not in f"{caught.value} {caught.value.trace} {caught.value.__cause__}"
