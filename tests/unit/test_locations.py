"""Two names of one place are equal once they are canonical; two places never are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeshift.locations import canonical_location, canonical_locations

SCHEMES = ["file", "FILE", "s3", "s3a", "S3N", "gs", "abfss", "HDFS", "x+y.z-1", "1no"]


@pytest.mark.parametrize(
    "spellings",
    [
        ["/lake/a b.parquet", "file:/lake/a b.parquet", "file:///lake/a b.parquet", "FILE:///lake/a b.parquet"],
        ["s3://bucket/x", "s3a://bucket/x", "s3n://bucket/x", "S3A://bucket/x"],
        ["gs://bucket/x"],
        ["abfss://container@account.host/x"],
    ],
)
def test_spellings_of_one_place_are_equal(spellings: list[str]) -> None:
    assert len({canonical_location(spelling) for spelling in spellings}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [("s3://bucket/x", "gs://bucket/x"), ("/lake/X", "/lake/x"), ("s3://a/b", "s3://a/b/"), ("file:/a", "s3://a")],
)
def test_two_places_stay_two(one: str, other: str) -> None:
    assert canonical_location(one) != canonical_location(other)


@given(
    st.lists(
        st.none()
        | st.builds(
            lambda scheme, slashes, rest: f"{scheme}:{'/' * slashes}{rest}",
            st.sampled_from(SCHEMES),
            st.integers(0, 3),
            st.text(st.characters(codec="utf-8"), max_size=12),
        )
        | st.text(st.characters(codec="utf-8"), max_size=12)
    )
)
def test_columns_are_spelled_like_single_locations(locations: list[str | None]) -> None:
    expected = [None if location is None else canonical_location(location) for location in locations]
    assert canonical_locations(pa.array(locations, pa.string())).to_pylist() == expected
