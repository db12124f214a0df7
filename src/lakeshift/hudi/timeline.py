"""A Hudi table's timeline, as its JVM library keeps it: the last commit, and commits by what their metadata says.

Reading only. A table that is not there yet has an empty timeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeshift.hudi.connector import check_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Hudi puts write options whose names begin so into the metadata of the commit.
METADATA_PREFIX = "_"


@dataclass(frozen=True)
class Instant:
    """A completed commit: time travel goes by when it was requested, incremental reads by when it was completed."""

    requested: str
    completed: str


class HudiTimeline:
    """The completed commits of the table at a path."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        check_connector(spark)
        session: Any = spark
        self._jvm = session._jvm
        hadoop = session._jsparkSession.sessionState().newHadoopConf()
        marker = self._jvm.org.apache.hadoop.fs.Path(path, ".hoodie/hoodie.properties")
        self._timeline: Any = None
        if marker.getFileSystem(hadoop).exists(marker):
            storage = self._jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(hadoop)
            client = self._jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
            meta = client.setConf(storage).setBasePath(path).build()
            self._timeline = meta.getCommitsTimeline().filterCompletedInstants()

    def last(self) -> Instant | None:
        """The last commit; None if there is none."""
        found = None if self._timeline is None else self._timeline.lastInstant()
        return _instant(found.get()) if found is not None and found.isPresent() else None

    def find(self, metadata: Mapping[str, str]) -> Instant | None:
        """The newest commit whose metadata has these values, among those that are not archived yet."""
        if self._timeline is None:
            return None
        reader = self._jvm.org.apache.hudi.common.table.timeline.TimelineUtils
        for instant in self._timeline.getReverseOrderedInstants().toArray():
            found = reader.getCommitMetadata(instant, self._timeline).getExtraMetadata()
            if all(found.get(key) == value for key, value in metadata.items()):
                return _instant(instant)
        return None


def _instant(instant: Any) -> Instant:
    return Instant(str(instant.requestedTime()), str(instant.getCompletionTime()))
