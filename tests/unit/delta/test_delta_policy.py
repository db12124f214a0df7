"""Planning a write: policy, stack and table state, no session."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeshift.delta.policy import (
    EvolutionPolicy,
    TableState,
    WritePlan,
    WriteSettings,
    check_options_against,
    plan_write,
)
from lakeshift.delta.schema import StructOf, schema_of
from lakeshift.delta.schema_diff import Incompatible, NewColumns, TypeWidening
from lakeshift.errors import ConfigError, SchemaMismatchError
from lakeshift.stack import STACKS

SPARK35, SPARK41 = STACKS["3.5"], STACKS["4.1"]
WIDENING = {"delta.enableTypeWidening": "true"}


def schema(**columns: pa.DataType) -> StructOf:
    return schema_of(pa.schema(list(columns.items())))


def plan(table: StructOf | None, incoming: StructOf, evolution: Any = None, **more: Any) -> WritePlan:
    stack = more.pop("stack", SPARK41)
    settings = {k: more.pop(k) for k in ("enable_type_widening", "partition_by") if k in more}
    creation = more.pop("creation", {})
    dependents = more.pop("dependents", lambda path: ())
    state = None if table is None else TableState("id", 0, table, **more)
    chosen = WriteSettings(EvolutionPolicy.of(evolution), stack, properties=creation, **settings)
    return plan_write(state, incoming, chosen, dependents)


A = schema(a=pa.int32())
A_WIDE = schema(a=pa.int64())
A_AND_B = schema(a=pa.int32(), b=pa.string())


def test_both_settings_are_frozen_by_default_and_true_evolves_both() -> None:
    assert EvolutionPolicy.of(None) == EvolutionPolicy.of(False) == EvolutionPolicy("freeze", "freeze")
    assert EvolutionPolicy.of(True) == EvolutionPolicy("evolve", "evolve")
    assert EvolutionPolicy.of({"types": "evolve"}) == EvolutionPolicy("freeze", "evolve")


@pytest.mark.parametrize("bad", [{"column": "evolve"}, {"types": "yes"}, "evolve"])
def test_an_unknown_setting_is_refused_by_name(bad: Any) -> None:
    with pytest.raises(ConfigError, match=r"columns|evolve"):
        EvolutionPolicy.of(bad)


def test_schema_evolution_disabled_rejects() -> None:
    refused = plan(A, schema(a=pa.int64(), b=pa.string()), False)
    with pytest.raises(SchemaMismatchError) as error:
        refused.raise_if_refused("orders")
    message = str(error.value)
    assert "orders; nothing was written" in message
    assert "+ b: string" in message
    assert "~ a: int -> long" in message
    assert 'evolution={"columns": "evolve"}' in message
    assert 'evolution={"types": "evolve"}' in message


def test_each_setting_allows_only_its_own_kind_of_change() -> None:
    assert not plan(A, A_AND_B, {"columns": "evolve"}).refused
    assert plan(A, A_AND_B, {"types": "evolve"}).refused
    assert plan(A, A_WIDE, {"columns": "evolve"}, properties=WIDENING).refused
    assert not plan(A, A_WIDE, {"types": "evolve"}, properties=WIDENING).refused


def test_widening_without_the_feature_names_the_switch_and_its_price() -> None:
    refused = plan(A, A_WIDE, True)
    assert len(refused.refusals) == 1
    assert "enable_type_widening=True" in refused.refusals[0]
    assert "delta-rs" in refused.refusals[0]
    allowed = plan(A, A_WIDE, True, enable_type_widening=True)
    assert allowed.enables_type_widening
    assert not allowed.refused
    assert any("delta-rs" in note for note in allowed.notes)
    assert not plan(A, A_WIDE, True, properties=WIDENING).enables_type_widening


@pytest.mark.parametrize("kinds", [(pa.int32(), pa.int64()), (pa.float32(), pa.float64()), (pa.int8(), pa.int64())])
def test_the_stack_is_named_as_the_limit(kinds: tuple[pa.DataType, pa.DataType]) -> None:
    before, after = (schema(a=kind) for kind in kinds)
    refused = plan(before, after, True, stack=SPARK35, properties=WIDENING)
    assert isinstance(refused.diff, Incompatible)
    problem = refused.diff.problems[0]
    assert "needs Delta 4 on Spark 4.1; this is Delta 3.3 on Spark 3.5" in problem.reason
    assert problem.table_type == before.fields[0].type
    assert isinstance(plan(before, after, True, stack=SPARK41, properties=WIDENING).diff, TypeWidening)


def test_small_integers_widen_on_both_stacks() -> None:
    before, after = schema(a=pa.int8(), b=pa.int16()), schema(a=pa.int16(), b=pa.int32())
    for stack in (SPARK35, SPARK41):
        assert not plan(before, after, True, stack=stack, properties=WIDENING).refused


def test_arrow_large_strings_are_strings_to_a_table_and_need_no_permission() -> None:
    done = plan(schema(s=pa.string(), b=pa.binary()), schema(s=pa.large_string(), b=pa.large_binary()))
    assert done.action == "append"
    assert not done.refused


def test_names_that_need_column_mapping_are_refused_without_it() -> None:
    inner = pa.struct([("fine", pa.int32()), ("not;fine", pa.int32())])
    incoming = schema_of(pa.schema([("a", pa.int32()), ("b c", pa.string()), ("s", inner), ("d.e", pa.int8())]))
    refused = plan(A, incoming, True)
    assert ["b c" in r or "not;fine" in r for r in refused.refusals] == [True, True]
    assert "delta.columnMapping.mode=name" in refused.refusals[0]
    assert not plan(A, incoming, True, properties={"delta.columnMapping.mode": "name"}).refused


def test_columns_that_a_constraint_or_generated_column_reads_are_not_widened() -> None:
    refused = plan(
        A, A_WIDE, True, properties=WIDENING, dependents=lambda path: (f"the CHECK constraint on {path[0]}",)
    )
    assert "while the CHECK constraint on a reads it" in refused.refusals[0]


def test_dependents_are_asked_only_about_widened_columns() -> None:
    asked: list[tuple[str, ...]] = []

    def dependents(path: tuple[str, ...]) -> tuple[str, ...]:
        asked.append(path)
        return ()

    plan(
        schema(a=pa.int32(), b=pa.int32()), schema(a=pa.int64(), b=pa.int32(), c=pa.int8()), True, dependents=dependents
    )
    assert asked == [("a",)]


def test_new_types_need_their_table_feature() -> None:
    incoming = schema(a=pa.int32(), t=pa.timestamp("us"))
    assert "delta.feature.timestampNtz=supported" in plan(A, incoming, True).refusals[0]
    assert not plan(A, incoming, True, features=frozenset({"timestampNtz"})).refused


def test_a_new_not_null_column_becomes_nullable_and_the_plan_says_so() -> None:
    incoming = schema_of(pa.schema([pa.field("a", pa.int32()), pa.field("b", pa.string(), nullable=False)]))
    allowed = plan(A, incoming, True)
    assert isinstance(allowed.diff, NewColumns)
    assert allowed.target.fields[1].nullable
    assert any(note.startswith("b: added as nullable") for note in allowed.notes)


def test_missing_partition_columns_are_filled_with_null() -> None:
    done = plan(schema(a=pa.int32(), p=pa.string(), q=pa.string()), A, partition_columns=("p",))
    assert done.projection.added == ("CAST(NULL AS string) AS `p`",)
    assert done.filled == ("p with null", "q with null")


def test_creation_checks_names_types_and_partitioning() -> None:
    incoming = schema_of(pa.schema([("a b", pa.int32()), ("n", pa.null()), ("s", pa.struct([("x", pa.int8())]))]))
    refused = plan(None, incoming, partition_by=("s", "nope"))
    assert refused.action == "create"
    told = " ".join(refused.refusals)
    for expected in ("'a b'", "n: it has no type", "partition column s is a struct", "partition column nope"):
        assert expected in told
    assert plan(None, schema(a=pa.int32()), partition_by=("a",)).refusals[0].startswith("every column is a partition")
    mapped = plan(None, schema_of(pa.schema([("a b", pa.int32())])), creation={"delta.columnMapping.mode": "name"})
    assert not mapped.refused


def test_creation_options_that_contradict_the_table_are_refused() -> None:
    state = TableState("id", 0, A, ("a",), {"delta.appendOnly": "true"})
    stack = SPARK41
    check_options_against(state, WriteSettings(EvolutionPolicy(), stack, partition_by=("A",)), "t")
    with pytest.raises(ConfigError, match="partitioned by a"):
        check_options_against(state, WriteSettings(EvolutionPolicy(), stack, partition_by=("b",)), "t")
    other = WriteSettings(EvolutionPolicy(), stack, properties={"delta.appendOnly": "false"})
    with pytest.raises(ConfigError, match="ALTER TABLE"):
        check_options_against(state, other, "t")


def test_creation_options_that_became_features_are_found_there() -> None:
    state = TableState("id", 0, A, features=frozenset({"timestampNtz"}))
    options = {"delta.feature.timestampNtz": "supported", "delta.minWriterVersion": "7"}
    check_options_against(state, WriteSettings(EvolutionPolicy(), SPARK41, properties=options), "t")
    other = WriteSettings(EvolutionPolicy(), SPARK41, properties={"delta.feature.variantType": "supported"})
    with pytest.raises(ConfigError, match="variantType"):
        check_options_against(state, other, "t")


def test_a_plan_reads_as_text_and_as_json() -> None:
    done = plan(schema(a=pa.int64(), d=pa.int32()), schema(a=pa.int32(), b=pa.string()), True)
    assert done.lines() == [
        "append and change the table's schema in the same commit (NewColumns)",
        "  + b: string",
        "  cast up a: int to long",
        "  fill d with null",
    ]
    content = done.to_dict()
    assert content["action"] == "evolve"
    assert content["expressions"] == ["CAST(`a` AS long) AS `a`"]
