"""The read kernel over real Parquet files: schemas evolve, deletes apply, nothing of Spark."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysTrue, EqualTo, GreaterThan, IsNull, NotNull, Or
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, create_mapping_from_schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from lakeshift.errors import ConfigError, UnsupportedTableError
from lakeshift.iceberg.arrow_schema import arrow_schema
from lakeshift.iceberg.kernels.applied_deletes import DeleteFile
from lakeshift.iceberg.kernels.read import Chosen, FileReader, FileToRead, ReadContext, check_readable, read_file

IO = PyArrowFileIO()
UNPARTITIONED = PartitionSpec()
POSITIONS, EQUALITIES = 1, 2


def _schema(*fields: tuple[int, str, IcebergType], schema_id: int = 0) -> Schema:
    return Schema(*(NestedField(*field, required=False) for field in fields), schema_id=schema_id)


def _context(schema: Schema, *older: Schema, columns: Sequence[str] | None = None, **rest: Any) -> ReadContext:
    chosen = tuple(field.name for field in schema.fields) if columns is None else tuple(columns)
    rest = {"specs": {0: UNPARTITIONED}, **rest}
    # Everything that a kernel gets goes over the wire.
    return pickle.loads(pickle.dumps(ReadContext(schema, chosen, (schema, *older), **rest)))


def _write(
    folder: Path, rows: list[dict[str, Any]], schema: Schema | pa.Schema, name: str = "data", **options: Any
) -> str:
    path = folder / f"{name}.parquet"
    arrow = arrow_schema(schema) if isinstance(schema, Schema) else schema
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow), path, **options)
    return f"file:{path}"


def _file(path: str, *deletes: DeleteFile, partition: Sequence[Any] = (), spec_id: int = 0, **rest: Any) -> FileToRead:
    return FileToRead(path, "PARQUET", 0, spec_id, tuple(partition), 0, deletes, **rest)


def _position_deletes(folder: Path, pairs: list[tuple[str, int]], name: str = "positions") -> DeleteFile:
    schema = Schema(NestedField(2147483546, "file_path", StringType()), NestedField(2147483545, "pos", LongType()))
    rows = [{"file_path": path, "pos": position} for path, position in pairs]
    return DeleteFile(_write(folder, rows, schema, name), "PARQUET", POSITIONS, 0)


def _equality_deletes(
    folder: Path, rows: list[dict[str, Any]], schema: Schema, ids: Sequence[int], name: str = "keys"
) -> DeleteFile:
    return DeleteFile(_write(folder, rows, schema, name), "PARQUET", EQUALITIES, 0, tuple(ids))


def _rows(file: FileToRead, context: ReadContext) -> list[dict[str, Any]]:
    batches = list(read_file(pickle.loads(pickle.dumps(file)), context, IO))
    assert all(batch.num_rows for batch in batches)
    assert all(batch.schema.equals(context.arrow) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]


SIMPLE = _schema((1, "id", LongType()), (2, "name", StringType()))
SIMPLE_ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 3, "name": "c"}, {"id": None, "name": "d"}]


def test_columns_are_found_by_id_through_renames_reorders_drops_and_additions(tmp_path: Path) -> None:
    path = _write(tmp_path, [{"id": 1, "name": "a"}], SIMPLE)
    today = Schema(
        NestedField(2, "id", StringType(), required=False),  # once called name
        NestedField(1, "number", LongType(), required=False),
        NestedField(3, "added", IntegerType(), required=False),
        NestedField(4, "default", StringType(), required=True, initial_default="x"),
    )
    assert _rows(_file(path), _context(today)) == [{"id": "a", "number": 1, "added": None, "default": "x"}]
    assert _rows(_file(path), _context(today, columns=["added", "id"])) == [{"added": None, "id": "a"}]


def test_types_that_were_widened_are_cast(tmp_path: Path) -> None:
    before = _schema((1, "i", IntegerType()), (2, "f", FloatType()), (3, "d", DecimalType(5, 2)))
    after = _schema((1, "i", LongType()), (2, "f", DoubleType()), (3, "d", DecimalType(20, 2)))
    rows = [{"i": -5, "f": 0.5, "d": Decimal("1.25")}, {"i": None, "f": None, "d": None}]
    assert _rows(_file(_write(tmp_path, rows, before)), _context(after)) == rows


def test_a_type_that_cannot_be_read_as_the_table_s_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path, [{"id": 1, "name": "a"}], SIMPLE)
    with pytest.raises(UnsupportedTableError, match=r"data.parquet: column 'id' is of type int64 .* read as int"):
        _rows(_file(path), _context(_schema((1, "id", IntegerType()))))


def test_a_required_column_that_a_file_lacks_is_an_error(tmp_path: Path) -> None:
    path = _write(tmp_path, [{"id": 1, "name": "a"}], SIMPLE)
    with pytest.raises(UnsupportedTableError, match=r"the required field 'r' \(id 9\) is not in the file"):
        _rows(_file(path), _context(Schema(NestedField(9, "r", LongType(), required=True))))


def _list(element_id: int, element: IcebergType) -> ListType:
    return ListType(element_id, element, element_required=False)


def _map(key_id: int, value_id: int, value: IcebergType) -> MapType:
    return MapType(key_id, StringType(), value_id, value, value_required=False)


def _struct(*fields: tuple[int, str, IcebergType]) -> StructType:
    return StructType(*(NestedField(*field, required=False) for field in fields))


NESTED_BEFORE = _schema(
    (1, "st", _struct((2, "a", IntegerType()), (3, "b", StringType()))),
    (4, "li", _list(5, _struct((6, "x", IntegerType()), (7, "y", StringType())))),
    (8, "ma", _map(9, 10, _struct((11, "v", FloatType())))),
    (12, "ln", _list(13, _list(14, IntegerType()))),
)
NESTED_AFTER = _schema(
    (1, "renamed", _struct((20, "new", StringType()), (3, "bb", StringType()), (2, "a", LongType()))),
    (4, "li", _list(5, _struct((7, "yy", StringType()), (21, "z", IntegerType())))),
    (8, "ma", _map(9, 10, _struct((11, "w", DoubleType())))),
    (12, "ln", _list(13, _list(14, LongType()))),
)
NESTED_ROWS = [
    {"st": {"a": 1, "b": "p"}, "li": [{"x": 1, "y": "q"}, None], "ma": {"k": {"v": 0.5}}, "ln": [[1, 2], None, []]},
    {"st": None, "li": None, "ma": None, "ln": None},
    {"st": {"a": None, "b": None}, "li": [], "ma": {"k": None, "l": {"v": None}}, "ln": [[None]]},
]
NESTED_EXPECTED = [
    {
        "renamed": {"new": None, "bb": "p", "a": 1},
        "li": [{"yy": "q", "z": None}, None],
        "ma": {"k": {"w": 0.5}},
        "ln": [[1, 2], None, []],
    },
    {"renamed": None, "li": None, "ma": None, "ln": None},
    {
        "renamed": {"new": None, "bb": None, "a": None},
        "li": [],
        "ma": {"k": None, "l": {"w": None}},
        "ln": [[None]],
    },
]


def test_nested_fields_evolve_as_columns_do(tmp_path: Path) -> None:
    path = _write(tmp_path, NESTED_ROWS, NESTED_BEFORE)
    assert _rows(_file(path), _context(NESTED_AFTER)) == NESTED_EXPECTED
    # In small batches, arrays are slices of larger ones.
    assert _rows(_file(path), _context(NESTED_AFTER, batch_rows=1)) == NESTED_EXPECTED


def test_files_without_ids_are_read_by_the_name_mapping(tmp_path: Path) -> None:
    plain = pa.schema(
        [
            ("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
            ("li", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))),
            ("ma", pa.map_(pa.string(), pa.struct([("v", pa.float32())]))),
            ("ln", pa.large_list(pa.list_(pa.int32()))),
            ("unmapped", pa.large_string()),
        ]
    )
    path = _write(tmp_path, [{**row, "unmapped": "x"} for row in NESTED_ROWS], plain)
    mapping = create_mapping_from_schema(NESTED_BEFORE)
    assert _rows(_file(path), _context(NESTED_AFTER, name_mapping=mapping)) == NESTED_EXPECTED
    with pytest.raises(UnsupportedTableError, match="schema.name-mapping.default"):
        _rows(_file(path), _context(NESTED_AFTER))


def test_old_spellings_of_types_are_understood(tmp_path: Path) -> None:
    schema = _schema((1, "s", StringType()), (2, "ts", TimestampType()), (3, "u", UUIDType()), (4, "fx", FixedType(2)))
    plain = pa.schema(
        [
            pa.field("s", pa.dictionary(pa.int32(), pa.string())),
            pa.field("ts", pa.timestamp("ns")),
            pa.field("u", pa.binary(16)),
            pa.field("fx", pa.binary(2)),
        ]
    )
    moment, key = dt.datetime(2500, 1, 1, 12), UUID(int=7)
    rows = [{"s": "a", "ts": dt.datetime(2026, 1, 1), "u": key.bytes, "fx": b"ab"}]
    mapping = NameMapping([*create_mapping_from_schema(schema).root])
    path = _write(tmp_path, rows, plain, use_deprecated_int96_timestamps=True)
    assert _rows(_file(path), _context(schema, name_mapping=mapping)) == rows
    # Written as Parquet's own UUID, it comes back as the same bytes.
    typed = pa.table([pa.array([key.bytes], pa.binary(16))], schema=arrow_schema(schema.select("u")))
    pq.write_table(typed.cast(arrow_schema(schema.select("u"), in_file=True)), tmp_path / "typed.parquet")
    assert _rows(_file(f"file:{tmp_path}/typed.parquet"), _context(schema.select("u"))) == [{"u": key.bytes}]
    far = pa.table({"ts": pa.array([moment], pa.timestamp("us"))})
    pq.write_table(far, tmp_path / "far.parquet", use_deprecated_int96_timestamps=True)
    only = _context(schema, name_mapping=mapping, columns=["ts"])
    assert _rows(_file(f"file:{tmp_path}/far.parquet"), only) == [{"ts": moment}]


def test_identity_partition_values_fill_what_files_lack(tmp_path: Path) -> None:
    schema = _schema(
        (1, "id", LongType()), (2, "region", StringType()), (3, "ts", TimestampType()), (4, "n", LongType())
    )
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "region"),
        PartitionField(3, 1001, DayTransform(), "ts_day"),
        PartitionField(4, 1002, IdentityTransform(), "n"),
        spec_id=3,
    )
    path = _write(tmp_path, [{"id": 1}], _schema((1, "id", LongType())))
    file = _file(path, partition=("eu", dt.date(2026, 1, 1), 7), spec_id=3)
    context = _context(schema, specs={3: spec})
    assert _rows(file, context) == [{"id": 1, "region": "eu", "ts": None, "n": 7}]
    # Nothing but constants is wanted: rows are still counted, and deletes still apply.
    deleting = _file(path, _position_deletes(tmp_path, [(path, 0)]), partition=file.partition, spec_id=3)
    assert _rows(file, _context(schema, specs={3: spec}, columns=["region"])) == [{"region": "eu"}]
    assert _rows(deleting, _context(schema, specs={3: spec}, columns=["region"])) == []
    # Metadata says more than a column that was merely found by its name.
    imported = _write(
        tmp_path, [{"id": 1, "region": "wrong"}], pa.schema([("id", pa.int64()), ("region", pa.string())]), "hive"
    )
    mapped = _context(schema, specs={3: spec}, name_mapping=create_mapping_from_schema(schema))
    assert _rows(_file(imported, partition=file.partition, spec_id=3), mapped)[0]["region"] == "eu"


def test_position_deletes_apply_by_path_however_it_is_spelled(tmp_path: Path) -> None:
    path = _write(tmp_path, SIMPLE_ROWS, SIMPLE)
    other = f"file:{tmp_path}/other.parquet"
    first = _position_deletes(tmp_path, [(other, 0), (path, 0), (path, 2)], "first")
    second = _position_deletes(tmp_path, [(path.replace("file:", "file://"), 2), (path, 3)], "second")
    assert [row["id"] for row in _rows(_file(path, first), _context(SIMPLE))] == [2, None]
    assert _rows(_file(path, first, second), _context(SIMPLE, columns=["id"])) == [{"id": 2}]
    both = _context(SIMPLE, columns=["id"], metadata_columns=("_file", "_pos", "_spec_id"), batch_rows=1)
    assert _rows(_file(path, second), both) == [
        {"id": 1, "_file": path, "_pos": 0, "_spec_id": 0},
        {"id": 2, "_file": path, "_pos": 1, "_spec_id": 0},
    ]


def test_equality_deletes_take_null_for_equal_to_null(tmp_path: Path) -> None:
    path = _write(tmp_path, SIMPLE_ROWS, SIMPLE)
    by_name = _equality_deletes(tmp_path, [{"name": None}, {"name": "c"}], SIMPLE.select("name"), [2], "by_name")
    by_both = _equality_deletes(
        tmp_path, [{"id": None, "name": "d"}, {"id": 1, "name": None}], SIMPLE, [2, 1], "by_both"
    )
    assert [row["id"] for row in _rows(_file(path, by_name), _context(SIMPLE))] == [1, None]
    assert _rows(_file(path, by_name, by_both), _context(SIMPLE)) == [SIMPLE_ROWS[0]]
    # The compared columns need not be read by anybody else.
    assert _rows(_file(path, by_name), _context(SIMPLE, columns=["id"])) == [{"id": 1}, {"id": None}]


def test_equality_deletes_compare_columns_that_were_dropped_or_widened_or_came_later(tmp_path: Path) -> None:
    before = _schema(
        (1, "id", IntegerType()), (2, "gone", StringType()), (3, "st", StructType(NestedField(4, "a", IntegerType())))
    )
    today = _schema(
        (1, "id", LongType()),
        (3, "st", StructType(NestedField(4, "a", LongType()), NestedField(6, "b", LongType()))),
        (5, "later", StringType()),
        schema_id=1,
    )
    rows = [{"id": n, "gone": "xyz"[n], "st": {"a": n} if n else None} for n in range(3)]
    path = _write(tmp_path, rows, before)
    context = _context(today, before, columns=["id"])

    def left(delete: DeleteFile) -> list[int]:
        return [row["id"] for row in _rows(_file(path, delete), context)]

    assert left(_equality_deletes(tmp_path, [{"gone": "y"}], before.select("gone"), [2], "a")) == [0, 2]
    assert left(_equality_deletes(tmp_path, [{"id": 2}], today.select("id"), [1], "b")) == [0, 1]
    assert left(_equality_deletes(tmp_path, [{"id": 2}], before.select("id"), [1], "c")) == [0, 1]
    assert left(_equality_deletes(tmp_path, [{"later": None}], today.select("later"), [5], "d")) == []
    assert left(_equality_deletes(tmp_path, [{"later": "x"}], today.select("later"), [5], "e")) == [0, 1, 2]
    nested = _schema((3, "st", StructType(NestedField(4, "a", LongType()))))
    assert left(_equality_deletes(tmp_path, [{"st": {"a": 1}}, {"st": None}], nested, [4], "f")) == [2]
    with pytest.raises(UnsupportedTableError, match="column of id 99"):
        left(_equality_deletes(tmp_path, [{"id": 1}], before.select("id"), [99], "g"))


def test_equality_deletes_compare_floats_as_iceberg_does(tmp_path: Path) -> None:
    schema = _schema((1, "x", DoubleType()), (2, "u", UUIDType()))
    nan = float("nan")
    rows = [{"x": x, "u": UUID(int=n).bytes} for n, x in enumerate([nan, 0.0, -0.0, 1.0])]
    path = _write(tmp_path, rows, schema)
    delete = _equality_deletes(tmp_path, [{"x": nan}, {"x": -0.0}], schema.select("x"), [1], "x")
    found = [row["x"] for row in _rows(_file(path, delete), _context(schema))]
    assert [(x, np.signbit(x)) for x in found] == [(0.0, False), (1.0, False)]
    by_key = _equality_deletes(tmp_path, [{"u": UUID(int=3).bytes}], schema.select("u"), [2], "u")
    assert [row["u"] for row in _rows(_file(path, by_key), _context(schema))] == [UUID(int=n).bytes for n in range(3)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (IntegerType(), [-5, 0, None, 7]),
        (DateType(), [dt.date(1969, 1, 1), dt.date(1970, 1, 1), None, dt.date(2026, 1, 1)]),
        (TimestamptzType(), [dt.datetime(1969, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None]),
        (StringType(), ["", "a", None, "b"]),
        (DecimalType(5, 2), [Decimal("0.00"), Decimal("-1.50"), None]),
        (BinaryType(), [b"", b"a", None]),
    ],
)
def test_equality_deletes_of_any_type_find_their_keys(tmp_path: Path, kind: IcebergType, values: list[Any]) -> None:
    schema = _schema((1, "k", kind))
    path = _write(tmp_path, [{"k": value} for value in values], schema)
    for index, value in enumerate(values):
        delete = _equality_deletes(tmp_path, [{"k": value}], schema, [1], f"keys{index}")
        left = [row["k"] for row in _rows(_file(path, delete), _context(schema))]
        assert left == values[:index] + values[index + 1 :]
    nothing = _equality_deletes(tmp_path, [], schema, [1], "nothing")
    assert len(_rows(_file(path, nothing), _context(schema))) == len(values)


def test_exact_filters_leave_out_rows_and_others_only_row_groups(tmp_path: Path) -> None:
    rows = [{"id": n, "name": "ab"[n % 2] if n % 5 else None} for n in range(100)]
    path = _write(tmp_path, rows, SIMPLE, row_group_size=10)
    where = GreaterThan("id", 84)
    coarse = _context(SIMPLE, columns=["name"], where=where, metadata_columns=("_pos",))
    assert [row["_pos"] for row in _rows(_file(path), coarse)] == list(range(80, 100))
    exact = _context(SIMPLE, columns=["name"], where=where, exact=True, metadata_columns=("_pos",))
    assert [row["_pos"] for row in _rows(_file(path), exact)] == list(range(85, 100))
    deleted = _position_deletes(tmp_path, [(path, n) for n in (0, 81, 90, 99)])
    assert [row["_pos"] for row in _rows(_file(path, deleted), exact)] == [*range(85, 90), *range(91, 99)]
    apart = _context(SIMPLE, columns=["id"], where=Or(EqualTo("id", 5), EqualTo("id", 77)), metadata_columns=("_pos",))
    assert [row["_pos"] for row in _rows(_file(path), apart)] == [*range(10), *range(70, 80)]
    nulls = _context(SIMPLE, columns=["id"], where=IsNull("name"), exact=True)
    assert [row["id"] for row in _rows(_file(path), nulls)] == list(range(0, 100, 5))
    assert _rows(_file(path), _context(SIMPLE, where=EqualTo("id", 1000))) == []
    assert len(_rows(_file(path), _context(SIMPLE, where=AlwaysTrue(), exact=True))) == 100


def test_text_of_few_values_is_the_same_text_when_few_rows_are_read(tmp_path: Path, opened: list[Any]) -> None:
    schema = _schema(
        (1, "id", LongType()), (2, "few", StringType()), (3, "many", StringType()), (4, "bytes", BinaryType())
    )
    rows = [
        {
            "id": n,
            "few": f"value {n // 100}" if n % 7 else None,
            "many": f"text number {n}",
            "bytes": b"x" * (n % 3),
        }
        for n in range(1000)
    ]
    path = _write(tmp_path, rows, schema, row_group_size=250)
    where = EqualTo("few", "value 6")
    exact = _context(schema, where=where, exact=True)
    deleted = _position_deletes(tmp_path, [(path, n) for n in (3, 601, 602)])
    expected = [row for row in rows if row["few"] == "value 6" and row["id"] not in (601, 602)]
    assert _rows(_file(path, deleted), exact) == expected
    # Only the groups are read that can match, by the bounds of a column that was read as a dictionary.
    assert [row_groups for row_groups, _ in opened] == [[2]]
    assert opened.pop()[1] == {"few", "bytes"}

    wanted = np.array([3, 5, 249, 250, 999])
    reader = FileReader(_context(schema), IO)
    some = [row for batch in reader.read(_file(path, deleted), Chosen(only=wanted)) for row in batch.to_pylist()]
    assert some == [rows[n] for n in (5, 249, 250, 999)]
    assert [row_groups for row_groups, _ in opened] == [[0, 1], [3]]
    others = [row for batch in reader.read(_file(path, deleted), Chosen(gone=wanted)) for row in batch.to_pylist()]
    assert others == [row for row in rows if row["id"] not in (3, 5, 249, 250, 999, 601, 602)]
    # Where most rows stay, text is read as text at once.
    assert opened[-1] == ([0, 1, 2, 3], set())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The row groups that were read, and the columns that were read as dictionaries, of every run."""
    found: list[Any] = []
    original = pq.ParquetFile.iter_batches

    def recorded(file: pq.ParquetFile, *arguments: Any, **options: Any) -> Any:
        as_dictionary = {field.name for field in file.schema_arrow if pa.types.is_dictionary(field.type)}
        if "many" in file.schema_arrow.names:
            found.append((options["row_groups"], as_dictionary))
        return original(file, *arguments, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", recorded)
    return found


def test_filters_see_columns_as_the_table_has_them(tmp_path: Path) -> None:
    path = _write(tmp_path, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], SIMPLE)
    today = _schema((1, "key", LongType()), (7, "added", StringType()))
    assert _rows(_file(path), _context(today, columns=["added"], where=EqualTo("key", 2), exact=True)) == [
        {"added": None}
    ]
    assert _rows(_file(path), _context(today, columns=["key"], where=NotNull("added"), exact=True)) == []


