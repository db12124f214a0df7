"""Laws of the comparison, over random schemas."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeshift.delta.projection import project
from lakeshift.delta.schema import ArrayOf, Atomic, DataType, Field, MapOf, StructOf
from lakeshift.delta.schema_diff import Identical, Incompatible, compare_schemas, diff_schemas, is_safe_widening
from tests.conftest import FULL

pytestmark = pytest.mark.plain

EXAMPLES = 1000 if FULL else 100
ATOMS = ["byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "decimal(10,2)"]
NAMES = ["a", "b", "C", "d"]


def structs(children: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructOf]:
    fields = st.dictionaries(st.sampled_from(NAMES), children, min_size=1, max_size=4)
    return fields.map(lambda found: StructOf(tuple(Field(name, kind) for name, kind in found.items())))


types = st.recursive(
    st.sampled_from(ATOMS).map(Atomic),
    lambda inner: st.one_of(inner.map(ArrayOf), st.builds(MapOf, st.just(Atomic("string")), inner), structs(inner)),
    max_leaves=6,
)
schemas = structs(types)


@settings(max_examples=EXAMPLES, deadline=None)
@given(schemas)
def test_a_schema_does_not_differ_from_itself(schema: StructOf) -> None:
    assert isinstance(diff_schemas(schema, schema), Identical)


@settings(max_examples=500, deadline=None)
@given(schemas, schemas)
def test_evolving_once_is_enough_and_old_batches_still_fit(table: StructOf, incoming: StructOf) -> None:
    comparison = compare_schemas(table, incoming)
    if isinstance(comparison.diff, Incompatible):
        return
    assert isinstance(diff_schemas(comparison.merged, incoming), Identical)
    assert isinstance(diff_schemas(comparison.merged, table), Identical)
    project(incoming, comparison.merged)  # every incoming column has a place


@settings(max_examples=EXAMPLES, deadline=None)
@given(schemas, schemas)
def test_the_order_of_columns_does_not_matter(table: StructOf, incoming: StructOf) -> None:
    mirrored = StructOf(tuple(reversed(incoming.fields)))
    one, other = diff_schemas(table, incoming), diff_schemas(table, mirrored)
    assert type(one) is type(other)
    assert sorted(one.lines()) == sorted(other.lines())


@settings(max_examples=EXAMPLES, deadline=None)
@given(*[st.sampled_from(ATOMS)] * 3)
def test_widening_is_a_strict_order(first: str, second: str, third: str) -> None:
    assert not (is_safe_widening(first, second) and is_safe_widening(second, first))
    if is_safe_widening(first, second) and is_safe_widening(second, third):
        assert is_safe_widening(first, third)
