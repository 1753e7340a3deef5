"""Norms with a residual before them and a quantisation behind them: the formulas, and how far a kernel may be off.

A kernel's norm is as far off as `manifests/norm/reference.py` says: 2^-19 of each element, and of a layer norm what subtracting a
large mean loses. What is quantised is off by as much times its column's scale; the largest of a row sets the scale, so its
error is in all codes of the row. qmax is 127 for int8 (-128 is never a code), 240 for e4m3fnuz, 448 for e4m3fn. No scale is
below 2^-126; that of a row without a number but 0 is 1. NaN is left out of amax, and a kernel's cut takes it for the lower
bound: its code is -qmax.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.group_codes import coded, rms_norm
from build_tools.cases.near import Near, Values, near

QMAX = {"i8": 127.0, "e4m3fnuz": 240.0, "e4m3fn": 448.0}
_LARGEST = float(np.finfo(np.float32).max)
_ROUNDING = 2.0**-24
_SMALLEST = 2.0**-126
#: Products of a subnormal number may be lost.
_LOST = 2.0**-125


def _total(input: Values, x_bias: Values | None, residual_in: Values | None) -> tuple[Values, Near]:
    """The sum, and as it is stored: a kernel adds in fp32."""
    parts = [part for part in (input, x_bias, residual_in) if part is not None]
    total: Values = sum(parts[1:], parts[0])
    error = 2 * _ROUNDING * sum((np.abs(part) for part in parts[1:]), np.abs(parts[0]))
    return total, near(total, absolute=np.nan_to_num(error, posinf=0.0))


def _layer(x: Values, weight: Values, bias: Values, epsilon: float) -> tuple[Values, Values]:
    """The layer norm of x, and how far it may be off."""
    count = max(x.shape[-1], 1)
    centred = x - x.sum(axis=-1, keepdims=True) / count
    scale = weight / np.sqrt((centred**2).sum(axis=-1, keepdims=True) / count + epsilon)
    lost = 2.0**-21 * np.abs(x).max(axis=-1, keepdims=True, initial=0.0)
    result = centred * scale + bias
    error = 2.0**-19 * np.abs(centred * scale) + lost * np.abs(scale) + 2.0**-23 * np.abs(result)
    return result, np.nan_to_num(error, posinf=0.0) + _LOST


def _rms(x: Values, weight: Values, epsilon: float) -> tuple[Values, Values]:
    """The RMS norm of x, and how far it may be off; a row whose squares fp32 cannot add has the scale 0."""
    total = (x * x).sum(axis=-1, keepdims=True)
    total = np.where(total > _LARGEST, np.inf, total)
    result = x / np.sqrt(total / max(x.shape[-1], 1) + epsilon) * weight
    result = np.where(np.isinf(total) & np.isfinite(x), 0.0, result)
    return result, np.nan_to_num(2.0**-19 * np.abs(result)) + np.where(result == 0, 0.0, _LOST)


def _quantised(y: Values, error: Values, kind: str) -> tuple[Near, Near]:
    """(Codes, scales) of rows that are off by ``error``."""
    qmax = QMAX[kind]
    sizes = np.abs(y)
    amax = np.fmax.reduce(sizes, axis=-1, keepdims=True, initial=0.0)
    worst = np.where(np.isnan(y), 0.0, error).max(axis=-1, keepdims=True, initial=0.0)
    scales = np.where(amax > 0, np.maximum(amax / qmax, _SMALLEST), 1.0)
    relative = worst / np.where(amax > 0, amax, 1.0) + 8 * _ROUNDING
    codes = np.where(np.isnan(y), -qmax, np.clip(y / scales, -qmax, qmax))
    off = np.where(np.isnan(y), 0.0, error / scales + np.abs(codes) * relative)
    return near(codes, absolute=off), near(scales, absolute=worst / qmax + 3 * _ROUNDING * scales)


def layernorm2d_fwd_with_add(
    input: Values,
    residual_in: Values,
    weight: Values,
    bias: Values,
    epsilon: float,
    x_bias: Values | None,
) -> tuple[Near, Near]:
    """(out, residual_out): the sum, and its layer norm."""
    total, stored = _total(input, x_bias, residual_in)
    y, error = _layer(total, weight, bias, epsilon)
    return near(y, absolute=error), stored


def rmsnorm2d_fwd_with_dynamicquant(
    input: Values,
    weight: Values,
    epsilon: float,
    group_size: int,
    shuffle_scale: bool,
    kinds: Mapping[str, str],
) -> tuple[Near, Near]:
    """(out, yscale) of the RMS norm; what is asked for in groups is as ``rmsnorm_quant`` has it."""
    if group_size or shuffle_scale:
        return coded(*rms_norm(input, weight, epsilon), group_size, kinds["out"], shuffle_scale)
    return _quantised(*_rms(input, weight, epsilon), kinds["out"])


def rmsnorm2d_fwd_with_add_dynamicquant(
    input: Values,
    residual_in: Values,
    weight: Values,
    epsilon: float,
    group_size: int,
    shuffle_scale: bool,
    kinds: Mapping[str, str],
) -> tuple[Near, Near, Near]:
    """(out, residual_out, yscale)."""
    total, stored = _total(input, None, residual_in)
    codes, scales = rmsnorm2d_fwd_with_dynamicquant(total, weight, epsilon, group_size, shuffle_scale, kinds)
    return codes, stored, scales


def _smoothed(y: Values, error: Values, xscale: Values) -> tuple[Values, Values]:
    """Each column times its scale, and how far that may be off."""
    v = y * xscale
    return v, error * np.abs(xscale) + 2 * _ROUNDING * np.nan_to_num(np.abs(v))


def rmsnorm2d_fwd_with_smoothquant(
    input: Values, xscale: Values, weight: Values, epsilon: float, kinds: Mapping[str, str]
) -> tuple[Near, Near]:
    """(out, yscale) of the RMS norm, each column times its scale."""
    return _quantised(*_smoothed(*_rms(input, weight, epsilon), xscale), kinds["out"])


def rmsnorm2d_fwd_with_add_smoothquant(
    input: Values,
    residual_in: Values,
    xscale: Values,
    weight: Values,
    epsilon: float,
    kinds: Mapping[str, str],
) -> tuple[Near, Near, Near, Near | None]:
    """(out, residual_out, yscale, the norm itself where it is asked for)."""
    total, stored = _total(input, None, residual_in)
    y, error = _rms(total, weight, epsilon)
    codes, scales = _quantised(*_smoothed(y, error, xscale), kinds["out"])
    return codes, stored, scales, near(y, absolute=error) if "out_before_quant" in kinds else None


def layernorm2d_fwd_with_smoothquant(
    input: Values,
    xscale: Values,
    weight: Values,
    bias: Values,
    epsilon: float,
    x_bias: Values | None,
    kinds: Mapping[str, str],
) -> tuple[Near, Near]:
    """(out, yscale) of the layer norm, each column times its scale."""
    y, error = _layer(_total(input, x_bias, None)[0], weight, bias, epsilon)
    return _quantised(*_smoothed(y, error, xscale), kinds["out"])


def layernorm2d_fwd_with_add_smoothquant(
    input: Values,
    residual_in: Values,
    xscale: Values,
    weight: Values,
    bias: Values,
    epsilon: float,
    x_bias: Values | None,
    kinds: Mapping[str, str],
) -> tuple[Near, Near, Near]:
    """(out, residual_out, yscale)."""
    total, stored = _total(input, x_bias, residual_in)
    codes, scales = _quantised(*_smoothed(*_layer(total, weight, bias, epsilon), xscale), kinds["out"])
    return codes, stored, scales
