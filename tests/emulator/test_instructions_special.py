"""What no single entry shows: division by LLVM's sequence, 2/pi of v_trig_preop, the opcodes without a text."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from emulator.pcode import arithmetic, compare, formats, samples
from emulator.pcode.formats import F32, F64, Format
from emulator.pcode.session import FRESH, TARGETS
from emulator.pcode.vector_cases import get, noise, put
from support.instructions import EXEC, LANES, assemble, run

# LLVM's expansion of fdiv, as it emits it for f32 with denormals and for f64. v0 / v2 -> v30.
DIVIDE_F32 = """\
v_div_scale_f32 v4, s[4:5], v2, v2, v0
v_div_scale_f32 v6, vcc, v0, v2, v0
v_rcp_f32_e32 v8, v4
v_fma_f32 v10, -v4, v8, 1.0
v_fma_f32 v8, v10, v8, v8
v_mul_f32_e32 v10, v6, v8
v_fma_f32 v12, -v4, v10, v6
v_fma_f32 v10, v12, v8, v10
v_fma_f32 v4, -v4, v10, v6
v_div_fmas_f32 v4, v4, v8, v10
v_div_fixup_f32 v30, v4, v2, v0"""
DIVIDE_F64 = """\
v_div_scale_f64 v[4:5], s[4:5], v[2:3], v[2:3], v[0:1]
v_rcp_f64_e32 v[6:7], v[4:5]
v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0
v_fma_f64 v[6:7], v[6:7], v[8:9], v[6:7]
v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0
v_fma_f64 v[6:7], v[6:7], v[8:9], v[6:7]
v_div_scale_f64 v[8:9], vcc, v[0:1], v[2:3], v[0:1]
v_mul_f64 v[10:11], v[8:9], v[6:7]
v_fma_f64 v[4:5], -v[4:5], v[10:11], v[8:9]
v_div_fmas_f64 v[4:5], v[4:5], v[6:7], v[10:11]
v_div_fixup_f64 v[30:31], v[4:5], v[2:3], v[0:1]"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("form", "text"), [(F32, DIVIDE_F32), (F64, DIVIDE_F64)], ids=["f32", "f64"])
def test_division_is_correctly_rounded(target: str, form: Format, text: str) -> None:
    """For all pairs of edges and many others. Quotients that are denormal may round twice: one step off is allowed there."""
    choice = random.Random(FRESH)
    words = tuple(word for one in assemble(target, text.splitlines()) for word in one.words)
    name = f"FMT_NUM_{form.name.upper()}"
    edges = samples.float_edges(form)
    pairs = [(a, b) for a in edges for b in edges]
    pairs += [
        (samples.sample(name, form.bits, choice), samples.sample(name, form.bits, choice))
        for _ in range(2000)
    ]
    pairs += [(choice.getrandbits(form.bits), choice.getrandbits(form.bits)) for _ in range(1000)]
    pairs += pairs[: -len(pairs) % LANES]
    for at in range(0, len(pairs), LANES):
        wave = noise(3).copy()
        wave.set_pair(EXEC, (1 << 64) - 1)
        put(wave, 0, form.bits // 32, tuple(a for a, _ in pairs[at : at + LANES]))
        put(wave, 2, form.bits // 32, tuple(b for _, b in pairs[at : at + LANES]))
        after = run(target, words, wave)
        for lane, (a, b) in enumerate(pairs[at : at + LANES]):
            number = arithmetic.divide(formats.decode(form, a), formats.decode(form, b))
            want, got = formats.encode(form, number), get(after, 30, form.bits // 32, lane)
            if number.kind == "nan":
                assert formats.is_nan(form, got), (hex(a), hex(b), hex(got))
                continue
            allowed = (
                1 if number.finite and 0 < abs(number.value) < formats.power_of_two(2 - form.bias) else 0
            )
            assert compare.steps_apart(form.name, got, want) <= allowed, (hex(a), hex(b), hex(got), hex(want))


@pytest.mark.parametrize("target", TARGETS)
def test_segments_of_two_over_pi(target: str) -> None:
    """v_trig_preop_f64: 53 bits of 2/pi from bit 53 * S1 on (further for large S0), as a number below 1 scaled to their place."""
    choice = random.Random(FRESH)
    turn = Fraction(2) / arithmetic.pi()
    bits = int(turn * (1 << 1201))
    (line,) = assemble(target, ["v_trig_preop_f64 v[20:21], v[0:1], v4"])
    for _ in range(6):
        arguments = tuple(choice.getrandbits(52) | choice.randrange(1, 2047) << 52 for _ in range(LANES))
        segments = tuple(choice.randrange(32) for _ in range(LANES))
        wave = noise(1).copy()
        wave.set_pair(EXEC, (1 << 64) - 1)
        put(wave, 0, 2, arguments)
        put(wave, 4, 1, segments)
        after = run(target, line.words, wave)
        for lane, (argument, segment) in enumerate(zip(arguments, segments, strict=True)):
            exponent = argument >> 52 & 2047
            shift = segment * 53 + max(0, exponent - 1077)
            part = (bits << shift) >> (1201 - 53) & ((1 << 53) - 1)
            scale = -53 - shift + (128 if exponent >= 1968 else 0)
            want = formats.encode(F64, formats.finite(part * formats.power_of_two(scale)))
            assert get(after, 20, 2, lane) == want, (hex(argument), segment)


@pytest.mark.parametrize("target", TARGETS)
def test_legacy_forms(target: str) -> None:
    """v_exp_legacy_f32 and v_log_legacy_f32 have no text; within one value of 2 ** x and log2 x, on normal operands."""
    lines = ("v_exp_legacy_f32_e32 v1, v0", "v_log_legacy_f32_e32 v1, v0")
    choice = random.Random(FRESH)
    for line, function in zip(
        assemble(target, lines), (arithmetic.exponential2, arithmetic.logarithm2), strict=True
    ):
        wave = noise(0).copy()
        wave.set_pair(EXEC, (1 << 64) - 1)
        arguments = tuple(
            formats.encode(F32, formats.finite(Fraction(choice.uniform(0.01, 90.0)))) for _ in range(LANES)
        )
        put(wave, 0, 1, arguments)
        after = run(target, line.words, wave)
        for lane, bits in enumerate(arguments):
            want = formats.encode(F32, function(formats.decode(F32, bits)))
            assert compare.steps_apart("f32", int(after.vector[1, lane]), want) <= 1
