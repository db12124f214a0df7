"""Bad rows: counted, shown and kept, within bounds whatever they hold."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from lakeshift.errors import BadRowsError
from lakeshift.iceberg.bad_rows import BadRowReport, BadRows, FaultFinder, Quarantine, Reason, mark_names
from lakeshift.records import decode_records, encode_records

BATCH = pa.record_batch(
    {"id": pa.array([1, None, 3, 2**40]), "name": pa.array(["a", "b", "c\n\x1b[31m", "d" * 10_000])}
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def some_faults() -> BadRows:
    finder = FaultFinder(4)
    finder.add(pa.array([False, True, None, False]), Reason.REQUIRED, "id")
    finder.add_rows(pa.array([3, 1, 3]), Reason.OVERFLOW, "id")
    finder.add_rows(pa.array([2]), Reason.NOT_UTF8, "name")
    assert finder.good.to_pylist() == [True, False, False, False]
    return finder.bad_rows()


def test_each_row_counts_once() -> None:
    bad = some_faults()
    assert bad.rows.to_pylist() == [1, 2, 3]
    assert bad.reasons.to_pylist() == ["required value missing", "text is not UTF-8", "overflow"]
    assert bad.columns.to_pylist() == ["id", "name", "id"]
    assert bad.counts() == {
        ("required value missing", "id"): 1,
        ("overflow", "id"): 1,
        ("text is not UTF-8", "name"): 1,
    }


def test_no_faults_are_no_bad_rows() -> None:
    finder = FaultFinder(2)
    finder.add(pa.array([False, None]), Reason.REQUIRED, "id")
    finder.add_rows(pa.array([], pa.int64()), Reason.OVERFLOW, "id")
    assert finder.good is None
    assert len(finder.bad_rows()) == 0
    assert BadRowReport.of(finder.bad_rows(), BATCH.slice(0, 2)).rows == 0


def test_reports_travel_and_add_up() -> None:
    report = BadRowReport.of(some_faults(), BATCH)
    (back,) = decode_records(BadRowReport, encode_records(BadRowReport, [report]))
    assert back == report
    merged = BadRowReport.merged([report] * 1000)
    assert merged.rows == 3000
    assert {count.rows for count in merged.counts} == {1000}
    assert len(merged.samples) == 5
    assert {sample.reason for sample in merged.samples} == {"required value missing", "overflow", "text is not UTF-8"}


def test_the_error_says_what_where_and_what_to_do() -> None:
    error = BadRowReport.merged([BadRowReport.of(some_faults(), BATCH)] * 1000).error("db.people")
    assert isinstance(error, BadRowsError)
    text = str(error)
    assert text.startswith("3,000 rows cannot be written to db.people:\n- 1,000 in id: overflow\n")
    assert "- id, overflow: id=1099511627776, name='ddd" in text
    assert "- name, text is not UTF-8: name='c\\n\\x1b[31m', id=3" in text
    assert "id=null, name='b'" in text
    assert "Nothing was committed." in text
    assert "on_bad_rows='quarantine'" in text
    assert len(text) < 2000
    assert all(line.isprintable() for line in text.splitlines())


def test_values_that_python_cannot_hold_are_still_shown() -> None:
    batch = pa.record_batch(
        {
            "ts": pa.array([2**62], pa.int64()).cast(pa.timestamp("us")),
            "ns": pa.array([1], pa.int64()).cast(pa.timestamp("ns")),
            "day": pa.array([2**31 - 1], pa.int32()).cast(pa.date32()),
            "text": pa.array([b"\xff"], pa.binary()).view(pa.string()),
            "deep": [[{"a": "x" * 1000}] * 50],
        }
    )
    bad = BadRows(pa.array([0]), pa.array(["overflow"]), pa.array(["ts"]))
    (sample,) = bad.samples(batch)
    assert sample.row.startswith(f"ts=[ {2**62} ], ns=")
    assert "text='\\\\xff'" in sample.row
    assert f"day=[ {2**31 - 1} ]" in sample.row
    assert len(sample.row) < 400


def test_many_kinds_are_cut_short() -> None:
    bad = BadRows(pa.array(range(100)), pa.array(["overflow"] * 100), pa.array([f"c{n}" for n in range(100)]))
    batch = pa.record_batch({"a": pa.array(range(100))})
    text = str(BadRowReport.of(bad, batch).error("t"))
    assert "and 80 more kinds" in text
    assert text.count("\n") < 35


def test_the_quarantine_keeps_rows_as_they_came_with_the_reason() -> None:
    quarantine = Quarantine("op-1", NOON, 42)
    kept = quarantine.batch(BATCH, some_faults())
    assert kept.schema == quarantine.schema(BATCH.schema)
    stored = io.BytesIO()
    pq.write_table(pa.Table.from_batches([kept]), stored)
    back = pq.read_table(stored)
    assert back.select(["id", "name"]).to_pylist() == BATCH.slice(1).to_pylist()
    assert back.to_pylist()[0] | {"id": None, "name": "b"} == {
        "id": None,
        "name": "b",
        "_reason": "required value missing",
        "_column": "id",
        "_time": NOON,
        "_snapshot": 42,
        "_operation": "op-1",
    }
    assert Quarantine("op", NOON, None).batch(BATCH, some_faults())["_snapshot"].null_count == 3
    assert len(quarantine.batch(BATCH, BadRows.none())) == 0


def test_its_columns_never_collide_with_the_datas() -> None:
    assert mark_names(["id"]) == ["_reason", "_column", "_time", "_snapshot", "_operation"]
    assert mark_names(["_REASON", "__time"]) == ["___reason", "___column", "___time", "___snapshot", "___operation"]
    # Rows of a quarantine can be quarantined again.
    quarantine = Quarantine("op", NOON, 1)
    again = quarantine.schema(quarantine.schema(BATCH.schema))
    assert len(set(again.names)) == 12
