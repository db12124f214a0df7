"""The table properties that say how to commit, read strictly: a value that cannot be meant is an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeshift.iceberg.commit.avro import Codec
from lakeshift.iceberg.table_properties import truth, whole_number

NUM_RETRIES = "commit.retry.num-retries"
MIN_WAIT_MS = "commit.retry.min-wait-ms"
MAX_WAIT_MS = "commit.retry.max-wait-ms"
TOTAL_TIMEOUT_MS = "commit.retry.total-timeout-ms"
MANIFEST_TARGET_SIZE = "commit.manifest.target-size-bytes"
MANIFEST_MIN_COUNT = "commit.manifest.min-count-to-merge"
MANIFEST_MERGE = "commit.manifest-merge.enabled"
MANIFEST_CODEC = "write.manifest.compression-codec"
MANIFEST_LEVEL = "write.manifest.compression-level"
WAP_ENABLED = "write.wap.enabled"
WAP_ID = "wap.id"


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how patiently a commit is tried again. Waits are in seconds."""

    retries: int
    min_wait: float
    max_wait: float
    total_timeout: float

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        return cls(
            retries=whole_number(properties, NUM_RETRIES, 4),
            min_wait=whole_number(properties, MIN_WAIT_MS, 100) / 1000,
            max_wait=whole_number(properties, MAX_WAIT_MS, 60_000) / 1000,
            total_timeout=whole_number(properties, TOTAL_TIMEOUT_MS, 1_800_000) / 1000,
        )

    def wait(self, attempt: int) -> float:
        """The longest pause before the attempt after this one, counted from 1."""
        return min(self.min_wait * 2.0 ** min(attempt - 1, 60), self.max_wait)


@dataclass(frozen=True)
class ManifestPolicy:
    """How manifests are packed and compressed."""

    target_size: int
    min_count_to_merge: int
    merge: bool
    codec: Codec

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ManifestPolicy:
        return cls(
            target_size=whole_number(properties, MANIFEST_TARGET_SIZE, 8 * 1024 * 1024),
            min_count_to_merge=whole_number(properties, MANIFEST_MIN_COUNT, 100),
            merge=truth(properties, MANIFEST_MERGE, default=True),
            codec=Codec.named(properties.get(MANIFEST_CODEC, "gzip"), properties.get(MANIFEST_LEVEL), MANIFEST_CODEC),
        )
