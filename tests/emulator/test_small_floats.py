"""Conversions between the floating-point formats: every code of the narrow ones, midpoints and random numbers."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from support.lane_runs import over_lanes
from support.one_wave import MODE
from support.small_float_model import all_values, bits_of, check_codes, f32, interesting, same_floats

TARGETS = ("gfx942", "gfx950")
SATURATE = MODE | 1 << 23  # MODE.FP16_OVFL
NAMES = {"gfx942": {"fp8": "e4m3fnuz", "bf8": "e5m2fnuz"}, "gfx950": {"fp8": "e4m3", "bf8": "e5m2"}}
eights = pytest.mark.parametrize(("target", "kind"), [(t, k) for t in TARGETS for k in ("fp8", "bf8")])


@pytest.fixture
def rng() -> np.random.Generator:
    """Fresh numbers each time; pytest shows the seed when the test fails."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


# --- eight bits -----------------------------------------------------------------------------------------------


@eights
def test_every_code_widens(target: str, kind: str) -> None:
    fmt = NAMES[target][kind]
    codes = np.arange(256, dtype=np.uint32)
    wanted = all_values(fmt)
    same_floats(over_lanes(target, f"v_cvt_f32_{kind} {{d}}, {{a}}", [codes])[0], wanted)
    for byte in range(4):
        word = codes << (8 * byte) | np.uint32(0x5A5A5A5A) & ~np.uint32(0xFF << 8 * byte)
        same_floats(
            over_lanes(target, f"v_cvt_f32_{kind}_sdwa {{d}}, {{a}} src0_sel:BYTE_{byte}", [word])[0], wanted
        )
    for half in range(2):
        word = (codes | codes[::-1] << np.uint32(8)) << np.uint32(16 * half)
        both = over_lanes(
            target, f"v_cvt_pk_f32_{kind}_sdwa {{d}}, {{a}} src0_sel:WORD_{half}", [word], out=2
        )
        same_floats(both[0], wanted)
        same_floats(both[1], wanted[::-1])


@eights
@pytest.mark.parametrize("saturate", [False, True])
def test_eight_bits_round(target: str, kind: str, saturate: bool, rng: np.random.Generator) -> None:
    fmt = NAMES[target][kind]
    values = interesting(fmt, rng)
    other = np.roll(values, 1)
    mode = SATURATE if saturate else MODE
    low = over_lanes(
        target,
        f"v_cvt_pk_{kind}_f32 {{d}}, {{a}}, {{b}}",
        [bits_of(values), bits_of(other)],
        old=0xABCD1234,
        mode=mode,
    )[0]
    assert (low >> 16 == 0xABCD).all()
    check_codes(fmt, low & 0xFF, values, None, saturate)
    high = over_lanes(
        target,
        f"v_cvt_pk_{kind}_f32 {{d}}, {{a}}, {{b}} op_sel:[0,0,1]",
        [bits_of(values), bits_of(other)],
        old=0xABCD1234,
        mode=mode,
    )[0]
    assert (high == (low & 0xFFFF) << 16 | 0x1234).all()
    assert (low >> 8 & 0xFF == np.roll(low & 0xFF, 1)).all()


@eights
def test_torch_agrees(target: str, kind: str, rng: np.random.Generator) -> None:
    """The same conversion in torch, in range: versions of torch differ beyond it."""
    torch = pytest.importorskip("torch")
    types = {
        "e4m3fnuz": "float8_e4m3fnuz",
        "e5m2fnuz": "float8_e5m2fnuz",
        "e4m3": "float8_e4m3fn",
        "e5m2": "float8_e5m2",
    }
    kind_of = getattr(torch, types[NAMES[target][kind]])
    codes = torch.arange(256, dtype=torch.uint8)
    wide = codes.view(kind_of).float().numpy()
    same_floats(over_lanes(target, f"v_cvt_f32_{kind} {{d}}, {{a}}", [codes.numpy()])[0], wide)
    values = interesting(NAMES[target][kind], rng)
    values = values[np.abs(values) <= np.nanmax(np.where(np.isinf(wide), 0, wide))]
    got = over_lanes(target, f"v_cvt_pk_{kind}_f32 {{d}}, {{a}}, {{a}}", [bits_of(values)])[0] & 0xFF
    wanted = torch.from_numpy(values).to(kind_of)
    again = torch.from_numpy(got.astype(np.uint8)).view(kind_of)
    assert torch.equal(again.float().nan_to_num(1e9), wanted.float().nan_to_num(1e9))


