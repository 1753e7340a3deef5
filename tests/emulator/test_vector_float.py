"""Floating point of the embedded device's vector instructions: division, MODE, NaN, modifiers of the result."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from support.one_wave import LANES, MODE, Result, run_wave

TARGETS = ("gfx942", "gfx950")
both = pytest.mark.parametrize("target", TARGETS)
END = "\ns_nop 4\ns_endpgm"
Words = NDArray[np.uint32]
Longs = NDArray[np.uint64]
EDGES_32 = (0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC01234, 0x7F801234)
EDGES_64 = (0, 1, 0xFFFFFFFFFFFFF, 1 << 52, 0x3FF << 52, 0x7FEFFFFFFFFFFFFF, 0x7FF << 52, 0x7FF8000000001234)

# LLVM's expansions of a / b with denormals.
DIVIDE_32 = """
    v_div_scale_f32 v4, s[0:1], v1, v1, v0
    v_div_scale_f32 v5, vcc, v0, v1, v0
    v_rcp_f32 v6, v4
    v_fma_f32 v7, -v4, v6, 1.0
    v_fma_f32 v6, v7, v6, v6
    v_mul_f32 v7, v5, v6
    v_fma_f32 v8, -v4, v7, v5
    v_fma_f32 v7, v8, v6, v7
    v_fma_f32 v4, -v4, v7, v5
    v_div_fmas_f32 v4, v4, v6, v7
    v_div_fixup_f32 v4, v4, v1, v0"""
DIVIDE_64 = """
    v_div_scale_f64 v[4:5], s[0:1], v[2:3], v[2:3], v[0:1]
    v_rcp_f64 v[6:7], v[4:5]
    v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0
    v_fma_f64 v[6:7], v[6:7], v[8:9], v[6:7]
    v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0
    v_fma_f64 v[6:7], v[6:7], v[8:9], v[6:7]
    v_div_scale_f64 v[8:9], vcc, v[0:1], v[2:3], v[0:1]
    v_mul_f64 v[10:11], v[8:9], v[6:7]
    v_fma_f64 v[4:5], -v[4:5], v[10:11], v[8:9]
    v_div_fmas_f64 v[4:5], v[4:5], v[6:7], v[10:11]
    v_div_fixup_f64 v[4:5], v[4:5], v[2:3], v[0:1]"""


@pytest.fixture
def rng(record_property: Callable[[str, object], None]) -> np.random.Generator:
    """Fresh numbers for every run; the seed is in the report."""
    seed = random.SystemRandom().getrandbits(32)
    record_property("seed", seed)
    return np.random.default_rng(seed)


def words(rng: np.random.Generator) -> Words:
    """f32 of every exponent, an edge case in every eighth lane, both signs."""
    bits: Words = rng.integers(0, 1 << 32, LANES, dtype=np.uint32)
    bits[::8] = bits[::8] & np.uint32(1 << 31) | rng.choice(np.array(EDGES_32, np.uint32), LANES // 8)
    return bits


def longs(rng: np.random.Generator) -> Longs:
    """f64 in the same way."""
    bits: Longs = rng.integers(0, 1 << 64, LANES, dtype=np.uint64)
    bits[::8] = bits[::8] & np.uint64(1 << 63) | rng.choice(np.array(EDGES_64, np.uint64), LANES // 8)
    return bits


def f32(bits: Words) -> NDArray[np.float32]:
    return bits.view(np.float32)


def run(target: str, code: str, *rows: Words, mode: int = MODE) -> Result:
    result = run_wave(target, code + END, vector={i: row.tolist() for i, row in enumerate(rows)}, mode=mode)
    assert result.fault == 0, result.message
    return result


def row(result: Result, index: int) -> Words:
    return np.array(result.row(index), np.uint32)


def pair(result: Result, index: int) -> Longs:
    bits: Longs = row(result, index).astype(np.uint64) | row(result, index + 1).astype(
        np.uint64
    ) << np.uint64(32)
    return bits


def halves(bits: Longs) -> tuple[Words, Words]:
    return (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)


@both
def test_division(target: str, rng: np.random.Generator) -> None:
    """LLVM's expansions give the correctly rounded quotient of any two numbers: overflow, underflow, denormals."""
    for _ in range(8):
        a, b = words(rng), words(rng)
        with np.errstate(all="ignore"):
            want = f32(a) / f32(b)
        got = f32(row(run(target, DIVIDE_32, a, b), 4))
        assert np.array_equal(np.isnan(got), np.isnan(want))
        assert np.array_equal(got.view(np.uint32)[~np.isnan(want)], want.view(np.uint32)[~np.isnan(want)])
        c, d = longs(rng), longs(rng)
        with np.errstate(all="ignore"):
            exact = c.view(np.float64) / d.view(np.float64)
        quotient = pair(run(target, DIVIDE_64, *halves(c), *halves(d)), 4).view(np.float64)
        assert np.array_equal(np.isnan(quotient), np.isnan(exact))
        assert np.array_equal(
            quotient.view(np.uint64)[~np.isnan(exact)], exact.view(np.uint64)[~np.isnan(exact)]
        )


def settled(result: NDArray[np.float32], *sources: Words) -> Words:
    """The first NaN of the sources made quiet, or the positive default NaN."""
    bits = np.where(np.isnan(result), np.uint32(0x7FC00000), result.view(np.uint32))
    for source in reversed(sources):
        bits = np.where(np.isnan(result) & np.isnan(f32(source)), source | np.uint32(0x400000), bits)
    return bits.astype(np.uint32)


