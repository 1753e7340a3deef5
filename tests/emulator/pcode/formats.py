"""Floating point formats as data, and exact rationals rounded into them. Nothing here uses the processor's arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

EVEN, UP, DOWN, ZERO = range(4)
"""Rounding directions by their numbers in MODE."""


@dataclass(frozen=True, slots=True)
class Format:
    """``bits`` = 1 + ``exponent`` + ``fraction``. ``infinities``: IEEE's top exponent; otherwise ``nan`` is
    the only special value.

    ``nan``: bit patterns (without sign where ``signed_nan``) that are NaN; empty for formats without one.
    """

    name: str
    exponent: int
    fraction: int
    bias: int
    infinities: bool = True
    nan: frozenset[int] = frozenset()
    unsigned_zero: bool = False

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def sign_bit(self) -> int:
        return 1 << (self.exponent + self.fraction)

    @property
    def magnitude(self) -> int:
        return self.sign_bit - 1

    @property
    def top(self) -> int:
        """Bits of infinity where there is one."""
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def quiet(self) -> int:
        return 1 << (self.fraction - 1)

    @property
    def default_nan(self) -> int:
        return self.top | self.quiet if self.infinities else min(self.nan)

    @property
    def largest(self) -> int:
        """Bits of the largest finite magnitude."""
        if self.infinities:
            return self.top - 1
        taken = {bits & self.magnitude for bits in self.nan if bits & self.magnitude}
        return self.magnitude - (1 if self.magnitude in taken else 0)


F16: Final = Format("f16", 5, 10, 15)
BF16: Final = Format("bf16", 8, 7, 127)
F32: Final = Format("f32", 8, 23, 127)
F64: Final = Format("f64", 11, 52, 1023)
# OCP's formats (gfx950) and those of gfx942, which have one zero, one NaN and a bias that is one larger.
FP8: Final = Format("fp8", 4, 3, 7, False, frozenset({0x7F, 0xFF}))
BF8: Final = Format("bf8", 5, 2, 15)
FP8_FNUZ: Final = Format("fp8_fnuz", 4, 3, 8, False, frozenset({0x80}), True)
BF8_FNUZ: Final = Format("bf8_fnuz", 5, 2, 16, False, frozenset({0x80}), True)
FP6: Final = Format("fp6", 2, 3, 1, False)
BF6: Final = Format("bf6", 3, 2, 3, False)
FP4: Final = Format("fp4", 2, 1, 1, False)


@dataclass(frozen=True, slots=True)
class Number:
    """``kind``: "finite", "infinite" or "nan". ``negative`` also tells the zeros apart. ``value`` is 0 unless finite."""

    kind: str
    negative: bool
    value: Fraction = Fraction(0)

    @property
    def finite(self) -> bool:
        return self.kind == "finite"

    @property
    def zero(self) -> bool:
        return self.finite and not self.value


NAN: Final = Number("nan", False)


def infinity(negative: bool) -> Number:
    return Number("infinite", negative)


def finite(value: Fraction | int, negative_zero: bool = False) -> Number:
    return Number("finite", value < 0 or (value == 0 and negative_zero), Fraction(value))


@lru_cache(maxsize=1 << 16)
def decode(form: Format, bits: int) -> Number:
    """The number that ``bits`` stand for, exactly."""
    negative = bool(bits & form.sign_bit)
    magnitude = bits & form.magnitude
    if form.infinities and magnitude >= form.top:
        return infinity(negative) if magnitude == form.top else Number("nan", negative)
    if bits in form.nan:
        return Number("nan", negative)
    exponent, fraction = magnitude >> form.fraction, magnitude & ((1 << form.fraction) - 1)
    if exponent:
        fraction |= 1 << form.fraction
    scale = max(exponent, 1) - form.bias - form.fraction
    value = Fraction(fraction << scale) if scale >= 0 else Fraction(fraction, 1 << -scale)
    return Number("finite", negative, -value if negative else value)


def is_nan(form: Format, bits: int) -> bool:
    return decode(form, bits).kind == "nan"


def is_signalling(form: Format, bits: int) -> bool:
    return is_nan(form, bits) and not bits & form.quiet


def is_denormal(form: Format, bits: int) -> bool:
    magnitude = bits & form.magnitude
    return 0 < magnitude < 1 << form.fraction


def power_of_two(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def exponent_of(value: Fraction) -> int:
    """floor(log2 |value|), value not 0."""
    guess = abs(value.numerator).bit_length() - value.denominator.bit_length()
    return guess if abs(value) >= power_of_two(guess) else guess - 1


def round_integer(value: Fraction, direction: int, negative: bool = False) -> int:
    """``value`` >= 0 to an integer; ``negative`` is the sign of what it is the magnitude of."""
    whole, rest = divmod(value.numerator, value.denominator)
    if (
        not rest
        or direction == ZERO
        or (direction == UP and negative)
        or (direction == DOWN and not negative)
    ):
        return whole
    if direction in (UP, DOWN):
        return whole + 1
    twice = 2 * rest
    return whole + (twice > value.denominator or (twice == value.denominator and whole & 1))


def encode(form: Format, number: Number, direction: int = EVEN, saturate: bool = False) -> int:
    """Bits of ``number`` rounded once. Overflow gives infinity (or NaN in formats without), the largest
    value when the direction or ``saturate`` says so; formats without either always saturate. NaN is the
    default one, positive.
    """
    sign = form.sign_bit if number.negative else 0
    if number.kind == "nan":
        return form.default_nan if form.infinities or form.nan else form.largest
    if number.kind == "infinite":
        return _overflow(form, sign, saturate)
    if not number.value:
        return 0 if form.unsigned_zero else sign
    value = abs(number.value)
    exponent = max(exponent_of(value), 1 - form.bias)
    steps = round_integer(value / power_of_two(exponent - form.fraction), direction, number.negative)
    # A carry into the next binade falls into place: the fraction becomes 0 and the exponent grows by one.
    bits = steps + ((exponent - 1 + form.bias) << form.fraction)
    if bits > form.largest:
        away = {EVEN: True, UP: not number.negative, DOWN: number.negative, ZERO: False}[direction]
        return sign | form.largest if not away else _overflow(form, sign, saturate)
    return 0 if form.unsigned_zero and not bits else sign | bits


def _overflow(form: Format, sign: int, saturate: bool) -> int:
    if saturate or not (form.infinities or form.nan):
        return sign | form.largest
    if form.infinities:
        return sign | form.top
    return form.default_nan if form.unsigned_zero else sign | form.default_nan
