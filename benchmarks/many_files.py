"""Tables with very many files, for benchmarks of planning and committing: real manifests, no data.

One entry is written by PyIceberg and then repeated with other paths, partitions and bounds, in blocks of
the size that Java writes, so that a million files take seconds to make.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from lakeshift.iceberg.avro_files import AvroHeader, read_header

FILES_PER_MANIFEST = 20_000
ROWS_PER_FILE = 1_000
FILE_SIZE = 1_000_000
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "region", StringType()),
    *(NestedField(3 + index, f"measure_{index}", LongType()) for index in range(8)),
)
_BLOCK_BYTES = 64_000
_NUMBER, _LOWER, _UPPER = b"##########", b"lowbound", b"uppbound"
_REGION = "@@@"


def create_table_of_many_files(catalog: Catalog, name: str, files: int) -> Table:
    """Create a table whose one snapshot has this many files, half of them in each of two specs."""
    table = catalog.create_table(
        name, SCHEMA, partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    )
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(32), "id_bucket")
        update.remove_field("region")
    snapshot_id = 1
    folder = Path(table.location().removeprefix("file://"), "metadata")
    folder.mkdir(parents=True, exist_ok=True)
    jobs = []
    for spec_id, first in ((0, 0), (1, files // 2)):
        template = _template(table, spec_id, snapshot_id)
        end = files // 2 if spec_id == 0 else files
        for start in range(first, end, FILES_PER_MANIFEST):
            count = min(FILES_PER_MANIFEST, end - start)
            jobs.append(_Job(template, str(folder / f"many-{start}.avro"), spec_id, start, count))
    with ProcessPoolExecutor() as pool:
        lengths = list(pool.map(_write, jobs))
    manifests = [_manifest_file(job, length, snapshot_id) for job, length in zip(jobs, lengths, strict=True)]
    return _commit(table, manifests, snapshot_id)


@dataclass(frozen=True)
class _Template:
    header: AvroHeader
    pieces: tuple[bytes, ...]


@dataclass(frozen=True)
class _Job:
    template: _Template
    path: str
    spec_id: int
    start: int
    count: int


def _template(table: Table, spec_id: int, snapshot_id: int) -> _Template:
    """An entry, cut at the places where files differ: path, partition, lower and upper bound."""
    header, entry = _encoded_entry(table, spec_id, snapshot_id, 0)
    if spec_id == 0:
        cut = entry.index(_REGION.encode())
        width = len(_REGION)
    else:  # a bucket is a single byte, found by writing another one
        other = _encoded_entry(table, spec_id, snapshot_id, 1)[1]
        (cut,) = (index for index, pair in enumerate(zip(entry, other, strict=True)) if pair[0] != pair[1])
        width = 1
    places = sorted([(entry.index(_NUMBER), 10), (cut, width), (entry.index(_LOWER), 8), (entry.index(_UPPER), 8)])
    pieces, last = [], 0
    for place, length in places:
        pieces.append(entry[last:place])
        last = place + length
    return _Template(header, (*pieces, entry[last:]))


def _encoded_entry(table: Table, spec_id: int, snapshot_id: int, bucket: int) -> tuple[AvroHeader, bytes]:
    spec = table.specs()[spec_id]
    location = f"{table.location()}/metadata/template.avro"
    ids = [field.field_id for field in SCHEMA.fields]
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.location()}/data/{_NUMBER.decode()}-7c5f3a52-9d0e-4a52-8c4e-6f2b1f0e9d11.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(_REGION) if spec_id == 0 else Record(bucket),
        record_count=ROWS_PER_FILE,
        file_size_in_bytes=FILE_SIZE,
        column_sizes={number: 8_000 + number for number in ids},
        value_counts=dict.fromkeys(ids, ROWS_PER_FILE),
        null_value_counts=dict.fromkeys(ids, 0),
        nan_value_counts={},
        lower_bounds={number: _LOWER if number == 1 else bytes([number] * 8) for number in ids},
        upper_bounds={number: _UPPER if number == 1 else bytes([number] * 8) for number in ids},
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=0,
    )
    with write_manifest(2, spec, SCHEMA, PyArrowFileIO().new_output(location), snapshot_id, "null") as writer:
        writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file))
    path = Path(location.removeprefix("file://"))
    stream = BytesIO(path.read_bytes())
    path.unlink()
    header = read_header(stream, location)
    block = stream.read()
    # One block: the count of entries (one byte for 1), its size in bytes, the entry, the sync marker.
    size = 2 + next(index for index, byte in enumerate(block[1:]) if not byte & 0x80)
    return AvroHeader({**header.metadata, "avro.codec": b"deflate"}, header.sync), block[size:-16]


def _write(job: _Job) -> int:
    content = [job.template.header.encode()]
    block: list[bytes] = []
    size = 0
    for entry in _entries(job):
        block.append(entry)
        size += len(entry)
        if size >= _BLOCK_BYTES:
            content.append(_block(block, job.template.header.sync))
            block, size = [], 0
    if block:
        content.append(_block(block, job.template.header.sync))
    return Path(job.path).write_bytes(b"".join(content))


def _entries(job: _Job) -> Iterator[bytes]:
    first, second, third, fourth, last = job.template.pieces
    for number in range(job.start, job.start + job.count):
        partition = b"%03d" % (number % 40) if job.spec_id == 0 else bytes([number % 32 * 2])
        yield b"".join(
            (
                first,
                b"%010d" % number,
                second,
                partition,
                third,
                number.to_bytes(8, "little"),
                fourth,
                (number + 1_000).to_bytes(8, "little"),
                last,
            )
        )


def _block(entries: list[bytes], sync: bytes) -> bytes:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = compressor.compress(b"".join(entries)) + compressor.flush()
    return _long(len(entries)) + _long(len(packed)) + packed + sync


def _long(value: int) -> bytes:
    encoded = bytearray()
    value <<= 1
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _manifest_file(job: _Job, length: int, snapshot_id: int) -> ManifestFile:
    return ManifestFile.from_args(
        manifest_path=f"file://{job.path}",
        manifest_length=length,
        partition_spec_id=job.spec_id,
        content=ManifestContent.DATA,
        sequence_number=-1,
        min_sequence_number=-1,
        added_snapshot_id=snapshot_id,
        added_files_count=job.count,
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=job.count * ROWS_PER_FILE,
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=None,
        key_metadata=None,
    )


def _commit(table: Table, manifests: list[ManifestFile], snapshot_id: int) -> Table:
    location = f"{table.location()}/metadata/snap-{snapshot_id}.avro"
    with write_manifest_list(2, table.io.new_output(location), snapshot_id, None, 1, "deflate") as writer:
        writer.add_manifests(manifests)
    files = sum(manifest.added_files_count or 0 for manifest in manifests)
    totals = {
        "total-data-files": str(files),
        "total-delete-files": "0",
        "total-records": str(files * ROWS_PER_FILE),
        "total-files-size": str(files * FILE_SIZE),
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        sequence_number=1,
        manifest_list=location,
        summary=Summary(operation=Operation.APPEND, **totals),
        schema_id=0,
    )
    updates = (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot_id),
    )
    table.catalog.commit_table(table, (), updates)
    return table.refresh()