def flushed(bits: Words) -> Words:
    return np.where(bits & np.uint32(0x7F800000), bits, bits & np.uint32(0x80000000)).astype(np.uint32)


@both
def test_denormals_and_nan(target: str, rng: np.random.Generator) -> None:
    """Kept by default; MODE's f32 field flushes operands and results of f32, and leaves f16 alone."""
    a, b = words(rng), words(rng)
    code = "v_mul_f32 v2, v0, v1\nv_add_f32 v3, -v0, |v1|\nv_mul_f16 v4, 1.0, v0"
    kept, off = run(target, code, a, b), run(target, code, a, b, mode=MODE & ~0x30)
    with np.errstate(all="ignore"):
        assert np.array_equal(row(kept, 2), settled(f32(a) * f32(b), a, b))
        assert np.array_equal(row(off, 2), flushed(settled(f32(flushed(a)) * f32(flushed(b)), a, b)))
        negative, absolute = a ^ np.uint32(0x80000000), b & np.uint32(0x7FFFFFFF)
        assert np.array_equal(row(kept, 3), settled(f32(negative) + f32(absolute), negative, absolute))
    assert np.array_equal(row(kept, 4), row(off, 4))
    number = (a & np.uint32(0x7C00)) != 0x7C00
    assert np.array_equal(row(kept, 4)[number], (a & np.uint32(0xFFFF))[number])


def rounded(value: Fraction, bits: int, smallest: int, direction: int) -> Fraction:
    """``value`` to ``bits`` significant bits, its last at or above 2^``smallest``. 0 nearest even, 1 up, 2 down, 3 zero."""
    if value == 0:
        return value
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    exponent -= abs(value) < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - bits + 1, smallest)
    scaled = value / unit
    floor = scaled.numerator // scaled.denominator
    choices = {
        0: round(scaled),
        1: floor + (scaled != floor),
        2: floor,
        3: floor + (scaled != floor and scaled < 0),
    }
    return choices[direction] * unit


@both
@pytest.mark.parametrize("direction", range(4))
def test_rounding(target: str, direction: int, rng: np.random.Generator) -> None:
    """f32 rounds by one field of MODE, f16 by the other; a fused multiply-add rounds once."""
    # Every exponent whose product stays inside the format, so that overflow is not at stake.
    signs = [rng.integers(1 << 31, 1 << 32, LANES, dtype=np.uint64) & 0x807FFFFF for _ in range(3)]
    a, b, c = ((x | rng.integers(40, 180, LANES).astype(np.uint64) << 23).astype(np.uint32) for x in signs)
    single = row(run(target, "v_fma_f32 v3, v0, v1, v2", a, b, c, mode=MODE | direction), 3)
    for lane in range(LANES):
        x, y, z = (Fraction(float(f32(v)[lane])) for v in (a, b, c))
        assert Fraction(float(f32(single)[lane])) == rounded(x * y + z, 24, -149, direction)
    d, e, f = (
        rng.integers(0, 0x4C00, LANES, dtype=np.uint32) | rng.choice([0, 0x8000], LANES).astype(np.uint32)
        for _ in range(3)
    )
    half = row(run(target, "v_fma_f16 v3, v0, v1, v2", d, e, f, mode=MODE | direction << 2), 3)
    values = [v.astype(np.uint16).view(np.float16) for v in (d, e, f, half & np.uint32(0xFFFF))]
    for lane in range(LANES):
        x, y, z = (Fraction(float(v[lane])) for v in values[:3])
        assert Fraction(float(values[3][lane])) == rounded(x * y + z, 11, -24, direction)


@both
def test_output_modifiers(target: str, rng: np.random.Generator) -> None:
    """omod needs denormals and IEEE mode off; clamp goes to [0, 1], NaN to 0 only with DX10_CLAMP."""
    a, b = words(rng), words(rng)
    code = "v_mul_f32 v2, v0, v1 mul:4\nv_mul_f32 v3, v0, v1 clamp"
    ignored, plain = run(target, code, a, b), run(target, code, a, b, mode=MODE & ~0x100)
    with np.errstate(all="ignore"):
        product = f32(a) * f32(b)
        assert np.array_equal(row(ignored, 2), settled(product, a, b))
        clamped = np.clip(product, 0, 1) + np.float32(0)
        wanted = np.where(np.isnan(product), np.float32(0), clamped)
        assert np.array_equal(f32(row(ignored, 3)), wanted)
        assert np.array_equal(
            row(plain, 3), np.where(np.isnan(product), settled(product, a, b), wanted.view(np.uint32))
        )
        normal = (
            (np.abs(product) > 1e-30)
            & (np.abs(product) < 1e30)
            & (np.abs(f32(a)) > 1.2e-38)
            & (np.abs(f32(b)) > 1.2e-38)
        )
        scaled = row(run(target, code, a, b, mode=MODE & ~0x230), 2)
        assert normal.any()
        assert np.array_equal(f32(scaled)[normal], (product * np.float32(4))[normal])
    zero = np.full(LANES, 0x80000000, np.uint32)
    assert (
        row(run(target, code, zero, np.full(LANES, 0x3F800000, np.uint32), mode=MODE & ~0x230), 2).tolist()
        == [0] * LANES
    )
