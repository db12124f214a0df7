"""What commands that start no JVM do not import: what they do import is most of the time that they take.

Time itself is not asserted here: it says more about what else the machine does. ``docs/how-to/measure.md`` tells how
to measure it.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lakeshift.cli import startup
from lakeshift.iceberg.commit.change_set import append_change
from lakeshift.iceberg.commit.commit import commit
from tests.command import NO_JAVA
from tests.tables import EVENTS, data_file, events, local_catalog

# Runs a command as the script does, and tells which packages it has imported.
AND_TELL = """
import json, sys
from lakeshift.cli.app import main
try:
    main()
except SystemExit as end:
    code = end.code
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]), file=sys.stderr)
"""

# Spark and what comes with it; what draws on a terminal; what reads SQL; clients of object stores.
NOT_FOR_METADATA = {"pyspark", "py4j", "pandas", "rich", "sqlglot", "yaml", "s3fs", "fsspec", "boto3", "jinja2"}
COLUMNAR = {"pyarrow", "numpy", "datafusion"}
TABLES = {"pyiceberg", "sqlalchemy"}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("startup") / "lake"
    table = local_catalog(folder, "local").create_table("db.events", EVENTS)
    commit(table, append_change(table.metadata, [data_file(table, events(1, 3), 0)]))
    return str(folder)


@pytest.mark.parametrize(
    ("command", "not_imported"),
    [
        ("table list", NOT_FOR_METADATA | COLUMNAR | {"sqlalchemy"}),
        ("table show db.events", NOT_FOR_METADATA | {"datafusion", "numpy", "sqlalchemy"}),
        ("table evolve db.events --add bucket(4,id)", NOT_FOR_METADATA | {"datafusion", "numpy"}),
        ("rewrite plan db.events", NOT_FOR_METADATA | {"sqlalchemy"}),
        ("report db.events --json", NOT_FOR_METADATA | {"sqlalchemy"}),
    ],
)
def test_a_command_on_metadata_imports_only_what_it_needs(warehouse: str, command: str, not_imported: set[str]) -> None:
    assert imported_by(*command.split(), "--warehouse", warehouse) & not_imported == set()


@pytest.mark.parametrize(
    ("command", "not_imported"),
    [
        ("--help", NOT_FOR_METADATA | COLUMNAR | TABLES | {"pydantic"}),
        ("table append --help", NOT_FOR_METADATA | COLUMNAR | TABLES | {"pydantic"}),
        ("json-schema", NOT_FOR_METADATA | COLUMNAR | TABLES),
    ],
)
def test_help_and_schemas_open_no_table(command: str, not_imported: set[str]) -> None:
    assert imported_by(*command.split()) & not_imported == set()


def test_a_process_that_is_not_the_command_line_s_keeps_its_packages() -> None:
    finders = list(sys.meta_path)
    assert startup.computes_nothing(startup.starts_no_jvm(lambda: "done"))() == "done"
    assert sys.meta_path == finders
    startup.end_at_once(0)  # and is not ended


SWALLOWED = """
import os, signal, sys
from lakeshift.cli import app, main, startup
from lakeshift.errors import StackError

def swallow():
    if "--interrupt" in sys.argv:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            pass
    raise StackError("Spark did not start.")

app.app = lambda standalone_mode: swallow()
main()
"""


def test_an_interrupt_that_became_another_error_ends_as_an_interrupt() -> None:
    ends = [
        subprocess.run([sys.executable, "-c", SWALLOWED, option], capture_output=True, text=True, check=False)
        for option in ("--plain", "--interrupt")
    ]
    assert [(end.returncode, end.stderr) for end in ends] == [
        (1, "StackError: Spark did not start.\n"),
        (130, "Interrupted.\n"),
    ]


def imported_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", AND_TELL, *arguments],
        capture_output=True,
        text=True,
        env=NO_JAVA,
        timeout=60,
        check=False,
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done
    return set(modules)
