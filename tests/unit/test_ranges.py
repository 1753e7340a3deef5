"""Which calls a measured row decides: as a look-up of one size after the other would find it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from build_tools.plan.ranges import MOST, decided, joined, where

Padding = Callable[[int], int]


def sixteen(size: int) -> int:
    return -(-size // 16) * 16


def power(size: int) -> int:
    return 1 << (size - 1).bit_length()


def capped(size: int) -> int:
    return min(power(size), 64)


def looked_up(size: int, measured: set[int], paddings: tuple[Padding, ...]) -> int | None:
    return next((found for found in (size, *(pad(size) for pad in paddings)) if found in measured), None)


def test_rows_of_their_own_size_alone() -> None:
    assert decided([7, 3, 7], ()) == {3: [(3, 3)], 7: [(7, 7)]}


def test_a_size_of_its_own_goes_before_a_padded_one() -> None:
    assert decided([64, 50], (sixteen,)) == {50: [(50, 50)], 64: [(49, 49), (51, 64)]}


def test_the_first_padding_that_finds_a_row_decides() -> None:
    assert decided([48, 64], (sixteen, power)) == {48: [(33, 48)], 64: [(49, 64)]}
    assert decided([64], (sixteen, power)) == {64: [(33, 64)]}


def test_a_padding_without_end_goes_as_far_as_dims_go() -> None:
    assert decided([64], (capped,)) == {64: [(33, (1 << 31) - 1)]}


@pytest.mark.parametrize("seed", range(20))
def test_every_size_is_decided_as_the_look_up_has_it(seed: int) -> None:
    dice = random.Random(seed)
    measured = {dice.randint(1, 300) for _ in range(dice.randint(1, 30))} | {16 * dice.randint(1, 20)}
    paddings = ((sixteen, power), (power, sixteen), (sixteen, capped), (power,))[seed % 4]
    found = decided(measured, paddings)
    by_size = {
        size: row
        for row, spans in found.items()
        for first, last in spans
        for size in range(first, min(last, 600) + 1)
    }
    assert by_size == {
        size: row for size in range(1, 601) if (row := looked_up(size, measured, paddings)) is not None
    }


def test_neighbours_are_one_range() -> None:
    assert joined([(5, 6), (1, 2), (3, 3), (8, 9)]) == [(1, 3), (5, 6), (8, 9)]


def test_where_something_holds() -> None:
    assert where([(1, 9), (20, 21)], lambda size: size % 5 < 3) == [(1, 2), (5, 7), (20, 21)]
    assert where([(1, 1 << 30)], lambda size: True) == [(1, MOST)]
