"""Where functions that draw numbers take the generator's state from, and how they move it on."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from aiter_prebuilt.errors import ArgumentKindError
from aiter_prebuilt.ops import sampling


class Generator:
    """As torch's of a device."""

    def __init__(self, seed: int, offset: int) -> None:
        self.seed, self.offset = seed, offset

    def initial_seed(self) -> int:
        return self.seed

    def get_offset(self) -> int:
        return self.offset

    def set_offset(self, offset: int) -> None:
        self.offset = offset


def rows(*shape: int, device: int | None = None) -> Any:
    return SimpleNamespace(shape=shape, device=SimpleNamespace(index=device))


@pytest.mark.parametrize("pair", [(5, 8), [5, 8]])
def test_a_pair_is_the_callers(pair: Any) -> None:
    assert sampling._state("f", pair, None) == (5, 8)


def test_the_generator_moves_on_as_aiters_does() -> None:
    """By four numbers for each 4096 columns that a row has or begins, whatever the number of rows."""
    for columns, step in ((1, 4), (4096, 4), (4097, 8), (32000, 32), (128256, 128)):
        for count in (1, 3, 100):
            generator = Generator(7, 12)
            assert sampling._state("f", generator, rows(count, columns)) == (7, 12)
            assert generator.offset == 12 + step == 12 + ((count * columns - 1) // (4096 * count) + 1) * 4


@pytest.mark.parametrize("shape", [(0, 4096), (3, 0)])
def test_nothing_drawn_moves_nothing(shape: tuple[int, int]) -> None:
    generator = Generator(7, 12)
    assert sampling._state("f", generator, rows(*shape)) == (7, 12) and generator.offset == 12


def test_seeds_of_64_bits() -> None:
    assert sampling._state("f", (2**64 - 1, 4), None) == (-1, 4)
    assert sampling._state("f", (2**63, 4), None) == (-(2**63), 4)
    assert sampling._state("f", (2**63 - 1, 0), None) == (2**63 - 1, 0)
    assert sampling._state("f", (-3, 0), None) == (-3, 0)


@pytest.mark.parametrize(("device", "place"), [(1, 1), (None, 0)])
def test_the_default_is_the_devices_own(
    device: int | None, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generators = [Generator(1, 0), Generator(2, 4)]
    cuda = SimpleNamespace(default_generators=generators, current_device=lambda: 0)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert sampling._state("f", None, rows(2, 5000, device=device)) == (place + 1, 4 * place)
    assert [each.offset for each in generators] == ([8, 4] if place == 0 else [0, 12])


@pytest.mark.parametrize("wrong", [5, "seed", (1,), (1, 2, 3), (1.0, 2), object()])
def test_what_is_no_state_is_refused(wrong: Any) -> None:
    with pytest.raises(
        ArgumentKindError, match=r"f: generator must be .* two integers \(seed, offset\), got "
    ):
        sampling._state("f", wrong, rows(2, 4096))


@pytest.mark.parametrize("offset", [-1, -4, 2**63, 2**64 - 4])
def test_an_offset_that_no_generator_has_is_named(offset: int) -> None:
    with pytest.raises(
        ArgumentKindError, match=rf"the offset of generator must be 0 to 2\*\*63 - 1, got {offset}\."
    ):
        sampling._state("f", (1, offset), None)
    assert sampling._state("f", (1, 2**63 - 1), None) == (1, 2**63 - 1)


def test_without_torch_there_is_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(
        ArgumentKindError,
        match=r"torch, which has a default one, is not loaded.*Pass generator=\(seed, offset\)",
    ):
        sampling._state("f", None, rows(2, 4096))
