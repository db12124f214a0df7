"""The one module that knows PyIceberg's inside: its version range, and what a catalog's failure means."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    ServerError,
)
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.update import SetPropertiesUpdate
from sqlalchemy.exc import OperationalError

from lakeshift.errors import StackError
from lakeshift.iceberg.adapter import CatalogCall, Failure, check_version, copy_manifest, is_busy
from tests.tables import EVENTS, files_under, local_catalog, referenced_files


@pytest.mark.parametrize("installed", ["0.12.0", "0.12.3", "0.12.1rc1"])
def test_the_versions_we_know_are_accepted(installed: str) -> None:
    check_version(installed)


@pytest.mark.parametrize("installed", ["0.11.1", "0.13.0", "1.0", "unknown"])
def test_other_versions_are_refused_with_the_command_that_helps(installed: str) -> None:
    with pytest.raises(StackError, match=r"pip install 'pyiceberg>=0\.12,<0\.13'") as raised:
        check_version(installed)
    assert installed in str(raised.value)


def locked_database(tmp_path: Path) -> sqlite3.OperationalError:
    path = tmp_path / "locked.db"
    with sqlite3.connect(path) as first:
        first.execute("create table t (x)")
        first.commit()
        first.execute("begin exclusive")
        second = sqlite3.connect(path, timeout=0)
        try:
            second.execute("insert into t values (1)")
        except sqlite3.OperationalError as error:
            return error
        finally:
            second.close()
            first.rollback()
    first.close()
    raise AssertionError("the database was not locked")


def test_a_locked_sqlite_database_is_busy_and_nothing_else_is(tmp_path: Path) -> None:
    locked = locked_database(tmp_path)
    assert is_busy(locked)
    assert is_busy(OperationalError("update", {}, locked))
    assert not is_busy(sqlite3.OperationalError("no such table"))
    assert not is_busy(ValueError("database is locked"))


@pytest.mark.parametrize(
    ("error", "written", "meaning"),
    [
        (CommitFailedException("raced"), True, Failure.LOST_RACE),
        (NoSuchTableError("gone"), False, Failure.REFUSED),
        (BadRequestError("no"), False, Failure.REFUSED),
        (PermissionError("read only"), False, Failure.REFUSED),
        (CommitStateUnknownException("504"), False, Failure.UNKNOWN),
        (ServerError("500"), False, Failure.UNKNOWN),
        (TimeoutError("30 s"), False, Failure.UNKNOWN),
        (ConnectionResetError("reset"), True, Failure.UNKNOWN),
        (OperationalError("commit", {}, Exception("server closed the connection")), True, Failure.UNKNOWN),
        # The swap was never asked for, as the metadata file that comes before it was not written.
        (OperationalError("select", {}, Exception("server closed the connection")), False, Failure.LOST_RACE),
        (ValueError("sequence number"), False, Failure.REFUSED),
        (ValueError("cannot parse the answer"), True, Failure.UNKNOWN),
    ],
)
def test_what_a_failure_means(error: Exception, written: bool, meaning: Failure) -> None:
    call = CatalogCall(["file:///lake/metadata/00001.metadata.json"] if written else [], writes_metadata_itself=True)
    assert call.judge(error) is meaning


def test_a_remote_catalog_s_strange_answer_is_unknown() -> None:
    assert CatalogCall().judge(ValueError("cannot parse the answer")) is Failure.UNKNOWN


def test_copies_of_manifests_share_nothing() -> None:
    manifest = ManifestFile.from_args(manifest_path="m", sequence_number=-1, min_sequence_number=-1)
    copied = copy_manifest(manifest)
    copied.sequence_number = 7
    assert manifest.sequence_number == -1


def test_the_metadata_file_of_a_lost_race_is_known_and_the_catalog_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = local_catalog(tmp_path)
    stale = catalog.create_table("db.t", EVENTS)
    with catalog.load_table("db.t").transaction() as transaction:
        transaction.set_properties({"a": "1"})
    attributes = dict(vars(catalog))
    call = CatalogCall()
    # The catalog reads the table once more before it swaps; here it is overtaken after that.
    monkeypatch.setattr(SqlCatalog, "load_table", lambda *_: stale)
    with pytest.raises(CommitFailedException) as raised:
        call.run(stale, (), (SetPropertiesUpdate(updates={"b": "2"}),))
    monkeypatch.undo()
    assert call.judge(raised.value) is Failure.LOST_RACE
    assert len(call.metadata_files) == 1
    assert vars(catalog) == attributes
    left = files_under(stale.location()) - referenced_files(catalog.load_table("db.t"))
    assert left == {call.metadata_files[0].removeprefix("file://")}
