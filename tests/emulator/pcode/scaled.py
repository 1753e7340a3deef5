"""Formats of 8 bits and less: widening, rounding, block scales and stochastic rounding.

gfx942 has the fnuz flavour of fp8 and bf8 (one NaN, 0x80; no infinity), gfx950 OCP's. A result that is too
large becomes NaN, or infinity in OCP's bf8, unless MODE.FP16_OVFL is set; the 6- and 4-bit formats have
neither and take the largest value. A scale is the exponent of an f32: to a small format divides by
2**(scale - 127), from one multiplies; 255 is NaN (E8M0). Stochastic rounding adds the top bits of the
random number below the last kept bit and cuts the sum off; they are as many as a normal result of that
format drops from an f32 (20 for fp8: the S1[31 : 12] of V_CVT_SR_FP8_F32).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from emulator.pcode import arithmetic, formats
from emulator.pcode.formats import Format, Number
from emulator.pcode.frame import Frame
from emulator.pcode.values import SMALL, Value, exact, operand_number, rounded, unsigned

_OCP: Final = {
    "fp8": formats.FP8, "bf8": formats.BF8, "fp6": formats.FP6, "bf6": formats.BF6, "fp4": formats.FP4,
}  # fmt: skip
_FNUZ: Final = _OCP | {"fp8": formats.FP8_FNUZ, "bf8": formats.BF8_FNUZ}
_SCALED: Final = re.compile(r"(f32|f16|bf16)_to_(fp8|bf8|fp6|bf6|fp4)(_sr)?_scale\Z")
_UNSCALED: Final = re.compile(r"(fp8|bf8|fp6|bf6|fp4)_to_(f32|f16|bf16)_scale\Z")
_STOCHASTIC: Final = re.compile(r"f32_to_(f16|bf16|fp8|bf8)_(sr|SR)\Z")


def small_format(name: str, fnuz: bool) -> Format:
    """A format by its name, for NaN checks too: "fp8_fnuz" and "bf8_fnuz" are those of gfx942."""
    every = (formats.FP8_FNUZ, formats.BF8_FNUZ)
    return next(
        (one for one in every if one.name == name), (_FNUZ if fnuz else _OCP).get(name) or formats.F32
    )


def widened(value: Value, fnuz: bool) -> Value:
    """A small float as an exact number; others unchanged."""
    if value.kind not in SMALL:
        return value
    return exact(formats.decode(small_format(value.kind, fnuz), value.bits))


def narrowed(number: Number, name: str, fnuz: bool, saturate: bool = False) -> Value:
    """To a small float, nearest even."""
    form = small_format(name, fnuz)
    return _packed(form, formats.encode(form, number, formats.EVEN, saturate and number.finite), number)


def _packed(form: Format, bits: int, number: Number) -> Value:
    if number.kind == "nan" and not (form.infinities or form.nan):
        bits = form.largest | (form.sign_bit if number.negative else 0)
    name = form.name.removesuffix("_fnuz")
    nans = ((0, form.bits, form.name),) if formats.is_nan(form, bits) and form.bits == 8 else ()
    return Value(name, form.bits, bits, nans=nans)


def stochastic(number: Number, form: Format, random: int, saturate: bool = False) -> int:
    """Bits of ``number`` rounded with ``random`` (32 bits)."""
    if not number.finite or number.zero:
        return formats.encode(form, number)
    kept = 23 - form.fraction
    exponent = max(formats.exponent_of(number.value), 1 - form.bias)
    steps = abs(number.value) / formats.power_of_two(exponent - form.fraction)
    steps += Fraction(random >> (32 - kept), 1 << kept)
    cut = steps.__floor__() * formats.power_of_two(exponent - form.fraction)
    sign = Number("finite", number.negative, -cut if number.negative else cut)
    return formats.encode(form, sign, formats.EVEN, saturate)


def _power(scale: Value, invert: bool) -> Number:
    if scale.bits & 0xFF == 255:
        return formats.NAN
    return formats.finite(formats.power_of_two((127 - scale.bits) if invert else (scale.bits - 127)))


def _to_small(match: re.Match[str]) -> Callable[[Frame, list[Value]], Value]:
    name, random = match[2], bool(match[3])

    def run(frame: Frame, arguments: list[Value]) -> Value:
        number = operand_number(arguments[0], frame.mode)
        scale = _power(arguments[-1], True)
        result = arithmetic.multiply(number, scale)
        if result.kind == "nan":  # the NaN of a scale has no sign
            result = Number("nan", number.negative and scale.finite)
        if not random:
            return narrowed(result, name, frame.fnuz, frame.mode.saturate16)
        form = small_format(name, frame.fnuz)
        return _packed(form, stochastic(result, form, arguments[1].bits, frame.mode.saturate16), result)

    return run


def _from_small(match: re.Match[str]) -> Callable[[Frame, list[Value]], Value]:
    target = match[2]

    def run(frame: Frame, arguments: list[Value]) -> Value:
        number = widened(arguments[0], frame.fnuz).as_number()
        return rounded(arithmetic.multiply(number, _power(arguments[1], False)), target, frame.mode)

    return run


def _to_random(match: re.Match[str]) -> Callable[[Frame, list[Value]], Value]:
    target = match[1]

    def run(frame: Frame, arguments: list[Value]) -> Value:
        number = operand_number(arguments[0], frame.mode)
        if target in SMALL:
            form = small_format(target, frame.fnuz)
            return _packed(form, stochastic(number, form, arguments[1].bits, frame.mode.saturate16), number)
        form = formats.F16 if target == "f16" else formats.BF16
        bits = stochastic(number, form, arguments[1].bits, frame.mode.saturate16)
        return Value(target, 16, bits, nans=((0, 16, target),) if number.kind == "nan" else ())

    return run


def conversion(name: str) -> Callable[[Frame, list[Value]], Value] | None:
    """``f32_to_fp8_sr_scale`` and its like."""
    for pattern, make in ((_SCALED, _to_small), (_UNSCALED, _from_small), (_STOCHASTIC, _to_random)):
        match = pattern.match(name)
        if match is not None:
            return make(match)
    return None


def is_open_nan(name: str, bits: int) -> bool:
    """Whether ``bits`` are a quiet NaN of the format ``name``."""
    form = {"f16": formats.F16, "bf16": formats.BF16, "f32": formats.F32, "f64": formats.F64}.get(name)
    if form is None:
        return formats.is_nan(small_format(name, False), bits)
    return formats.is_nan(form, bits) and not formats.is_signalling(form, bits)


def prng(frame: Frame, arguments: list[Value]) -> Value:
    """v_prng_b32, as its own entry has it."""
    bits = arguments[0].bits
    return unsigned(bits << 1 ^ (197 if bits >> 31 else 0))


FUNCTIONS: Final[dict[str, Callable[[Frame, list[Value]], Value]]] = {"v_prng_b32": prng}
