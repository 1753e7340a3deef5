"""Draws: which values stand where, told by where they are special and not by one seed's numbers."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from build_tools.cases import draw
from build_tools.cases.words import Draw

INF = math.inf


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_a_generator_is_that_of_its_tensor() -> None:
    digest = hashlib.sha256(b"3\0op\0a label\0x").digest()
    wanted = np.random.default_rng(int.from_bytes(digest[:16], "little")).integers(1 << 60, size=4)
    assert draw.generator(3, "op", "a label", "x").integers(1 << 60, size=4).tolist() == wanted.tolist()


def test_numbers_of_a_distribution() -> None:
    plain = rng().standard_normal((3, 5))
    assert np.array_equal(draw.normal(rng(), (3, 5)), plain)
    assert np.array_equal(draw.normal(rng(), (3, 5), 3.0, 0.5), plain * 3 + 0.5)
    assert np.array_equal(draw.uniform(rng(), (9,), 2.0, 5.0), rng().uniform(2.0, 5.0, 9))
    assert draw.constant(rng(), (2, 2), 1.5).tolist() == [[1.5, 1.5]] * 2
    assert draw.zeros(rng(), (2,)).tolist() == [0.0, 0.0] and draw.ones(rng(), (2,)).tolist() == [1.0, 1.0]
    assert set(draw.ints(rng(), (200,), -1, 2).tolist()) == {-1, 0, 1, 2}
    assert np.array_equal(draw.ties(rng(), (3, 5)), np.rint(plain * 4) / 2)
    assert np.array_equal(draw.ties(rng(), (3, 5), 0.25), np.rint(plain * 8) / 4)
    assert sorted(draw.permutation(rng(), (2, 3)).ravel().tolist()) == list(range(6))
    assert draw.permutation(rng(), (2, 3)).shape == (2, 3)


@pytest.mark.parametrize(("given", "zeros"), [((), [1, 3, 5]), ((3.0,), [1, 4]), ((1.0,), [1, 2, 3, 4, 5])])
def test_rows_of_zeros(given: tuple[float, ...], zeros: list[int]) -> None:
    values = draw.zero_rows(rng(), (2, 3, 4), *given).reshape(6, 4)
    assert [row for row in range(6) if not values[row].any()] == zeros


def test_a_tensor_without_rows() -> None:
    for shape in ((0,), (3, 0), (0, 3)):
        for make in (draw.zero_rows, draw.nonfinite):
            assert make(rng(), shape).shape == shape
    assert draw.zero_rows(rng(), (1,)).all() and not draw.zero_rows(rng(), (2, 1))[1].any()


def _plain(row: np.ndarray) -> bool:
    return bool(np.isfinite(row).all() and row.all() and len(set(row.tolist())) == row.size)


def test_rows_that_are_not_finite() -> None:
    rows = draw.nonfinite(rng(), (2, 7, 200)).reshape(14, 200)
    for place, row in enumerate(rows):
        counts = int(np.isnan(row).sum()), int((row == INF).sum()), int((row == -INF).sum())
        assert counts == [(0, 0, 0), (1, 0, 0), (0, 2, 0), (0, 0, 0), (0, 0, 20), (0, 0, 200), (0, 2, 20)][
            place % 7
        ] or (
            place % 7 == 6 and counts in ((0, 1, 20), (0, 0, 20))  # one hides the other
        ), (place, counts)
        if place % 7 == 3:
            assert not row.any() and np.signbit(row).sum() == 100
        else:
            assert _plain(row[np.isfinite(row)])


def test_a_short_row_has_each_once() -> None:
    rows = draw.nonfinite(rng(), (7, 3))
    assert [int((rows[2] == INF).sum()), int((rows[4] == -INF).sum()), int(np.isnan(rows[1]).sum())] == [
        1,
        1,
        1,
    ]
    assert np.signbit(rows[3]).sum() == 2


LIMITS = {
    "f32": (float(np.finfo(np.float32).max), 2.0**-126, 2.0**-149), "f16": (65504.0, 2.0**-14, 2.0**-24),
    "bf16": (255 * 2.0**120, 2.0**-126, 2.0**-133), "e4m3fn": (448.0, 2.0**-6, 2.0**-9), "e4m3fnuz": (240.0, 2.0**-7, 2.0**-10),
}  # fmt: skip


@pytest.mark.parametrize("kind", LIMITS)
def test_rows_of_extremes(kind: str) -> None:
    largest, smallest, subnormal = LIMITS[kind]
    assert draw._LIMITS[kind] == LIMITS[kind]
    plain = rng().standard_normal((10, 200))
    rows = draw.extremes(rng(), (2, 5, 200), kind=kind).reshape(10, 200)
    for first in (0, 5):
        normal, large, small, least, square = rows[first : first + 5]
        assert _plain(normal) and np.abs(normal).max() < 10
        assert (large == -largest).sum() == 20 and 10 <= (large == largest).sum() <= 20
        assert (small == -subnormal).sum() == 20 and 10 <= (small == smallest).sum() <= 20
        assert set(least.tolist()) == {smallest, -smallest, subnormal, -subnormal, 3 * subnormal}
        assert 2 < np.abs(square).max() / (math.sqrt(largest) / 1024) < 5 and _plain(square)
    assert np.array_equal(rows[0], plain[0])


def test_edges_are_both_in_turn() -> None:
    """Two rows of each, each from its first special one on."""
    first = draw.nonfinite(state := rng(), (8, 50))
    second = draw.extremes(state, (8, 50), kind="f16")
    rows = draw.edges(rng(), (2, 4, 50), kind="f16").reshape(8, 50)
    for place, row in enumerate(rows):
        source = second if place in (2, 3, 6, 7) else first
        assert np.array_equal(row, source[(place + 1) % 8], equal_nan=True), place


def test_a_draw_is_stored_and_read_back() -> None:
    made = draw.draw(None, {}, rng(), (4, 4), "bf16", {})
    plain = rng().standard_normal((4, 4))
    assert np.abs(made - plain).max() <= np.abs(plain).max() * 2**-8
    assert draw.draw(Draw("constant", (1000.0,)), {}, rng(), (2,), "e4m3fn", {}).tolist() == [448.0, 448.0]
    assert draw.draw(Draw("constant", (1e6,)), {}, rng(), (1,), "f16", {}).tolist() == [INF]
    assert draw.draw(Draw("edges"), {}, rng(), (3, 8), "f16", {}).shape == (3, 8)
    own = {"mine": lambda _rng, shape, sizes, factor: np.full(shape, sizes["N"] * factor)}
    assert draw.draw(Draw("mine", (2.0,)), own, rng(), (2,), "f32", {"N": 3}).tolist() == [6.0, 6.0]
    with pytest.raises(ValueError, match=r"^integers have no usual values: say TENSOR~DRAW$"):
        draw.draw(None, {}, rng(), (2,), "i32", {})
    with pytest.raises(ValueError, match=r"^the draw uniform of f32: "):
        draw.draw(Draw("uniform"), {}, rng(), (2,), "f32", {})
    with pytest.raises(ValueError, match=r"^the draw extremes of f64: 'f64'$"):
        draw.draw(Draw("extremes"), {}, rng(), (2,), "f64", {})
