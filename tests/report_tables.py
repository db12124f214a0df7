"""Tables for the report's tests, made by hand: a lived-in one, a hostile one, one of very many partitions."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, MonthTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, TimestampType

from lakeshift.report.advice import Advisor
from lakeshift.report.facts import gather_facts
from lakeshift.report.write import Report
from tests.handmade import HandmadeTable

MB = 1_000_000
REGIONS = ("apac", "eu", "latam", "us")

EVENTS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "ts", TimestampType(), required=True),
    NestedField(3, "amount", IntegerType(), required=False),
    schema_id=0,
)
WITH_REGION = Schema(*EVENTS.fields, NestedField(4, "region", StringType(), required=False), schema_id=1)
WIDENED = Schema(
    *WITH_REGION.fields[:2],
    NestedField(3, "amount", LongType(), required=False),
    WITH_REGION.fields[3],
    NestedField(5, "discount", DoubleType(), required=False),
    schema_id=2,
)
BY_MONTH = PartitionSpec(PartitionField(2, 1000, MonthTransform(), "ts_month"), spec_id=0)
BY_DAY = PartitionSpec(PartitionField(2, 1001, DayTransform(), "ts_day"), spec_id=1)
BY_DAY_AND_REGION = PartitionSpec(
    PartitionField(2, 1001, DayTransform(), "ts_day"),
    PartitionField(4, 1002, IdentityTransform(), "region"),
    spec_id=2,
)

HOSTILE = "</script><script>window.hostile=1</script><img src=x onerror=window.hostile=1>"


def report_of(table: HandmadeTable, name: str = "db.events") -> Report:
    facts = gather_facts(name, table.metadata, table.io)
    return Report(facts, Advisor(facts, table.metadata, table.io).steps())


def day(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def commit_at(
    table: HandmadeTable,
    moment: datetime,
    *added: DataFile,
    removed: Iterable[DataFile] = (),
    operation: Operation = Operation.APPEND,
    properties: Mapping[str, str] | None = None,
) -> None:
    """Commit with the summary that an engine would write, as if at that moment."""
    gone = list(removed)
    table.commit(*added, removed=[file.file_path for file in gone], operation=operation)
    before = table.metadata.snapshots[-2].summary if len(table.metadata.snapshots) > 1 else None
    data = [file for file in added if file.content == DataFileContent.DATA]
    changes = {
        "data-files": (len(data), len(gone)),
        "records": (sum(f.record_count for f in data), sum(f.record_count for f in gone)),
        "delete-files": (len(added) - len(data), 0),
    }
    summary = dict(properties or {})
    for what, (more, less) in changes.items():
        total = int(before[f"total-{what}"] or 0) if before else 0
        summary |= {f"added-{what}": str(more), f"total-{what}": str(total + more - less)}
        summary |= {f"deleted-{what}": str(less)} if less else {}
    *others, last = table.metadata.snapshots
    told = last.model_copy(
        update={
            "timestamp_ms": int(moment.replace(tzinfo=UTC).timestamp() * 1000),
            "summary": Summary(operation=operation, **summary),
        }
    )
    table.metadata = table.metadata.model_copy(update={"snapshots": [*others, told]})


def lived_in(folder: Path) -> HandmadeTable:
    """Fourteen months of events under three specs and three schemas, with small files and all kinds of v2 deletes."""
    chance = random.Random(7)
    table = HandmadeTable(folder, EVENTS, BY_MONTH)
    properties = {
        "write.target-file-size-bytes": str(128 * 1024 * 1024),
        "write.delete.mode": "merge-on-read",
        "gcs.oauth2.token": "ya29.do-not-show-me",
    }
    table.metadata = table.metadata.model_copy(update={"properties": properties})

    def file(spec_id: int, *partition: object, size: float) -> DataFile:
        length = int(size * MB)
        return table.data_file(spec_id, *partition, file_size_in_bytes=length, record_count=max(1, length // 60))

    start = (2025 - 1970) * 12
    for month in range(5):
        files = [file(0, start + month, size=chance.uniform(96, 150)) for _ in range(chance.randint(5, 9))]
        if month == 4:
            files += [file(0, start + month, size=chance.uniform(4, 30)) for _ in range(60)]
        commit_at(table, datetime(2025, month + 2, 1, 3), *files, properties={"engine-name": "spark"})
    table.add_schema(WITH_REGION)
    table.add_spec(BY_DAY)
    first = day("2025-06-01")
    daily: list[DataFile] = []
    for week in range(26):
        files = []
        for number in range(week * 7, week * 7 + 7):
            many = chance.choice([1, 1, 2, 3, 5]) + (chance.randint(5, 24) if 60 <= number < 96 else 0)
            files += [file(1, first + number, size=chance.lognormvariate(2.6, 1.1)) for _ in range(many)]
        daily += files
        commit_at(table, datetime(2025, 6, 8, 3) + timedelta(weeks=week), *files, properties={"engine-name": "spark"})
    table.add_schema(WIDENED)
    table.add_spec(BY_DAY_AND_REGION)
    newest = day("2025-12-01")
    recent: list[DataFile] = []
    for week in range(13):
        files = []
        for number in range(week * 7, min(week * 7 + 7, 90)):
            for region in REGIONS:
                if region == "latam" and number < 30:
                    continue
                size = {"eu": 120.0, "us": 110.0, "apac": 60.0, "latam": 22.0}[region]
                pieces = chance.randint(6, 14) if region == "apac" and number > 70 else chance.choice([1, 1, 1, 2])
                files += [
                    file(2, newest + number, region, size=max(1, chance.gauss(size, 12)) / pieces)
                    for _ in range(pieces)
                ]
        recent += files
        commit_at(table, datetime(2025, 12, 8, 3) + timedelta(weeks=week), *files, properties={"engine-name": "spark"})
    old = [data for data in daily if 90 <= data.partition[0] - first < 96][:60]
    compacted = [file(1, first + number, size=chance.uniform(100, 140)) for number in range(90, 96)]
    commit_at(
        table,
        datetime(2026, 3, 2, 5),
        *compacted,
        removed=old,
        operation=Operation.REPLACE,
        properties={"engine-name": "lakeshift"},
    )
    live = [data for data in daily if data not in old]
    deletes = [
        table.position_deletes(
            [data.file_path],
            1,
            data.partition[0],
            record_count=max(1, int(data.record_count * chance.choice([0.02, 0.07, 0.4]))),
            file_size_in_bytes=40_000,
        )
        for data in chance.sample(live, 70)
    ]
    deletes += [
        table.position_deletes(
            [data.file_path],
            2,
            *data.partition._data,
            record_count=int(data.record_count * chance.uniform(0.001, 0.2)) + 1,
            file_size_in_bytes=25_000,
        )
        for data in chance.sample(recent, 60)
    ]
    deletes += [
        table.equality_deletes(2, newest + number, "eu", record_count=1200, file_size_in_bytes=18_000)
        for number in range(50, 62)
    ]
    deletes.append(table.position_deletes([f"{table.location}/data/gone.parquet"], 1, first, file_size_in_bytes=900))
    commit_at(
        table, datetime(2026, 3, 3, 9), *deletes, operation=Operation.DELETE, properties={"engine-name": "lakeshift"}
    )
    return table


def hostile(folder: Path) -> HandmadeTable:
    """A table in which everything that has a name tries to run a script."""
    column = f"region{HOSTILE}"
    schema = Schema(
        NestedField(1, "id", LongType(), doc=HOSTILE),
        NestedField(3, column, StringType(), doc="{{script}} \u2028 \u202e"),
    )
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), f"field{HOSTILE}"), spec_id=0)
    table = HandmadeTable(folder, schema, spec)
    properties = {f"name{HOSTILE}": HOSTILE, "comment": "'\"><svg onload=window.hostile=1>"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    values = [HOSTILE, "\u2028]]>\u2029<!--", "javascript:window.hostile=1", None, "null", "{{script}}"]
    commit_at(
        table,
        datetime(2026, 1, 1),
        *(table.data_file(0, text) for text in values for _ in range(6)),
        properties={f"key{HOSTILE}": HOSTILE, "spark.password": "hunter2"},
    )
    return table


def many_partitions(folder: Path, number: int = 100_000) -> HandmadeTable:
    """As many partitions, each of one file: days by buckets."""
    spec = PartitionSpec(
        PartitionField(2, 1001, DayTransform(), "ts_day"),
        PartitionField(1, 1002, BucketTransform(100), "id_bucket"),
        spec_id=0,
    )
    table = HandmadeTable(folder, EVENTS, spec, codec="null")
    # Writing them takes most of the time there is.
    no_metrics = dict.fromkeys(
        ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    )
    first = day("2023-01-01")
    chance = random.Random(3)
    table.commit(
        *(
            table.data_file(
                0,
                first + place // 100,
                place % 100,
                file_size_in_bytes=int(chance.lognormvariate(15, 2)),
                record_count=1 + place % 1000,
                split_offsets=None,
                **no_metrics,
            )
            for place in range(number)
        )
    )
    return table
