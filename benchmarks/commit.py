"""Committing to a table of very many files: ours beside Iceberg's Java runtime in the same warm JVM.

Timed is the commit alone: on both sides the files to add and remove are laid out before. Each commit starts
from the same snapshot, to which the table is set back in between.

Merging of manifests is off, and the numbers of manifests written, kept and replaced must be equal, so that both
sides do the same work. With the default properties they do not: Java then merges the manifests of every spec but
the first one at each commit, whatever commit.manifest.min-count-to-merge says. One case shows what that costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from benchmarks.harness import OURS, Case, Lab
from benchmarks.many_files import create_table_of_many_files
from lakeshift.iceberg.commit.change_set import ChangeSet, RemovedFile, append_change, overwrite_change
from lakeshift.iceberg.commit.commit import commit
from lakeshift.iceberg.ledger import read_ledger

JAVA = "Iceberg Java"
FILES = ("added-data-files", "deleted-data-files", "total-data-files", "total-records", "total-files-size")
MANIFESTS = ("manifests-created", "manifests-kept", "manifests-replaced")
MERGING = "commit.manifest-merge.enabled"


def cases(lab: Lab) -> Iterator[Case]:
    files, changed = (400, 20) if lab.tiny else (200_000, 1_000)
    bench = _Bench.create(lab, files)
    many = range(0, files // 2, files // 2 // changed)[:changed]
    yield bench.case(f"append {changed} files to {files}", adds=changed)
    yield bench.case(f"remove {changed} files from {files}, from all manifests of a spec", removes=many)
    yield bench.case(f"replace {changed} files of {files}, from one manifest", adds=changed, removes=range(changed))
    yield bench.case(
        f"append {changed} files to {files}, default merging: not the same work", adds=changed, merging=True
    )


class _Bench:
    """One table, for both sides, and the change that is committed next."""

    def __init__(self, table: Table, peer: Any, jvm: Any) -> None:
        self.table = table
        self.peer = peer
        self.jvm = jvm
        self.start = table.metadata.current_snapshot_id
        self.number = 0
        self.compared: tuple[str, ...] = FILES
        ledger = read_ledger(table.metadata, table.io, columns=["file_path", "manifest_path"])
        rows = ledger.data[0]
        self.manifest_of = dict(
            zip(rows.column("file_path").to_pylist(), rows.column("manifest_path").to_pylist(), strict=True)
        )
        self.paths = sorted(self.manifest_of)
        first = table.current_snapshot().manifests(table.io)[0]  # type: ignore[union-attr]
        self.template = first.fetch_manifest_entry(table.io)[0].data_file
        scan = peer.newScan().planFiles().iterator()
        self.java_template = next(file for file in iter(lambda: scan.next().file(), None) if file.specId() == 0)
        self.change: ChangeSet | None = None
        self.java_change: Any = None

    @classmethod
    def create(cls, lab: Lab, files: int) -> _Bench:
        warehouse = lab.folder / "commit"
        warehouse.mkdir(parents=True)
        catalog = SqlCatalog("bench", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")
        catalog.create_namespace("db")
        table = create_table_of_many_files(catalog, "db.many", files)
        lab.java_catalog("bench", warehouse)
        jvm = lab.spark._jvm
        peer = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(lab.spark._jsparkSession, "bench.db.many")
        return cls(table, peer, jvm)

    def case(self, name: str, *, adds: int = 0, removes: Sequence[int] = (), merging: bool = False) -> Case:
        def before(side: str) -> None:
            self.compared = FILES if merging else (*FILES, *MANIFESTS)
            self.set_back(merging)
            (self.prepare_ours if side == OURS else self.prepare_java)(adds, [self.paths[at] for at in removes])

        return Case(name, self.ours, {JAVA: self.java}, before, aim={} if merging else {JAVA: 1.0})

    def set_back(self, merging: bool) -> None:
        self.table.refresh()
        if self.table.properties.get(MERGING) != str(merging).lower():
            with self.table.transaction() as transaction:
                transaction.set_properties({MERGING: str(merging).lower()})
        if self.table.metadata.current_snapshot_id != self.start:
            self.table.manage_snapshots().set_current_snapshot(snapshot_id=self.start).commit()
        self.peer.refresh()

    def new_path(self) -> str:
        self.number += 1
        return f"{self.table.location()}/data/new-{self.number:08d}.parquet"

    def prepare_ours(self, adds: int, removes: list[str]) -> None:
        added = []
        for _ in range(adds):
            file = DataFile(*self.template._data)
            file._data[1] = self.new_path()
            file.spec_id = 0
            added.append(file)
        removed = [RemovedFile(path, 0, self.manifest_of[path]) for path in removes]
        metadata = self.table.metadata
        self.change = overwrite_change(metadata, added, removed) if removes else append_change(metadata, added)

    def prepare_java(self, adds: int, removes: list[str]) -> None:
        change = self.peer.newOverwrite() if removes else self.peer.newAppend()
        add: Callable[[Any], Any] = change.addFile if removes else change.appendFile
        for _ in range(adds):
            add(self.java_file(self.new_path(), None))
        for path in removes:
            change.deleteFile(self.java_file(path, f"region={int(path.rsplit('/', 1)[1][:10]) % 40:03d}"))
        self.java_change = change

    def java_file(self, path: str, partition: str | None) -> Any:
        builder = self.jvm.org.apache.iceberg.DataFiles.builder(self.peer.specs()[0])
        builder = builder.copy(self.java_template).withPath(path)
        return (builder.withPartitionPath(partition) if partition else builder).build()

    def ours(self) -> dict[str, str | None]:
        assert self.change is not None
        commit(self.table, self.change)
        summary = self.table.current_snapshot().summary  # type: ignore[union-attr]
        return {name: summary[name] for name in self.compared}  # type: ignore[index]

    def java(self) -> dict[str, str | None]:
        self.java_change.commit()
        summary = self.peer.currentSnapshot().summary()
        return {name: summary.get(name) for name in self.compared}
