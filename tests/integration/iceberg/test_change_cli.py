"""``lakeshift table delete``, ``update`` and ``merge``, called in this process to share the tests' session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lakeshift.cli.app import app
from lakeshift.cli.options import settings

pytestmark = pytest.mark.once


@pytest.fixture
def call(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LAKESHIFT_WAREHOUSE", str(tmp_path / "lake"))

    def run(*arguments: str) -> Result:
        settings.json = settings.debug = False
        return CliRunner().invoke(app, ["table", *arguments])

    return run


def test_rows_are_changed_or_only_shown_what_would_be(call: Any, tmp_path: Path) -> None:
    call("create", "db.t", "--schema", "id bigint, city string", "-p", "city")
    (tmp_path / "a.json").write_text("".join(f'{{"id": {n}, "city": "{c}"}}\n' for n, c in enumerate("xxyyz")))
    assert call("append", "db.t", str(tmp_path / "a.json")).exit_code == 0

    shown = call("delete", "db.t", "--where", "city = 'x' OR id = 3", "--mode", "merge-on-read", "--dry-run", "--json")
    assert shown.exit_code == 0, shown.output
    preview = json.loads(shown.stdout)
    assert (preview["rows_deleted"], preview["dropped_files"], preview["changed_files"]) == (3, 1, 1)
    assert preview["changed_files_by_spec"] == {"0": 2}

    done = call("delete", "db.t", "--where", "city = 'x' OR id = 3", "--mode", "merge-on-read", "--json")
    result = json.loads(done.stdout)
    assert (result["rows_deleted"], result["removed_data_files"], result["added_delete_files"]) == (3, 1, 1)
    again = call("delete", "db.t", "--where", "city = 'x'")
    assert again.stdout == "No row of db.t matches; nothing was committed.\n"

    shown = call("update", "db.t", "--set", "city='moved'", "--dry-run")
    assert "2 rows would change or go, 2 would be written" in " ".join(shown.stdout.split())
    done = call("update", "db.t", "--set", "city='moved'", "--set", "id=id + 100", "--where", "id = 4", "--json")
    assert json.loads(done.stdout)["rows_deleted"] == 1

    (tmp_path / "changes.json").write_text('{"id": 104, "city": "m"}\n{"id": 7, "city": "new"}\n')
    arguments = ["--on", "target.id = source.id", "--matched", "update", "--not-matched", "insert", "--json"]
    shown = call("merge", "db.t", str(tmp_path / "changes.json"), *arguments, "--dry-run")
    preview = json.loads(shown.stdout)
    assert (preview["rows_deleted"], preview["rows_inserted"]) == (1, 2)
    done = call("merge", "db.t", str(tmp_path / "changes.json"), *arguments)
    assert done.exit_code == 0, done.output
    described = json.loads(call("show", "db.t", "--json").stdout)
    assert [snapshot["operation"] for snapshot in described["snapshots"]] == [
        "append",
        "delete",
        "overwrite",
        "overwrite",
    ]
    assert call("merge", "db.t", "x.json", "--on", "true").exit_code == 2
    assert call("update", "db.t", "--set", "nonsense").exit_code == 2
