"""Iceberg's Java runtime as a peer: what Spark SQL cannot ask of it, through py4j.

Equality deletes above all, which Spark never writes: partition-scoped ones, and global ones of an
unpartitioned spec. Also what Java itself plans, as the other opinion on which deletes apply.

py4j turns boxed Java numbers into Python's and back into the narrowest Java type, so that no row value may
pass through Python on its way into a Java record: rows to delete are read from the table by Java.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyiceberg.partitioning import PartitionSpec


class PeerTable:
    """A table as Iceberg's Java API has it."""

    def __init__(self, spark: Any, name: str) -> None:
        self.jvm = spark._jvm
        self._gateway = spark.sparkContext._gateway
        self.java = self.jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)

    def refresh(self) -> None:
        self.java.refresh()

    def delete_equal(
        self,
        *columns: str,
        rows: Mapping[str, Any],
        spec_id: int | None = None,
        file_format: str = "PARQUET",
        branch: str = "main",
    ) -> str:
        """Commit an equality delete file for the values that these columns have in the given rows of the table.

        ``rows`` are the live rows with these column values (None for null), which must lie in one partition of the
        spec; the delete is scoped to that partition, or global if the spec is unpartitioned. Returns the file's path.
        """
        delete = self.equality_delete_file(*columns, rows=rows, spec_id=spec_id, file_format=file_format)
        self.java.newRowDelta().addDeletes(delete).toBranch(branch).commit()
        return str(delete.location())

    def equality_delete_file(
        self, *columns: str, rows: Mapping[str, Any], spec_id: int | None = None, file_format: str = "PARQUET"
    ) -> Any:
        """Write an equality delete file as `delete_equal` does, without committing it."""
        iceberg = self.jvm.org.apache.iceberg
        self.refresh()
        spec = self.java.spec() if spec_id is None else self.java.specs()[spec_id]
        full = list(self._records(rows, None))
        assert full, f"no row of the table has {rows}"
        partition = self._partition(spec, full[0])
        assert all(self._path(spec, self._partition(spec, record)) == self._path(spec, partition) for record in full)
        kind = iceberg.FileFormat.fromString(file_format)
        # The columns of the filter come along: Java reads them anyway, and a delete file may have more than it needs.
        stored = tuple(dict.fromkeys((*columns, *rows)))
        schema = self.java.schema().select(self._strings(stored))
        ids = self._gateway.new_array(self.jvm.int, len(columns))
        for position, column in enumerate(columns):
            ids[position] = self.java.schema().findField(column).fieldId()
        builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(self.java)
        factory = builder.deleteFileFormat(kind).equalityFieldIds(ids).equalityDeleteRowSchema(schema).build()
        outputs = (
            iceberg.io.OutputFileFactory.builderFor(self.java, 1, 1).operationId(str(uuid.uuid4())).format(kind).build()
        )
        output = outputs.newOutputFile() if partition is None else outputs.newOutputFile(spec, partition)
        writer = factory.newEqualityDeleteWriter(output, spec, partition)
        for record in self._records(rows, stored):
            writer.write(record)
        writer.close()
        return writer.toDeleteFile()

    def planned_deletes(self, branch: str | None = None) -> dict[str, set[str]]:
        """For each live data file the delete files that Java would apply to it."""
        self.refresh()
        scan = self.java.newScan() if branch is None else self.java.newScan().useRef(branch)
        planned: dict[str, set[str]] = {}
        tasks = scan.planFiles()
        for task in _each(tasks):
            planned[task.file().location()] = {delete.location() for delete in task.deletes()}
        tasks.close()
        return planned

    def partition_paths(self, spec: PartitionSpec) -> list[str]:
        """The path of each live row's partition under a spec, which need not be one of the table's."""
        parsed = self.jvm.org.apache.iceberg.PartitionSpecParser.fromJson(self.java.schema(), spec.model_dump_json())
        return [self._path(parsed, self._partition(parsed, record)) for record in self._records({}, None)]

    def data_location(self, table_location: str, properties: Mapping[str, str], file_name: str) -> str:
        """Where a table of this location and properties would put a data file."""
        settings = self.jvm.java.util.HashMap()
        for key, value in properties.items():
            settings.put(key, value)
        providers = self.jvm.org.apache.iceberg.LocationProviders.locationsFor(table_location, settings)
        return str(providers.newDataLocation(file_name))

    def projected_hours(self, micros: int) -> set[int]:
        """The hour partitions in which Java looks for rows with this timestamp."""
        iceberg = self.jvm.org.apache.iceberg
        fields = self._gateway.new_array(getattr(iceberg.types, "Types$NestedField"), 1)
        kind = getattr(iceberg.types, "Types$TimestampType").withoutZone()
        fields[0] = getattr(iceberg.types, "Types$NestedField").optional(1, "ts", kind)
        spec = iceberg.PartitionSpec.builderFor(iceberg.Schema(fields)).hour("ts").build()
        projection = iceberg.expressions.Projections.inclusive(spec)
        found = projection.project(iceberg.expressions.Expressions.equal("ts", micros))
        return {literal.value() for literal in found.literals()}

    def _records(self, rows: Mapping[str, Any], columns: tuple[str, ...] | None) -> Iterator[Any]:
        reader = self.jvm.org.apache.iceberg.data.IcebergGenerics.read(self.java).where(self._filter(rows))
        if columns is not None:
            reader = reader.select(self._strings(columns))
        records = reader.build()
        yield from _each(records)
        records.close()

    def _filter(self, rows: Mapping[str, Any]) -> Any:
        expressions = self.jvm.org.apache.iceberg.expressions.Expressions
        found = expressions.alwaysTrue()
        for column, value in rows.items():
            leaf = expressions.isNull(column) if value is None else expressions.equal(column, value)
            found = getattr(expressions, "and")(found, leaf)
        return found

    def _partition(self, spec: Any, record: Any) -> Any:
        if spec.isUnpartitioned():
            return None
        iceberg = self.jvm.org.apache.iceberg
        key = iceberg.PartitionKey(spec, self.java.schema())
        key.partition(iceberg.data.InternalRecordWrapper(self.java.schema().asStruct()).wrap(record))
        return key

    @staticmethod
    def _path(spec: Any, partition: Any) -> str:
        return "" if partition is None else str(spec.partitionToPath(partition))

    def _strings(self, values: tuple[str, ...]) -> Any:
        array = self._gateway.new_array(self.jvm.java.lang.String, len(values))
        for position, value in enumerate(values):
            array[position] = value
        return array


def _each(iterable: Any) -> Iterator[Any]:
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()