def test_a_stretch_has_the_row_groups_that_begin_in_it(tmp_path: Path) -> None:
    path = _write(tmp_path, [{"id": n, "name": None} for n in range(100)], SIMPLE, row_group_size=25)
    footer = pq.read_metadata(path.removeprefix("file:"))
    begins = [footer.row_group(n).column(0).dictionary_page_offset for n in range(4)]
    context = _context(SIMPLE, columns=["id"], metadata_columns=("_pos",))
    cuts = [0, begins[1], begins[3], 10**9]
    parts = [_rows(_file(path, stretch=pair), context) for pair in pairwise(cuts)]
    assert [len(part) for part in parts] == [25, 50, 25]
    assert [row["id"] for part in parts for row in part] == list(range(100))
    assert all(row["id"] == row["_pos"] for part in parts for row in part)


def test_a_reader_opens_a_delete_file_once_for_all_data_files(tmp_path: Path) -> None:
    paths = [_write(tmp_path, SIMPLE_ROWS, SIMPLE, f"data{n}") for n in range(3)]
    shared = _position_deletes(tmp_path, [(path, 0) for path in paths])
    keys = _equality_deletes(tmp_path, [{"id": 3}], SIMPLE.select("id"), [1])
    reader = FileReader(_context(SIMPLE, columns=["id"]), IO)
    found = [
        pa.Table.from_batches(reader.read(_file(path, shared, keys))).column("id").to_pylist() for path in paths[:1]
    ]
    for delete in (shared, keys):
        Path(delete.path.removeprefix("file:")).unlink()
    found += [
        pa.Table.from_batches(reader.read(_file(path, shared, keys))).column("id").to_pylist() for path in paths[1:]
    ]
    assert found == [[2, None]] * 3


