"""Opening lakes and tables, and what is said when the input is wrong. No Spark is started by any of these."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeshift
from lakeshift.errors import CommitConflictError, ConfigError


@pytest.fixture
def lake(tmp_path: Path) -> lakeshift.Lake:
    return lakeshift.connect(warehouse=tmp_path / "lake")


def test_opening_a_lake_that_is_not_there_creates_nothing(lake: lakeshift.Lake, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no lake at .*lake"):
        lake.iceberg_tables()
    assert not (tmp_path / "lake").exists()


def test_wrong_input_to_create_leaves_nothing_behind(lake: lakeshift.Lake, tmp_path: Path) -> None:
    for arguments in (("events", "id bigint"), ("db.events", "id"), ("db.events", "id bigint", ["nope"])):
        with pytest.raises(ConfigError):
            lake.create_iceberg_table(*arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "lake").exists()


def test_namespaces_are_created_as_needed_and_tables_listed(lake: lakeshift.Lake) -> None:
    lake.create_iceberg_table("a.one", "id bigint")
    lake.create_iceberg_table("b.c.two", "id bigint")
    assert lake.iceberg_tables() == ["a.one", "b.c.two"]
    assert lake.iceberg("b.c.two").name == "b.c.two"


def test_a_table_that_exists_is_not_created_again(lake: lakeshift.Lake) -> None:
    lake.create_iceberg_table("db.t", "id bigint")
    with pytest.raises(ConfigError, match=r"'db.t' exists already.*iceberg\('db.t'\)"):
        lake.create_iceberg_table("db.t", "id bigint")


def test_an_unknown_table_is_refused_with_those_there_are(lake: lakeshift.Lake) -> None:
    lake.create_iceberg_table("db.events", "id bigint")
    with pytest.raises(ConfigError, match="no table 'db.event' in catalog 'local'; tables there: db.events"):
        lake.iceberg("db.event")


@pytest.mark.parametrize(
    ("add", "drop", "message"),
    [
        ((), (), "Nothing to evolve"),
        (("nope",), (), "no column 'nope'"),
        ((), ("nope",), "no partition field 'nope' to drop; its default spec has: ts_day"),
        (("day(ts)",), (), "Cannot evolve"),
        (("bucket(0, id)",), (), "Cannot read the partition expression"),
    ],
)
def test_evolution_that_cannot_be_changes_nothing(
    lake: lakeshift.Lake, add: tuple[str, ...], drop: tuple[str, ...], message: str
) -> None:
    table = lake.create_iceberg_table("db.t", "id bigint, ts timestamp", ["day(ts)"])
    with pytest.raises(ConfigError, match=message):
        table.evolve_partitions(add, drop)
    assert [spec.spec_id for spec in table.refresh().layout()] == [0]


def test_a_lost_race_of_evolutions_says_so(lake: lakeshift.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_iceberg_table("db.t", "id bigint, ts timestamp, region string")
    other = lake.iceberg("db.t")
    loaded = table.table.refresh

    def refresh_then_lose() -> object:
        found = loaded()
        monkeypatch.undo()
        other.evolve_partitions(add=["region"])
        return found

    monkeypatch.setattr(table.table, "refresh", refresh_then_lose)
    with pytest.raises(CommitConflictError, match="Another writer changed db.t") as caught:
        table.evolve_partitions(add=["day(ts)"])
    assert caught.value.retryable
    assert [spec.fields for spec in table.refresh().layout()] == [(), ("region",)]


def test_a_lake_shows_no_credentials() -> None:
    lake = lakeshift.connect("x", properties={"type": "rest", "uri": "http://127.0.0.1:1", "token": "tell-nobody"})
    assert "tell-nobody" not in repr(lake)
