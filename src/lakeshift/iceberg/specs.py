"""Partition specs: which one a number means, which schema still fits it, and whether it can be written.

A spec outlives the columns it was made from. Everything here is asked of table metadata alone: no file
is read, and neither Spark nor a catalog comes in.
"""

from __future__ import annotations

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import UnknownTransform, VoidTransform
from pyiceberg.types import IcebergType, NestedField, StringType, StructType

from lakeshift.errors import SpecNotWritableError
from lakeshift.iceberg.partition_types import (
    is_unpartitioned,
    partition_field_type,
    schemas_newest_first,
    spec_of,
)

__all__ = ["find_compatible_schema", "is_unpartitioned", "partition_type", "spec_of", "writable_spec"]


def find_compatible_schema(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """The newest schema that still has the source columns of a spec: the current one if it can be.

    Void fields hold nothing, so a schema without their sources will do where none has them all: a column
    may have left the schema before another one came that the same spec uses.
    """
    schemas = schemas_newest_first(metadata)
    for fields in (spec.fields, [field for field in spec.fields if not isinstance(field.transform, VoidTransform)]):
        for schema in schemas:
            if all(_source_type(field, schema) is not None for field in fields):
                return schema
    sources = ", ".join(f"{field.name} (column id {field.source_id})" for field in spec.fields)
    raise SpecNotWritableError(
        f"No schema of the table at {metadata.location} has the source columns of partition spec {spec.spec_id}: "
        f"{sources}. Its manifests cannot be written; rewrite its files into another spec with an engine that has "
        "the old schema, or restore the schema."
    )


def partition_type(metadata: TableMetadata, spec: PartitionSpec) -> StructType:
    """The struct of a spec's partition values, typed whichever columns the current schema has lost.

    Every field is optional, as every transform of null is null. No field is ever of an unknown type: that
    would lose the values, and other engines could not read the manifest.
    """
    schemas = [find_compatible_schema(metadata, spec), *schemas_newest_first(metadata)]
    return StructType(
        *(
            NestedField(field.field_id, field.name, _result_type(field, schemas), required=False)
            for field in spec.fields
        )
    )


def writable_spec(metadata: TableMetadata, spec_id: int | None = None) -> PartitionSpec:
    """The spec that new rows take: the default one, or the one asked for, if rows of today can still be put into it."""
    spec = spec_of(metadata, metadata.default_spec_id if spec_id is None else spec_id)
    schema = metadata.schema()
    for field in spec.fields:
        if isinstance(field.transform, VoidTransform):
            continue
        source = _source_type(field, schema)
        if source is None:
            raise _not_writable(metadata, spec, field, f"its source column (id {field.source_id}) was dropped")
        if isinstance(field.transform, UnknownTransform) or not field.transform.can_transform(source):
            raise _not_writable(metadata, spec, field, f"{field.transform} cannot be computed from {source}")
    return spec


def _not_writable(
    metadata: TableMetadata, spec: PartitionSpec, field: PartitionField, reason: str
) -> SpecNotWritableError:
    return SpecNotWritableError(
        f"Partition spec {spec.spec_id} of the table at {metadata.location} cannot be written any more: field "
        f"{field.name!r} has no values, for {reason}. Write the default spec {metadata.default_spec_id}, or evolve the "
        "partitioning to one without this field."
    )


def _source_type(field: PartitionField, schema: Schema) -> IcebergType | None:
    try:
        return schema.find_type(field.source_id)
    except ValueError:
        return None


def _result_type(field: PartitionField, schemas: list[Schema]) -> IcebergType:
    # Only a void field can come here without any schema: it has no values, so that any type is right.
    return partition_field_type(field, schemas) or StringType()
