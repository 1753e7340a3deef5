"""What callers give for an option that is a number: numbers of any kind, and a named refusal for everything else."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt.ops._common import halvings, splits


class Parts(enum.Enum):
    FOUR = 4


class Index:
    def __index__(self) -> int:
        return 3


@pytest.mark.parametrize(
    ("value", "parts"), [(None, 0), (1, 1), (7, 7), (Parts.FOUR, 4), (Index(), 3), (True, 1)]
)
def test_parts_of_k(value: Any, parts: int) -> None:
    assert splits("f", value) == parts


@pytest.mark.parametrize(("value", "power"), [(None, -1), (0, 0), (4, 4), (Parts.FOUR, 4), (Index(), 3)])
def test_halvings_of_k(value: Any, power: int) -> None:
    assert halvings("f", value) == power


@pytest.mark.parametrize("value", [-1, "1", 1.0, [1], b"1", object()])
def test_what_is_no_number_of_parts_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"f\(splitK="):
        splits("f", value)
    with pytest.raises(UnsupportedError, match=r"f\(log2_k_split="):
        halvings("f", value)


def test_the_ends() -> None:
    with pytest.raises(
        UnsupportedError, match=r"splitK=0\): no prebuilt kernel covers it\. Use splitK=None or 1 and more"
    ):
        splits("f", 0)
    with pytest.raises(UnsupportedError, match=r"log2_k_split=5\)"):
        halvings("f", 5)
