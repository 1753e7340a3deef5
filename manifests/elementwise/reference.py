"""Arithmetic element by element. A kernel computes in fp32 and rounds to the element type: twice where that is a 16-bit float."""

from __future__ import annotations

import numpy as np

from build_tools.cases.near import Near, Values, near

#: What the first of the two roundings may do: half a unit of fp32, and of its subnormal numbers.
_ROUNDING = 2.0**-24
_SMALLEST = 2.0**-150


def _rounded(values: Values, kinds: dict[str, str]) -> Near:
    """An fp32 result is the exact one, rounded once."""
    if kinds["input"] == "f32":
        return near(values, relative=0.0)
    return near(values, relative=_ROUNDING, absolute=_SMALLEST)


def add(input: Values, other: Values, kinds: dict[str, str]) -> Near:
    """The sum."""
    return _rounded(input + other, kinds)


def sub(input: Values, other: Values, kinds: dict[str, str]) -> Near:
    """The difference."""
    return _rounded(input - other, kinds)


def mul(input: Values, other: Values, kinds: dict[str, str]) -> Near:
    """The product."""
    return _rounded(input * other, kinds)


def div(input: Values, other: Values, kinds: dict[str, str]) -> Near:
    """The quotient; of a number by 0 an infinity, and NaN of 0 by 0."""
    return _rounded(np.divide(input, other), kinds)


def binary_mixed(input: Values, other: Values, op: int) -> Values:
    """Sum, difference, product or quotient, of numbers that fp32 holds; rounded once."""
    with np.errstate(all="ignore"):
        exact: Values = (np.add, np.subtract, np.multiply, np.divide)[op](input, other)
    return exact


def add_(input: Values, other: Values, kinds: dict[str, str]) -> Near:
    """What ``input`` is then."""
    return add(input, other, kinds)


def sub_(input: Values, other: Values, kinds: dict[str, str]) -> Near:
    """What ``input`` is then."""
    return sub(input, other, kinds)


def mul_(input: Values, other: Values, kinds: dict[str, str]) -> Near:
    """What ``input`` is then."""
    return mul(input, other, kinds)


def div_(input: Values, other: Values, kinds: dict[str, str]) -> Near:
    """What ``input`` is then."""
    return div(input, other, kinds)


def sigmoid(input: Values, kinds: dict[str, str]) -> Near:
    """1 / (1 + exp(-input)); below 2^-126 it may be 0.

    Of a 16-bit float exp2 takes a rounded argument, which is off by 2^-24 for every unit of it; where the sigmoid is near 1 that
    counts for nothing.
    """
    with np.errstate(over="ignore"):
        exact = 1 / (1 + np.exp(-input))
        steps = 8.0
        if kinds["input"] != "f32":
            steps = 8 + 3 * np.where(np.isfinite(input), np.abs(input), 0.0) / (1 + np.exp(input))
    return near(exact, relative=_ROUNDING * steps, absolute=2.0**-125)


def tanh(input: Values) -> Near:
    """The hyperbolic tangent: ocml's is good to a few units of fp32."""
    return near(np.tanh(input), relative=8 * _ROUNDING, absolute=_SMALLEST * 2)
