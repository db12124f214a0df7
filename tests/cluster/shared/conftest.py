"""One local cluster of two executors for every test of this folder: each cluster is three JVMs to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import Pythons, cluster_session


@pytest.fixture(scope="package")
def spark(archive: Path, pythons: Pythons, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    with cluster_session("local-cluster[2,1,1024]", "1g", archive, pythons, warehouse) as session:
        yield session
