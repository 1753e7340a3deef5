"""Packed arithmetic of the embedded device: halves, signs and saturation of VOP3P, mixed precision, dot products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.lane_runs import Words, over_lanes
from support.matrix_model import _fma32
from support.one_wave import MODE

TARGETS = ("gfx942", "gfx950")
both = pytest.mark.parametrize("target", TARGETS)
COUNT = 512
Bits = list[int]


@pytest.fixture
def rng() -> np.random.Generator:
    """Fresh numbers each time; pytest shows the seed when the test fails."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def modifiers(rng: np.random.Generator, sources: int, names: tuple[str, ...]) -> tuple[str, dict[str, Bits]]:
    """Random bits per source for each named modifier, and how they are written."""
    bits = {name: [int(bit) for bit in rng.integers(0, 2, sources)] for name in names}
    return " ".join(f"{name}:[{','.join(map(str, row))}]" for name, row in bits.items()), bits


def half(word: Words, high: int) -> npt.NDArray[np.uint16]:
    return (word >> (16 * high) & 0xFFFF).astype(np.uint16)


def f16_words(rng: np.random.Generator, count: int = COUNT) -> Words:
    """Two finite f16 per word, of all sizes."""
    codes = rng.integers(0, 0x7C00, (2, count)) | rng.integers(0, 2, (2, count)) << 15
    words: Words = (codes[0] | codes[1] << 16).astype(np.uint32)
    return words


