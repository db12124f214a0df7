"""Specs that outlive their columns: the schema they are written with, and whether rows still fit them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, VoidTransform
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, UnknownType

from lakeshift.errors import SpecNotWritableError, UnknownSpecError
from lakeshift.iceberg.specs import find_compatible_schema, is_unpartitioned, partition_type, spec_of, writable_spec
from tests.tables import EVENTS, local_catalog

A, B = NestedField(1, "a", LongType(), required=False), NestedField(2, "b", StringType(), required=False)


def metadata_with(schemas: list[Schema], specs: list[PartitionSpec], current: int, default: int) -> TableMetadata:
    return TableMetadataV2.model_validate(
        {
            "location": "file:///lake/t",
            "last-column-id": 9,
            "schemas": [schema.model_dump() for schema in schemas],
            "current-schema-id": current,
            "partition-specs": [spec.model_dump() for spec in specs],
            "default-spec-id": default,
            "last-partition-id": 1009,
        }
    )


@pytest.fixture
def dropped(tmp_path: Path) -> Table:
    """Spec 0 is by region, which the current schema no longer has; spec 1 is by day."""
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))
    table = local_catalog(tmp_path).create_table("db.events", EVENTS, partition_spec=spec)
    with table.update_spec() as update:
        update.remove_field("region")
        update.add_field("ts", DayTransform(), "ts_day")
    with table.update_schema() as schema:
        schema.delete_column("region")
    return table


def test_the_current_schema_comes_first(dropped: Table) -> None:
    assert find_compatible_schema(dropped.metadata, dropped.specs()[1]) == dropped.schema()


def test_a_historical_schema_serves_a_spec_whose_column_is_gone(dropped: Table) -> None:
    schema = find_compatible_schema(dropped.metadata, dropped.specs()[0])
    assert schema.schema_id == 0
    assert schema.find_field("region").field_id == 3


def test_the_newest_historical_schema_is_taken() -> None:
    schemas = [
        Schema(A, schema_id=0),
        Schema(A, B, schema_id=1),
        Schema(A, B, NestedField(3, "c", LongType(), required=False), schema_id=2),
        Schema(A, schema_id=3),
    ]
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "b"), spec_id=0)
    assert find_compatible_schema(metadata_with(schemas, [spec], current=3, default=0), spec).schema_id == 2


def test_no_partition_type_is_ever_unknown(dropped: Table) -> None:
    types = [field.field_type for field in partition_type(dropped.metadata, dropped.specs()[0]).fields]
    assert types == [StringType()]
    # What plain PyIceberg would write into the manifest.
    assert isinstance(dropped.specs()[0].partition_type(dropped.schema()).fields[0].field_type, UnknownType)


def test_a_void_field_may_have_lost_its_column_before_another_one_came() -> None:
    # a was dropped, and only then b was added: no schema has both.
    schemas = [Schema(A, schema_id=0), Schema(B, schema_id=1)]
    spec = PartitionSpec(
        PartitionField(1, 1000, VoidTransform(), "a"), PartitionField(2, 1001, IdentityTransform(), "b"), spec_id=1
    )
    metadata = metadata_with(schemas, [PartitionSpec(spec_id=0), spec], current=1, default=1)
    assert find_compatible_schema(metadata, spec).schema_id == 1
    assert [field.field_type for field in partition_type(metadata, spec).fields] == [LongType(), StringType()]


def test_partition_fields_are_optional_even_for_required_columns() -> None:
    required = NestedField(1, "a", LongType(), required=True)
    spec = PartitionSpec(PartitionField(1, 1000, VoidTransform(), "a"), spec_id=0)
    metadata = metadata_with([Schema(required, schema_id=0)], [spec], current=0, default=0)
    assert [field.required for field in partition_type(metadata, spec).fields] == [False]


def test_no_schema_at_all_is_an_error_that_names_the_spec() -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "b"), spec_id=4)
    metadata = metadata_with([Schema(A, schema_id=0)], [PartitionSpec(spec_id=0), spec], current=0, default=0)
    with pytest.raises(SpecNotWritableError, match=r"partition spec 4: b \(column id 2\)"):
        find_compatible_schema(metadata, spec)


def test_result_types_follow_the_transform(tmp_path: Path) -> None:
    spec = PartitionSpec(
        PartitionField(2, 1000, DayTransform(), "ts_day"), PartitionField(1, 1001, BucketTransform(4), "id_bucket")
    )
    table = local_catalog(tmp_path).create_table("db.t", EVENTS, partition_spec=spec)
    assert [field.field_type for field in partition_type(table.metadata, table.spec()).fields] == [
        DateType(),
        IntegerType(),
    ]


def test_an_unknown_spec_is_named_with_those_there_are(dropped: Table) -> None:
    with pytest.raises(UnknownSpecError, match=r"no partition spec 7; it has 0, 1"):
        spec_of(dropped.metadata, 7)


def test_unpartitioned_is_a_property_of_the_spec() -> None:
    void = PartitionField(1, 1000, VoidTransform(), "a")
    assert is_unpartitioned(PartitionSpec(spec_id=0))
    assert is_unpartitioned(PartitionSpec(void, spec_id=1))
    assert not is_unpartitioned(PartitionSpec(void, PartitionField(2, 1001, IdentityTransform(), "b"), spec_id=2))


def test_the_default_spec_is_written_whatever_its_number() -> None:
    specs = [PartitionSpec(spec_id=0), PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "a"), spec_id=1)]
    metadata = metadata_with([Schema(A, schema_id=0)], specs, current=0, default=0)
    assert writable_spec(metadata).spec_id == 0
    assert writable_spec(metadata, 1).spec_id == 1


def test_a_spec_whose_column_is_gone_cannot_be_written(dropped: Table) -> None:
    with pytest.raises(SpecNotWritableError, match=r"spec 0 .*'region'.*id 3\) was dropped.*default spec 1"):
        writable_spec(dropped.metadata, 0)


def test_a_void_field_without_its_column_can_be_written() -> None:
    spec = PartitionSpec(PartitionField(1, 1000, VoidTransform(), "a"), spec_id=1)
    metadata = metadata_with([Schema(A, schema_id=0), Schema(B, schema_id=1)], [PartitionSpec(spec_id=0), spec], 1, 1)
    assert writable_spec(metadata).spec_id == 1
