"""RMS norms: the formula and how far a kernel may be off.

A kernel squares and adds in fp32, takes one reciprocal square root, multiplies twice and rounds once. The adders of a row work
side by side: no sum is longer than 40 additions, and the square root halves their error; 2^-19 is what is left of that with the
other four roundings. A row whose squares add up to more than fp32 holds (3.4e38, which only bf16 reaches) has the scale 0, in
AITER as here. NaN or an infinity in a row makes the row NaN where it stands; the other elements follow the formula.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near
from build_tools.cases.numbers import rounded

_LARGEST = float(np.finfo(np.float32).max)
#: Products of a subnormal number may be lost.
_LOST = 2.0**-125
#: Half a unit in the last place, relative, and half of the smallest number.
_UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}
_HALF_SMALLEST = {"bf16": 2.0**-134, "f16": 2.0**-25, "f32": 2.0**-150}


def _norm(x: Values, weight: Values, epsilon: float) -> Near:
    total = (x * x).sum(axis=-1, keepdims=True)
    total = np.where(total > _LARGEST, np.inf, total)
    scale = 1 / np.sqrt(total / max(x.shape[-1], 1) + epsilon)
    return near(x * scale * weight, relative=2.0**-19, absolute=_LOST)


def _rounded_norm(x: Values, weight: Values, epsilon: float, kind: str) -> Near:
    """As :func:`_norm`, of what is rounded to ``kind`` before the weight multiplies it.

    Where a kernel's error crosses a tie, the other neighbour is right, too.
    """
    normalised = _norm(x, np.ones_like(weight), epsilon)
    middle = rounded(normalised.values, kind)
    below, above = (rounded(normalised.values + sign * normalised.error, kind) for sign in (-1, 1))
    far = np.nan_to_num(np.maximum(above - middle, middle - below) * np.abs(weight), posinf=0.0)
    return near(middle * weight, relative=2.0**-22, absolute=far + _LOST)


def rms_norm(
    input: Values, weight: Values, epsilon: float, use_model_sensitive_rmsnorm: int, kinds: Mapping[str, str]
) -> Near:
    """input / sqrt(mean(input^2) + epsilon) * weight, over the last dim."""
    if use_model_sensitive_rmsnorm:
        return _rounded_norm(input, weight, epsilon, kinds["input"])
    return _norm(input, weight, epsilon)


def rmsnorm2d_fwd(
    input: Values, weight: Values, epsilon: float, use_model_sensitive_rmsnorm: int, kinds: Mapping[str, str]
) -> Near:
    """:func:`rms_norm` under AITER's second name."""
    return rms_norm(input, weight, epsilon, use_model_sensitive_rmsnorm, kinds)


def rmsnorm2d_fwd_with_add(
    input: Values,
    residual_in: Values,
    weight: Values,
    epsilon: float,
    gemma_norm: bool,
    use_model_sensitive_rmsnorm: int,
    kinds: Mapping[str, str],
) -> tuple[Near, Near]:
    """residual_out = input + residual_in, rounded to its type; out is the norm of that sum (``gemma_norm``: times weight + 1).

    A sum of two 16-bit numbers that fp32 cannot hold is never close to a tie: rounding it once or by way of fp32 is the same.
    """
    total = input + residual_in
    seen = rounded(total, kinds["residual_out"])
    by = weight + 1 if gemma_norm else weight
    if use_model_sensitive_rmsnorm:
        return _rounded_norm(seen, by, epsilon, kinds["residual_out"]), near(total)
    return _norm(seen, by, epsilon), near(total)


def rms_norm_cu(input: Values, weight: Values, epsilon: float) -> Near:
    """:func:`rms_norm`, written to a tensor of the caller's."""
    return _norm(input, weight, epsilon)


def fused_add_rms_norm_cu(
    input: Values, residual_in: Values, weight: Values, epsilon: float, kinds: Mapping[str, str]
) -> tuple[Near, Near]:
    """residual_in = input + residual_in, rounded to its type; input = the norm of that sum.

    A row is rounded when it is scaled, and again when it is multiplied by the weight: the first is an error here.
    """
    total = input + residual_in
    kind = kinds["residual_in"]
    exact = _norm(rounded(total, kind), weight, epsilon).values
    # One unit more than the row's own: a rounding may land on either side.
    error = np.nan_to_num(np.abs(weight) * _HALF_SMALLEST[kind], nan=0.0, posinf=0.0) + _LOST
    return near(exact, relative=_UNIT[kind] * (1 + 2.0**-9) + 2.0**-19, absolute=error), near(total)


def layernorm2d_fwd(
    input: Values, weight: Values, bias: Values | None, epsilon: float, x_bias: Values | None
) -> Near:
    """x = input + x_bias; (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * weight + bias, over the last dim.

    A kernel subtracts the mean before it squares, so large means cost nothing but the rounding of x itself.
    Nothing is promised of a row whose sum, or sum of squares, is more than fp32 holds.
    """
    x = input if x_bias is None else input + x_bias
    centred = x - x.sum(axis=-1, keepdims=True) / max(x.shape[-1], 1)
    scale = weight / np.sqrt((centred**2).sum(axis=-1, keepdims=True) / max(x.shape[-1], 1) + epsilon)
    lost = 2.0**-21 * np.abs(x).max(
        axis=-1, keepdims=True, initial=0.0
    )  # of x and its mean, before they are subtracted
    error = np.nan_to_num(2.0**-19 * np.abs(centred * scale) + lost * np.abs(scale)) + _LOST
    return near(centred * scale + (0.0 if bias is None else bias), relative=2.0**-23, absolute=error)