Operation = Callable[..., npt.NDArray[Any]]
_F16: dict[str, tuple[int, Operation]] = {
    "v_pk_add_f16": (2, lambda a, b: a + b),
    "v_pk_mul_f16": (2, lambda a, b: a * b),
    "v_pk_fma_f16": (3, lambda a, b, c: a * b + c),
    "v_pk_min_f16": (2, np.minimum),
    "v_pk_max_f16": (2, np.maximum),
    "v_pk_minimum3_f16": (3, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "v_pk_maximum3_f16": (3, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
}  # fmt: skip


@both
@pytest.mark.parametrize("name", _F16)
def test_f16(target: str, name: str, rng: np.random.Generator) -> None:
    """Exact in float64, rounded once; clamp is to [0, 1]."""
    count, operation = _F16[name]
    if "imum3" in name and target == "gfx942":
        pytest.skip("gfx950's")
    words = [f16_words(rng) for _ in range(count)]
    for clamp in ("", " clamp"):
        text, bits = modifiers(rng, count, ("op_sel", "op_sel_hi", "neg_lo", "neg_hi"))
        operands = ", ".join(f"{{{letter}}}" for letter in "abc"[:count])
        got = over_lanes(target, f"{name} {{d}}, {operands} {text}{clamp}", words)[0]
        for part, (select, negate) in enumerate((("op_sel", "neg_lo"), ("op_sel_hi", "neg_hi"))):
            values = [
                half(w, bits[select][i]).view(np.float16).astype(np.float64) * (-1) ** bits[negate][i]
                for i, w in enumerate(words)
            ]
            with np.errstate(over="ignore"):
                wanted = operation(*values).astype(np.float16)
            wanted = np.clip(wanted, np.float16(0), np.float16(1)) if clamp else wanted
            result = half(got, part).view(np.float16)
            assert np.array_equal(result, wanted), (text, part)


@both
def test_nan_and_zero_of_minimum(target: str) -> None:
    """v_pk_min prefers numbers to NaN; gfx950's minimum3 does not, and knows the order of zeros."""
    one, nan, zero, minus = 0x3C00, 0x7E00, 0x0000, 0x8000
    a = np.array([nan | zero << 16, one | nan << 16], np.uint32)
    b = np.array([one | minus << 16, nan | one << 16], np.uint32)
    low = over_lanes(target, "v_pk_min_f16 {d}, {a}, {b}", [a, b])[0]
    assert low[0] & 0xFFFF == one and low[1] == one | one << 16
    if target == "gfx950":
        three = over_lanes(target, "v_pk_minimum3_f16 {d}, {a}, {b}, {b}", [a, b])[0]
        assert three[0] == nan | minus << 16 and three[1] == nan | nan << 16


@both
def test_fmac(target: str, rng: np.random.Generator) -> None:
    words = [f16_words(rng), f16_words(rng)]
    got = over_lanes(target, "v_pk_fmac_f16 {d}, {a}, {b}", words, old=0x3C00C000)[0]
    for part, old in ((0, -2.0), (1, 1.0)):
        a, b = (half(w, part).view(np.float16).astype(np.float64) for w in words)
        with np.errstate(over="ignore"):
            assert np.array_equal(half(got, part).view(np.float16), (a * b + old).astype(np.float16))


_INTEGERS: dict[str, tuple[int, Operation]] = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "max": (2, np.maximum),
    "min": (2, np.minimum),
    "mad": (3, lambda a, b, c: a * b + c),
}


@both
@pytest.mark.parametrize("name", _INTEGERS)
@pytest.mark.parametrize("kind", ["i16", "u16"])
def test_integers(target: str, name: str, kind: str, rng: np.random.Generator) -> None:
    """Wrap without clamp, saturate with it."""
    count, operation = _INTEGERS[name]
    info = np.iinfo(np.int16 if kind == "i16" else np.uint16)
    words = [rng.integers(0, 2**32, COUNT, dtype=np.uint32) for _ in range(count)]
    operands = ", ".join(f"{{{letter}}}" for letter in "abc"[:count])
    for clamp in ("",) if name in ("max", "min") else ("", " clamp"):
        text, bits = modifiers(rng, count, ("op_sel", "op_sel_hi"))
        got = over_lanes(target, f"v_pk_{name}_{kind} {{d}}, {operands} {text}{clamp}", words)[0]
        for part, select in enumerate(("op_sel", "op_sel_hi")):
            values = [half(w, bits[select][i]).view(info.dtype).astype(np.int64) for i, w in enumerate(words)]
            wanted = operation(*values)
            wanted = np.clip(wanted, info.min, info.max) if clamp else wanted
            assert np.array_equal(half(got, part), (wanted & 0xFFFF).astype(np.uint16)), (text, part)


@both
@pytest.mark.parametrize(
    ("name", "kind"), [("lshlrev_b16", np.uint16), ("lshrrev_b16", np.uint16), ("ashrrev_i16", np.int16)]
)
def test_shifts(target: str, name: str, kind: type, rng: np.random.Generator) -> None:
    """By the low four bits of each half of source 0; an inline constant lies in the low half only."""
    words = [rng.integers(0, 2**32, COUNT, dtype=np.uint32) for _ in range(2)]
    shift = np.left_shift if name.startswith("lshl") else np.right_shift
    got = over_lanes(target, f"v_pk_{name} {{d}}, {{a}}, {{b}}", words)[0]
    for part in range(2):
        wanted = shift(half(words[1], part).view(kind), half(words[0], part).view(kind) & 15)
        assert np.array_equal(half(got, part).view(kind), wanted)
    got = over_lanes(target, f"v_pk_{name} {{d}}, 3, {{a}}", words[:1])[0]
    assert np.array_equal(half(got, 0).view(kind), shift(half(words[0], 0).view(kind), kind(3)))
    assert np.array_equal(half(got, 1), half(words[0], 1))


@both
@pytest.mark.parametrize("name", ["v_pk_add_f32", "v_pk_mul_f32", "v_pk_fma_f32"])
def test_f32_pairs(target: str, name: str, rng: np.random.Generator) -> None:
    count = 3 if "fma" in name else 2
    pairs = [rng.standard_normal((2, COUNT)).astype(np.float32) for _ in range(count)]
    text, bits = modifiers(rng, count, ("op_sel", "op_sel_hi", "neg_lo", "neg_hi"))
    operands = ", ".join(f"{{{letter}}}" for letter in "abc"[:count])
    got = over_lanes(
        target, f"{name} {{d}}, {operands} {text}", [pair.view(np.uint32) for pair in pairs], out=2
    ).view(np.float32)
    for part, (select, negate) in enumerate((("op_sel", "neg_lo"), ("op_sel_hi", "neg_hi"))):
        values = [pair[bits[select][i]] * np.float32((-1) ** bits[negate][i]) for i, pair in enumerate(pairs)]
        if count == 3:
            wanted = _fma32(values[0].astype(np.float64), values[1].astype(np.float64), values[2])
        else:
            wanted = values[0] * values[1] if "mul" in name else values[0] + values[1]
        assert np.array_equal(got[part], wanted), (text, part)


@both
def test_mov_pairs(target: str, rng: np.random.Generator) -> None:
    a, b = (rng.integers(0, 2**32, (2, COUNT), dtype=np.uint32) for _ in range(2))
    for first in range(2):
        for second in range(2):
            got = over_lanes(
                target, f"v_pk_mov_b32 {{d}}, {{a}}, {{b}} op_sel:[{first},{second}]", [a, b], out=2
            )
            assert np.array_equal(got, np.stack([a[first], b[second]]))


@both
@pytest.mark.parametrize("name", ["mix_f32", "mixlo_f16", "mixhi_f16"])
def test_mixed_precision(target: str, name: str, rng: np.random.Generator) -> None:
    """op_sel_hi: the source is f16, of the half that op_sel names; neg_hi is written as |x|. Rounded to f32, then to f16."""
    for clamp in ("", " clamp"):
        text, bits = modifiers(rng, 3, ("op_sel", "op_sel_hi"))
        negate, absolute = rng.integers(0, 2, 3), rng.integers(0, 2, 3)
        words, values = [], []
        for i in range(3):
            if bits["op_sel_hi"][i]:
                word = f16_words(rng)
                value = half(word, bits["op_sel"][i]).view(np.float16).astype(np.float32)
            else:
                value = rng.standard_normal(COUNT).astype(np.float32)
                word = value.view(np.uint32)
            value = np.abs(value) if absolute[i] else value
            words.append(word)
            values.append(-value if negate[i] else value)
        operands = ", ".join(
            f"{'-' * n}{'|' * m}{{{letter}}}{'|' * m}"
            for letter, n, m in zip("abc", negate, absolute, strict=True)
        )
        got = over_lanes(target, f"v_fma_{name} {{d}}, {operands} {text}{clamp}", words, old=0x12345678)[0]
        wanted = _fma32(values[0].astype(np.float64), values[1].astype(np.float64), values[2])
        wanted = np.clip(wanted, np.float32(0), np.float32(1)) if clamp else wanted
        if name == "mix_f32":
            assert np.array_equal(got.view(np.float32), wanted), text
            continue
        high = name.startswith("mixhi")
        with np.errstate(over="ignore"):
            assert np.array_equal(half(got, high).view(np.float16), wanted.astype(np.float16)), text
        assert (half(got, not high) == (0x5678 if high else 0x1234)).all()


def parts(word: Words, bits: int, signed: bool) -> npt.NDArray[np.int64]:
    """[part][element]."""
    raw = np.stack([word >> at & (1 << bits) - 1 for at in range(0, 32, bits)]).astype(np.int64)
    return np.where(raw >> (bits - 1), raw - (1 << bits), raw) if signed else raw


@both
@pytest.mark.parametrize(
    ("bits", "types"),
    [(16, "i32_i16"), (16, "u32_u16"), (8, "i32_i8"), (8, "u32_u8"), (4, "i32_i4"), (4, "u32_u4")],
)
def test_integer_dots(target: str, bits: int, types: str, rng: np.random.Generator) -> None:
    signed = types.startswith("i")
    a, b, c = (rng.integers(0, 2**32, COUNT, dtype=np.uint32) for _ in range(3))
    start = c.view(np.int32).astype(np.int64) if signed else c.astype(np.int64)
    exact = (parts(a, bits, signed) * parts(b, bits, signed)).sum(axis=0) + start
    name = f"{32 // bits}_{types}"
    assert np.array_equal(
        over_lanes(target, f"v_dot{name} {{d}}, {{a}}, {{b}}, {{c}}", [a, b, c])[0],
        (exact & 0xFFFFFFFF).astype(np.uint32),
    )
    info = np.iinfo(np.int32 if signed else np.uint32)
    saturated = np.clip(exact, info.min, info.max)
    got = over_lanes(target, f"v_dot{name} {{d}}, {{a}}, {{b}}, {{c}} clamp", [a, b, c])[0]
    assert np.array_equal(got, (saturated & 0xFFFFFFFF).astype(np.uint32))
    if signed:
        wanted = (parts(a, bits, True) * parts(b, bits, True)).sum(axis=0) - 7
        got = over_lanes(
            target, f"v_dot{name.replace('_', 'c_', 1)} {{d}}, {{a}}, {{b}}", [a, b], old=0xFFFFFFF9
        )[0]
        assert np.array_equal(got, (wanted & 0xFFFFFFFF).astype(np.uint32))


@both
def test_float_dots(target: str, rng: np.random.Generator) -> None:
    """The products are exact in f32; each addition is rounded, in the order of AMD's pseudocode."""
    f16 = f16_words(rng), f16_words(rng)
    bf16 = tuple(
        (rng.standard_normal((2, COUNT)).astype(np.float32).view(np.uint32) & 0xFFFF0000).astype(np.uint32)
        for _ in range(2)
    )
    c = rng.standard_normal(COUNT).astype(np.float32)
    low, high = (
        half(f16[0], p).view(np.float16).astype(np.float32)
        * half(f16[1], p).view(np.float16).astype(np.float32)
        for p in (0, 1)
    )
    assert np.array_equal(
        over_lanes(target, "v_dot2_f32_f16 {d}, {a}, {b}, {c}", [*f16, c.view(np.uint32)])[0].view(
            np.float32
        ),
        (c + low) + high,
    )
    assert np.array_equal(
        over_lanes(target, "v_dot2c_f32_f16 {d}, {a}, {b}", f16, old=0x3F800000)[0].view(np.float32),
        (np.float32(1) + low) + high,
    )
    if target == "gfx942":
        return
    low, high = (bf16[0][p].view(np.float32) * bf16[1][p].view(np.float32) for p in (0, 1))
    words = [one[0] >> 16 | one[1] for one in bf16]
    got = over_lanes(target, "v_dot2_f32_bf16 {d}, {a}, {b}, {c}", [*words, c.view(np.uint32)], mode=MODE)[0]
    assert np.array_equal(got.view(np.float32), (low + high) + c)
    got = over_lanes(target, "v_dot2c_f32_bf16 {d}, {a}, {b}", words, old=0x3F800000)[0]
    assert np.array_equal(got.view(np.float32), (np.float32(1) + low) + high)