def test_columns_that_are_as_wanted_are_not_copied(tmp_path: Path) -> None:
    path = _write(
        tmp_path, [{"id": n} for n in range(1000)], SIMPLE.select("id"), compression="none", use_dictionary=False
    )
    context = _context(SIMPLE.select("id"))
    before = pa.total_allocated_bytes()
    batches = list(read_file(_file(path), context, IO))
    assert sum(batch.num_rows for batch in batches) == 1000
    assert pa.total_allocated_bytes() - before < 3 * 8 * 1000


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (FileToRead("x.orc", "ORC", 0, 0, (), 0), "x.orc is a data file in ORC; lakeshift reads PARQUET"),
        (_file("x", DeleteFile("d.orc", "ORC", EQUALITIES, 0, (1,))), "d.orc holds equality deletes as ORC"),
    ],
)
def test_formats_that_cannot_be_read_are_named_beforehand(file: FileToRead, said: str) -> None:
    with pytest.raises(UnsupportedTableError, match=said):
        check_readable([file])
    check_readable([_file("x", DeleteFile("d.orc", "orc", POSITIONS, 0))])


def test_an_unknown_metadata_column_is_an_error(tmp_path: Path) -> None:
    path = _write(tmp_path, SIMPLE_ROWS, SIMPLE)
    with pytest.raises(ConfigError, match="no metadata column '_nobody'; there are _file, _pos, _spec_id"):
        list(
            read_file(
                _file(path),
                ReadContext(SIMPLE, ("id",), (SIMPLE,), {0: UNPARTITIONED}, metadata_columns=("_nobody",)),
                IO,
            )
        )