@eights
def test_stochastic_eight_bits(target: str, kind: str, rng: np.random.Generator) -> None:
    fmt = NAMES[target][kind]
    values = interesting(fmt, rng)
    random = rng.integers(0, 2**32, len(values), dtype=np.uint32)
    for byte, select in enumerate(("[0,0,0,0]", "[0,0,1,0]", "[0,0,0,1]", "[0,0,1,1]")):
        got = over_lanes(
            target,
            f"v_cvt_sr_{kind}_f32 {{d}}, {{a}}, {{b}} op_sel:{select}",
            [bits_of(values), random],
            old=0x12345678,
        )[0]
        mask = np.uint32(0xFF << 8 * byte)
        assert (got & ~mask == 0x12345678 & ~mask).all()
        check_codes(fmt, (got & mask) >> (8 * byte), values, None, False, random)


# --- 16 bits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_every_f16(target: str) -> None:
    codes = np.arange(65536, dtype=np.uint32)
    same_floats(
        over_lanes(target, "v_cvt_f32_f16 {d}, {a}", [codes])[0],
        codes.astype(np.uint16).view(np.float16).astype(np.float32),
    )
    back = over_lanes(target, "v_cvt_f16_f32 {d}, {a}", [bits_of(codes.astype(np.uint16).view(np.float16))])[
        0
    ]
    nan = (codes & 0x7FFF) > 0x7C00
    assert (back[~nan] == codes[~nan]).all() and ((back[nan] & 0x7E00) == 0x7E00).all()


def test_every_bf16(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    codes = np.arange(65536, dtype=np.uint32)
    same_floats(over_lanes("gfx950", "v_cvt_f32_bf16 {d}, {a}", [codes])[0], f32(codes << np.uint32(16)))
    values = np.concatenate(
        [f32(codes << np.uint32(16) | np.uint32(low)) for low in (0, 0x7FFF, 0x8000, 0x8001)]
    )
    got = over_lanes("gfx950", "v_cvt_pk_bf16_f32 {d}, {a}, {b}", [bits_of(values), bits_of(-values)])[0]
    wanted = torch.from_numpy(values).bfloat16().float().numpy()
    same_floats(got << 16, wanted)
    same_floats(got & 0xFFFF0000, -wanted)


def half_toward(value: float, rounding: int, saturate: bool) -> int:
    """f16 code by the definition of the rounding direction: 0 even, 1 up, 2 down, 3 zero."""
    sign = 0x8000 * int(np.signbit(value))
    exact = Fraction(abs(float(value)))
    if exact >= Fraction(65536):
        at, part = 0x7BFF, Fraction(1)
    else:
        step = Fraction(2) ** max(int(np.frexp(abs(value))[1]) - 11, -24)
        count = exact / step
        part = count - floor(count)
        at = round(float(np.float16(float(floor(count) * step)).view(np.uint16)))
    away = {1: not sign, 2: bool(sign), 3: False}.get(rounding)
    up = (
        part > 0 and away
        if away is not None
        else part > Fraction(1, 2) or (part == Fraction(1, 2) and at % 2 == 1)
    )
    code = at + bool(up)
    return sign | (0x7BFF if code == 0x7C00 and saturate else code)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rounding", range(4))
def test_f16_rounds_as_mode_says(target: str, rounding: int, rng: np.random.Generator) -> None:
    exact = rng.integers(0, 0x7C00, 500).astype(np.uint16).view(np.float16).astype(np.float32)
    values = np.concatenate(
        [
            exact,
            np.nextafter(exact, np.float32(0)),
            exact * np.float32(1 + 2**-11),
            exact * np.float32(1.0001),
            [65519, 65520, 1e6, 3e-8, 2**-25],
        ]
    ).astype(np.float32)
    values = np.concatenate([values, -values])
    for saturate in (False, True):
        mode = (SATURATE if saturate else MODE) | rounding << 2
        got = over_lanes(target, "v_cvt_f16_f32 {d}, {a}", [bits_of(values)], mode=mode)[0]
        for value, code in zip(values, got, strict=True):
            assert code == half_toward(float(value), rounding, saturate), (float(value), hex(code))
        both = over_lanes(
            target, "v_cvt_pkrtz_f16_f32 {d}, {a}, {b}", [bits_of(values), bits_of(values[::-1])], mode=mode
        )[0]
        wanted = np.array([half_toward(float(value), 3, saturate) for value in values], np.uint32)
        assert (both == wanted | wanted[::-1] << 16).all()
