"""Tables with a history of specs, and a plain model of their rows, for tests of DELETE, UPDATE and MERGE."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

import lakeshift
from lakeshift.iceberg.commit.change_set import append_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.table import IcebergTable
from tests.tables import EVENTS, data_file, live_entries, manifest_headers

_numbers = itertools.count()

Row = dict[str, Any]


@dataclass
class Changed:
    """A table, and what its rows should be by id."""

    spark: Any
    catalog_name: str
    catalog: SqlCatalog
    ours: IcebergTable
    model: dict[int, Row] = field(default_factory=dict)

    @property
    def java_name(self) -> str:
        return f"{self.catalog_name}.{self.ours.name}"

    @property
    def table(self) -> Table:
        return self.catalog.load_table(self.ours.name)

    @property
    def columns(self) -> list[str]:
        return [member.name for member in self.table.schema().fields]

    def put(self, *files: list[Row], spec_id: int | None = None) -> None:
        """Commit data files of the given rows, each of one partition."""
        table = self.table
        written = [data_file(table, [_stored(table, row) for row in rows], spec_id) for rows in files]
        commit(table, append_change(table.metadata, written))
        for rows in files:
            self.model.update({row["id"]: dict(row) for row in rows})

    def delete(self, matches: Callable[[Row], bool]) -> int:
        """Delete from the model; returns how many rows."""
        gone = [key for key, row in self.model.items() if matches(row)]
        for key in gone:
            del self.model[key]
        return len(gone)

    def update(self, matches: Callable[[Row], bool], **values: Callable[[Row], Any]) -> int:
        changed = [row for row in self.model.values() if matches(row)]
        for row in changed:
            row.update({name: value(row) for name, value in values.items()})
        return len(changed)

    def expected(self) -> list[tuple[Any, ...]]:
        names = self.columns
        return sorted((tuple(row[name] for name in names) for row in self.model.values()), key=repr)

    def rows_by(self, engine: str) -> list[tuple[Any, ...]]:
        names = self.columns
        if engine == "pyiceberg":
            found = [tuple(row[name] for name in names) for row in self.table.scan().to_arrow().to_pylist()]
        elif engine == "java":
            found = [tuple(row) for row in self.spark.table(self.java_name).select(*names).collect()]
        else:
            found = [tuple(row) for row in self.ours.read(columns=names).collect()]
        return sorted(found, key=repr)

    def check(self, *engines: str) -> None:
        """Every engine reads what the model has; every manifest holds one spec, deletes beside their data."""
        for engine in engines or ("java", "pyiceberg", "lakeshift"):
            assert self.rows_by(engine) == self.expected(), engine
        table = self.table
        for manifest, header in manifest_headers(table):
            assert int(header["partition-spec-id"]) == manifest.partition_spec_id
        data = {
            path: entry.data_file
            for path, entry in live_entries(table).items()
            if entry.data_file.content == DataFileContent.DATA
        }
        for entry in live_entries(table).values():
            file = entry.data_file
            if file.content == DataFileContent.POSITION_DELETES and file.lower_bounds[2147483546] in {
                path.encode() for path in data
            }:
                referred = data[file.lower_bounds[2147483546].decode()]
                assert (file.spec_id, file.partition) == (referred.spec_id, referred.partition)

    def specs_of(self, content: DataFileContent) -> set[int]:
        return {
            entry.data_file.spec_id for entry in live_entries(self.table).values() if entry.data_file.content == content
        }


def _stored(table: Table, row: Row) -> Row:
    names = {member.name for member in table.schema().fields}
    return {name: value for name, value in row.items() if name in names}


def new_table(
    spark: Any, catalog_name: str, warehouse: Path, catalog: SqlCatalog, schema: Any = EVENTS, **options: Any
) -> Changed:
    """An empty table of a catalog that Java shares."""
    lake = lakeshift.connect(catalog_name, spark=spark)
    ours = lake.create_iceberg_table(f"db.t{next(_numbers)}", schema, **options)
    return Changed(spark, catalog_name, catalog, ours)


def row(number: int, *, region: str | None = "eu", day: int = 1, hour: int = 0, amount: int | None = None) -> Row:
    return {
        "id": number,
        "ts": datetime(2026, 1, day, hour),
        "region": region,
        "amount": number if amount is None else amount,
    }


def evolved(changed: Changed) -> Changed:
    """Rows under four specs: by region, by day, unpartitioned, by bucket; the column `region` is dropped half-way."""
    changed.put([row(n) for n in range(10)], [row(n, region="us") for n in range(10, 20)])
    changed.ours.evolve_partitions(drop=["region"], add=["day(ts)"])
    changed.put([row(n, day=1 + n % 2) for n in range(20, 30, 2)], [row(n, day=1 + n % 2) for n in range(21, 30, 2)])
    with changed.table.update_schema() as update:
        update.delete_column("region")
    for found in changed.model.values():
        found.pop("region")
    changed.ours.evolve_partitions(drop=["day(ts)"])
    changed.put([_without_region(row(n)) for n in range(30, 40)])
    changed.ours.evolve_partitions(add=["bucket(4, id)"])
    changed.ours.refresh()
    return changed


def _without_region(found: Row) -> Row:
    found.pop("region")
    return found
