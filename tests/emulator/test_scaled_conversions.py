"""gfx950's v_cvt_scalef32_*: division and multiplication by a power of two around one rounding, packing, random numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from support.lane_runs import Words, over_lanes
from support.one_wave import MODE
from support.small_float_model import all_values, bits_of, check_codes, interesting, same_floats

SMALL = {"fp8": "e4m3", "bf8": "e5m2", "fp6": "fp6", "bf6": "bf6", "fp4": "fp4"}


@pytest.fixture
def rng() -> np.random.Generator:
    """Fresh numbers each time; pytest shows the seed when the test fails."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def scaled_inputs(
    fmt: str, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], Words]:
    """Values that are interesting after the division, their scales' exponents, the scales' bits with random sign and mantissa."""
    base = interesting(fmt, rng, 300)
    scale = rng.integers(-40, 40, len(base))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        values = np.ldexp(base, scale).astype(np.float32)
    words = ((scale + 127) << 23).astype(np.uint32) | rng.integers(
        0, 2**32, len(base), dtype=np.uint32
    ) & np.uint32(0x807FFFFF)
    return values, scale, words


@pytest.mark.parametrize("kind", ["fp8", "bf8", "fp4"])
def test_scaled_pairs_shrink(kind: str, rng: np.random.Generator) -> None:
    fmt, bits = SMALL[kind], 4 if kind == "fp4" else 8
    values, scale, words = scaled_inputs(fmt, rng)
    places = (
        {"[0,0,0,0]": 0, "[0,0,1,0]": 8, "[0,0,0,1]": 16, "[0,0,1,1]": 24}
        if kind == "fp4"
        else {"[0,0,0,0]": 0, "[0,0,0,1]": 16}
    )
    for select, shift in places.items():
        got = over_lanes(
            "gfx950",
            f"v_cvt_scalef32_pk_{kind}_f32 {{d}}, {{a}}, {{b}}, {{c}} op_sel:{select}",
            [bits_of(values), bits_of(-values), words],
            old=0x12345678,
        )[0]
        mask = np.uint32(((1 << 2 * bits) - 1) << shift)
        assert (got & ~mask == 0x12345678 & ~mask).all()
        check_codes(fmt, got >> shift & (1 << bits) - 1, values, scale, False)
        check_codes(fmt, got >> (shift + bits) & (1 << bits) - 1, -values, scale, False)


@pytest.mark.parametrize("kind", ["fp8", "bf8", "fp4"])
@pytest.mark.parametrize("wide", ["f32", "f16", "bf16"])
def test_scaled_pairs_widen(kind: str, wide: str, rng: np.random.Generator) -> None:
    fmt, bits = SMALL[kind], 4 if kind == "fp4" else 8
    codes = np.arange(1 << bits, dtype=np.uint32).repeat(4)
    scale = rng.integers(-140 if wide == "f32" else -30, 30, len(codes)).clip(-127, 127)
    words = ((scale + 127) << 23).astype(np.uint32)
    places = (
        {"[0,0,0]": 0, "[1,0,0]": 8, "[0,1,0]": 16, "[1,1,0]": 24}
        if kind == "fp4"
        else {"[0,0,0]": 0, "[1,0,0]": 16}
    )
    for select, shift in places.items():
        source = (codes | codes[::-1] << np.uint32(bits)) << np.uint32(shift)
        got = over_lanes(
            "gfx950",
            f"v_cvt_scalef32_pk_{wide}_{kind} {{d}}, {{a}}, {{b}} op_sel:{select}",
            [source, words],
            out=2 if wide == "f32" else 1,
        )
        for n, part in enumerate((codes, codes[::-1])):
            with np.errstate(over="ignore", under="ignore"):
                exact = np.ldexp(all_values(fmt)[part].astype(np.float64), scale)
                if wide == "f32":
                    same_floats(got[n], exact.astype(np.float32))
                elif wide == "f16":
                    same_floats(
                        bits_of((got[0] >> 16 * n).astype(np.uint16).view(np.float16)),
                        exact.astype(np.float16).astype(np.float32),
                    )
                else:
                    same_floats(
                        got[0] << 16 if n == 0 else got[0] & 0xFFFF0000, exact.astype(np.float32)
                    )  # few bits: exact in bf16


