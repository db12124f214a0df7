"""Commits on an object store: written, rewritten and cleaned up through the table's own FileIO."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from lakeshift.errors import CommitConflictError
from lakeshift.iceberg.commit.change_set import RemovedFile, append_change, overwrite_change
from lakeshift.iceberg.commit.commit import commit
from tests.tables import EVENTS, data_file, events, ids, referenced_files

pytestmark = pytest.mark.plain


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[SqlCatalog, Any]]:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    access = {"aws_access_key_id": "the-key", "aws_secret_access_key": "the-secret", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", **access)
    client.create_bucket(Bucket="lake")
    catalog = SqlCatalog(
        "lake",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse="s3://lake/warehouse",
        **{
            "s3.endpoint": f"http://{host}:{port}",
            "s3.access-key-id": "the-key",
            "s3.secret-access-key": "the-secret",
            "s3.region": "us-east-1",
        },
    )
    catalog.create_namespace("db")
    yield catalog, client
    catalog.close()
    client.close()
    server.stop()


def keys(client: Any) -> set[str]:
    """All objects but the empty ones that Arrow leaves for folders."""
    found = [each["Key"] for each in client.list_objects_v2(Bucket="lake")["Contents"]]
    return {f"s3://lake/{key}" for key in found if not key.endswith("/")}


def test_commits_leave_only_what_snapshots_refer_to(store: tuple[SqlCatalog, Any]) -> None:
    catalog, client = store
    properties = {"commit.manifest.min-count-to-merge": "2", "commit.retry.min-wait-ms": "1"}
    table = catalog.create_table("db.events", EVENTS, properties=properties)
    first, second = data_file(table, events(1)), data_file(table, events(2, first=10))
    commit(table, append_change(table.metadata, [first, second]))
    waiting = [1]

    def meanwhile(_: TableMetadata, __: FileIO) -> None:
        if waiting:
            waiting.pop()
            other = catalog.load_table("db.events")
            commit(other, append_change(other.metadata, [data_file(other, events(3, first=20))]))

    change = overwrite_change(table.metadata, [data_file(table, events(4, first=30))], [RemovedFile.of(first)])
    commit(table, change, validations=[meanwhile])
    assert ids(table) == [10, 11, 12, 20, 21, 22, 30, 31, 32]

    def object_to_it(_: TableMetadata, __: FileIO) -> None:
        raise CommitConflictError("no", retryable=False)

    with pytest.raises(CommitConflictError):
        commit(table, append_change(table.metadata, [data_file(table, events(5))]), validations=[object_to_it])
    assert keys(client) == referenced_files(table.refresh())
