"""Two names of one place are equal once they are canonical; two places never are."""

from __future__ import annotations

import pytest

from lakeshift.locations import canonical_location


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