@pytest.mark.parametrize("kind", ["fp6", "bf6"])
def test_blocks_of_six_bits(kind: str, rng: np.random.Generator) -> None:
    """32 values: f16 to six bits and back to f32, and 16 + 16 f32 interleaved."""
    fmt = SMALL[kind]
    lanes = 64
    values = rng.choice(interesting(fmt, rng, 0), (32, lanes))
    values[~(np.abs(values) < 60000)] = 0
    half = values.astype(np.float16)
    scale = rng.integers(-4, 5, lanes)
    words = ((scale + 127) << 23).astype(np.uint32)
    packed = half.view(np.uint16).astype(np.uint32)
    small = over_lanes(
        "gfx950",
        f"v_cvt_scalef32_pk32_{kind}_f16 {{d}}, {{a}}, {{b}}",
        [packed[0::2] | packed[1::2] << np.uint32(16), words],
        out=6,
    )
    codes = six_bit_codes(small)
    for i in range(32):
        check_codes(fmt, codes[i], half[i].astype(np.float32), scale, True)
    wide = over_lanes("gfx950", f"v_cvt_scalef32_pk32_f32_{kind} {{d}}, {{a}}, {{b}}", [small, words], out=32)
    for i in range(32):
        same_floats(wide[i], np.ldexp(all_values(fmt)[codes[i]], scale).astype(np.float32))
    mixed = over_lanes(
        "gfx950",
        f"v_cvt_scalef32_2xpk16_{kind}_f32 {{d}}, {{a}}, {{b}}, {{c}}",
        [bits_of(values[:16]), bits_of(values[16:]), words],
        out=6,
    )
    codes = six_bit_codes(mixed)
    for i in range(32):
        check_codes(fmt, codes[i], values[i // 2 + 16 * (i % 2)], scale, True)


@pytest.mark.parametrize("kind", ["fp6", "bf6"])
def test_stochastic_blocks(kind: str, rng: np.random.Generator) -> None:
    """Each element takes the generator's next number."""
    fmt = SMALL[kind]
    values = rng.standard_normal((32, 64)).astype(np.float32)
    seeds = rng.integers(0, 2**32, 64, dtype=np.uint32)
    words = np.full(64, 127 << 23, np.uint32)
    codes = six_bit_codes(
        over_lanes(
            "gfx950",
            f"v_cvt_scalef32_sr_pk32_{kind}_f32 {{d}}, {{a}}, {{b}}, {{c}}",
            [bits_of(values), seeds, words],
            out=6,
        )
    )
    for i in range(32):
        check_codes(fmt, codes[i], values[i], None, True, seeds)
        stepped = over_lanes("gfx950", "v_prng_b32 {d}, {a}", [seeds])[0]
        assert (stepped == (seeds << 1 ^ np.where(seeds >> 31, 197, 0)).astype(np.uint32)).all()
        seeds = stepped


def six_bit_codes(packed: Words) -> Words:
    """Elements 0..31 of six dwords per lane."""
    lanes = [sum(int(packed[d, lane]) << 32 * d for d in range(6)) for lane in range(packed.shape[1])]
    return np.array([[lane >> 6 * i & 63 for lane in lanes] for i in range(32)], np.uint32)


def test_widening_stays_finite_with_fp16_ovfl() -> None:
    """448 * 2^10 is beyond f16: infinity, or with MODE.FP16_OVFL the largest finite number; an infinity of e5m2 stays one."""
    scale = np.array([(127 + 10) << 23] * 2, np.uint32)
    codes = np.array([0x7E, 0xFE], np.uint32)
    for mode, wanted in ((MODE, 0x7C00), (MODE | 1 << 23, 0x7BFF)):
        got = over_lanes("gfx950", "v_cvt_scalef32_f16_fp8 {d}, {a}, {b}", [codes, scale], mode=mode)[0]
        assert list(got) == [wanted, wanted | 0x8000]
        got = over_lanes(
            "gfx950", "v_cvt_scalef32_f16_bf8 {d}, {a}, {b}", [codes * 0 + 0x7C, scale], mode=mode
        )[0]
        assert list(got) == [0x7C00] * 2
