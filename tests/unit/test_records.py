"""Records survive the way from an executor to the driver."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lakeshift.records import decode_records, encode_records


@dataclass(frozen=True)
class Inner:
    name: str
    size: int | None


@dataclass(frozen=True)
class Outer:
    number: int
    share: float
    data: bytes
    flag: bool
    counts: dict[int, int]
    bounds: dict[int, bytes]
    parts: tuple[Inner, ...]
    values: list[bytes | None]
    inner: Inner | None
    note: str | None


@dataclass(frozen=True)
class Unfit:
    anything: object


FULL = Outer(
    number=-(2**63),
    share=float("inf"),
    data=b"\x00\xff",
    flag=True,
    counts={1: 2, 2**31: 0},
    bounds={7: b""},
    parts=(Inner("Ø\U0001f30a", 1), Inner("", None)),
    values=[None, b"x"],
    inner=Inner("deep", 3),
    note="text",
)
EMPTY = Outer(0, 0.0, b"", False, {}, {}, (), [], None, None)


@pytest.mark.parametrize("records", [[], [FULL], [EMPTY, FULL, EMPTY]])
def test_records_come_back_as_they_were(records: list[Outer]) -> None:
    assert decode_records(Outer, encode_records(Outer, records)) == records


def test_records_of_another_type_are_refused() -> None:
    with pytest.raises(TypeError, match="Expected records of Outer"):
        decode_records(Outer, encode_records(Inner, [Inner("a", 1)]))


def test_a_type_without_an_arrow_form_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold"):
        encode_records(Unfit, [])
