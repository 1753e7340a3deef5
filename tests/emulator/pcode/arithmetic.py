"""Exact arithmetic on :class:`~emulator.pcode.formats.Number`: IEEE's rules for signs, zeros, infinities and NaN, no rounding."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import isqrt

from emulator.pcode.formats import DOWN, NAN, Number, exponent_of, finite, infinity, power_of_two


def negate(a: Number) -> Number:
    return Number(a.kind, not a.negative, -a.value)


def add(a: Number, b: Number, direction: int = 0) -> Number:
    """a + b. An exact zero of opposite signs is +0, or -0 when rounding down."""
    if "nan" in (a.kind, b.kind):
        return NAN
    if not a.finite or not b.finite:
        if not a.finite and not b.finite and a.negative != b.negative:
            return NAN
        return a if not a.finite else b
    total = a.value + b.value
    if total:
        return finite(total)
    return finite(0, a.negative if a.zero and b.zero and a.negative == b.negative else direction == DOWN)


def multiply(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if "nan" in (a.kind, b.kind):
        return NAN
    if not a.finite or not b.finite:
        return NAN if a.zero or b.zero else infinity(negative)
    return finite(a.value * b.value, negative)


def divide(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if "nan" in (a.kind, b.kind) or (a.zero and b.zero) or (not a.finite and not b.finite):
        return NAN
    if not a.finite or b.zero:
        return infinity(negative)
    return finite(0, negative) if not b.finite else finite(a.value / b.value, negative)


def less(a: Number, b: Number) -> bool:
    if "nan" in (a.kind, b.kind):
        return False
    return _order(a) < _order(b)


def equal(a: Number, b: Number) -> bool:
    return "nan" not in (a.kind, b.kind) and _order(a) == _order(b)


def _order(a: Number) -> tuple[int, Fraction]:
    return (0, a.value) if a.finite else (-1 if a.negative else 1, Fraction(0))


def truncate(a: Number) -> Number:
    return finite(int(a.value), a.negative) if a.finite else a


def floor(a: Number) -> Number:
    return finite(a.value.__floor__(), a.negative) if a.finite else a


def round_even(a: Number) -> Number:
    return finite(round(a.value), a.negative) if a.finite else a


PRECISION = 200
"""Bits of the results below: so many that rounding them again can be wrong once in 2**90 cases only."""


def square_root(a: Number) -> Number:
    if a.kind == "nan" or a.zero:
        return a
    if a.negative:
        return NAN
    if not a.finite:
        return a
    shift = 2 * PRECISION - 2 * (exponent_of(a.value) // 2)
    scaled = a.value * power_of_two(shift)
    root = isqrt(scaled.numerator // scaled.denominator)
    return finite(root * power_of_two(-shift // 2))


def exponential2(a: Number) -> Number:
    """2 ** a."""
    if a.kind == "nan":
        return a
    if not a.finite:
        return finite(0) if a.negative else a
    whole = a.value.__floor__()
    if abs(whole) > 1 << 20:  # far beyond what any format holds
        return finite(0) if whole < 0 else infinity(False)
    return finite(_fraction(_power(a.value - whole)) * power_of_two(whole))


def logarithm2(a: Number) -> Number:
    if a.kind == "nan":
        return a
    if a.zero:
        return infinity(True)
    if a.negative:
        return NAN
    if not a.finite:
        return a
    exponent = exponent_of(a.value)
    part = a.value / power_of_two(exponent)
    # Near 1 from below the sum of exponent and logarithm would cancel: take the number as it is.
    if exponent == -1 and part > Fraction(3, 2):
        exponent, part = 0, a.value
    return finite(_fraction(_logarithm(part)) + exponent)


def sine_of_turns(a: Number, quarter: int = 0) -> Number:
    """sin(2 pi a + quarter * pi / 2)."""
    if not a.finite:
        return NAN
    turns = a.value + Fraction(quarter, 4)
    turns -= (turns + Fraction(1, 2)).__floor__()  # -1/2 .. 1/2
    if turns in (0, Fraction(1, 2), Fraction(-1, 2)):
        return finite(0, a.negative if not quarter else False)
    angle = Fraction(int(2 * pi() * turns * power_of_two(4 * PRECISION)), 1 << 4 * PRECISION)
    square, term, total, n = angle * angle, angle, angle, 1
    while abs(term) > abs(total) * power_of_two(-PRECISION):
        term = -term * square / ((n + 1) * (n + 2))
        term = Fraction(int(term * power_of_two(2 * PRECISION)), 1 << 2 * PRECISION)
        total, n = total + term, n + 2
        if not term:
            break
    return finite(total)


_CONTEXT = Context(prec=80, Emin=-(10**6), Emax=10**6)


def _fraction(value: Decimal) -> Fraction:
    return Fraction(value)


@lru_cache(maxsize=1 << 14)
def _power(part: Fraction) -> Decimal:
    with localcontext(_CONTEXT):
        return (Decimal(part.numerator) / Decimal(part.denominator) * Decimal(2).ln()).exp()


@lru_cache(maxsize=1 << 14)
def _logarithm(part: Fraction) -> Decimal:
    with localcontext(_CONTEXT):
        return (Decimal(part.numerator) / Decimal(part.denominator)).ln() / Decimal(2).ln()


@lru_cache(maxsize=1)
def pi() -> Fraction:
    """Machin's formula, to 1,600 bits."""
    one = 1 << (8 * PRECISION)

    def arctangent(inverse: int) -> int:
        power, total, n = one // inverse, 0, 1
        while power:
            total += (power // n) * (1 if n % 4 == 1 else -1)
            power, n = power // (inverse * inverse), n + 2
        return total

    return Fraction(4 * (4 * arctangent(5) - arctangent(239)), one)
