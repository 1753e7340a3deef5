"""fp8 codes with a scale for each group of columns, behind a gated activation or a norm.

qmax is 240 for e4m3fnuz, 448 for e4m3fn. The scale is amax / qmax of a group, amax at least 1e-10. NaN is left out of amax, and a
kernel's cut takes it for the lower bound: its code is -qmax. A group with an infinity has the scale infinity: the infinity's
code is -qmax, all others are 0.

What is quantised is off by what made it; the largest of a group sets its scale, so its error is in all codes of the group. The
scale and its reciprocal are a rounding each, as are the products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near
from build_tools.cases.numbers import rounded

QMAX = {"e4m3fnuz": 240.0, "e4m3fn": 448.0}
_LARGEST = float(np.finfo(np.float32).max)
_ROUNDING = 2.0**-24
#: Products of a subnormal number may be lost.
_LOST = 2.0**-125


def _finite(x: Values) -> Values:
    return np.where(np.isfinite(x), x, 0.0)


def _by_groups(v: Values, error: Values, size: int, groups: int, kind: str) -> tuple[Near, Near]:
    """(Codes, ``groups`` scales) of rows that are off by ``error``."""
    rows, width = v.shape
    count, qmax = max(-(-width // size), groups), QMAX[kind]
    room = ((0, 0), (0, count * size - width))
    parts = np.pad(v, room).reshape(rows, count, size)
    off = np.pad(_finite(error), room).reshape(parts.shape)
    amax = np.fmax.reduce(np.abs(parts), axis=-1, keepdims=True, initial=1e-10)
    worst = np.where(np.isnan(parts), 0.0, off).max(axis=-1, keepdims=True, initial=0.0)
    scales = amax / qmax
    codes = np.clip(parts / scales, -qmax, qmax)
    codes = np.where(np.isnan(codes), -qmax, codes)
    moved = off / scales + np.abs(codes) * (_finite(worst / amax) + 8 * _ROUNDING)
    moved = np.where(np.isfinite(parts), moved, 0.0)
    cut = (rows, count * size)
    found = near(codes.reshape(cut)[:, :width], absolute=moved.reshape(cut)[:, :width])
    missed = worst / qmax + 4 * _ROUNDING * _finite(scales)
    return found, near(scales[:, :groups, 0], absolute=missed[:, :groups, 0])


def _activated(gate: Values, activation: str) -> tuple[Values, Values]:
    """act(gate), and how far a kernel may be off.

    An exponential's argument is rounded: it is off by 2^-24 for every unit of that argument, which counts for nothing where the
    sigmoid is near 1. 1 + erf cancels in the negative tail: two units of fp32 at 1 are left of erf's error there.
    """
    if activation == "gelu":
        upper = np.asarray(np.frompyfunc(math.erfc, 1, 1)(-gate * math.sqrt(0.5)), np.float64)
        exact = 0.5 * gate * upper
        return exact, 4 * _ROUNDING * np.abs(exact) + 2.0**-23 * np.abs(gate)
    slope = gate if activation == "silu" else 2 * math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)
    exact = gate / (1 + np.exp(-slope))
    tail = np.nan_to_num(np.abs(_finite(slope)) / (1 + np.exp(_finite(slope))))
    return exact, _ROUNDING * (8 + 3 * tail) * np.abs(exact) + _LOST * np.abs(gate)


def act_mul_and_fp8_group_quant(
    x: Values, activation: str, group_size: int, kinds: Mapping[str, str], sizes: Mapping[str, int]
) -> tuple[Near, Near]:
    """codes, scales of act(first half) * second half."""
    half = x.shape[-1] // 2
    gate, up = x[:, :half], x[:, half:]
    found, error = _activated(gate, activation)
    v = found * up
    v = np.where(np.abs(v) > _LARGEST, np.copysign(np.inf, v), v)
    off = error * np.abs(up) + 2 * _ROUNDING * np.abs(v) + _LOST
    return _by_groups(v, off, group_size, sizes["groups"], kinds["codes"])


def _rms(x: Values, weight: Values, epsilon: float) -> tuple[Values, Values]:
    """The RMS norm of x, and how far it may be off; a row whose squares fp32 cannot add has the scale 0."""
    total = (x * x).sum(axis=-1, keepdims=True)
    total = np.where(total > _LARGEST, np.inf, total)
    result = x / np.sqrt(total / max(x.shape[-1], 1) + epsilon) * weight
    return result, 2.0**-19 * _finite(np.abs(result)) + np.where(result == 0, 0.0, _LOST)


def _second(x: Values | None, weight: Values | None, epsilon: float | None) -> Near | None:
    """The norm beside that of the codes."""
    if x is None:
        return None
    found, error = _rms(x, np.ones(x.shape[-1]) if weight is None else weight, epsilon or 0.0)
    return near(found, absolute=error)


def _summed(x: Values, residual: Values | None) -> tuple[Values, Near | None]:
    """The sum, and as it is stored: a kernel adds in fp32."""
    if residual is None:
        return x, None
    total = x + residual
    return total, near(total, absolute=2 * _ROUNDING * _finite(np.abs(x) + np.abs(residual)))


def fused_rms_fp8_group_quant(
    inp1: Values,
    inp1_weight: Values,
    inp1_epsilon: float,
    inp2: Values | None,
    inp2_weight: Values | None,
    inp2_epsilon: float | None,
    group_size: int,
    res1: Values | None,
    output_unquantized_inp1: bool,
    transpose_scale: bool,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> dict[str, Near | None]:
    """Codes and scales of the norm of inp1 + res1; the norm, the sum, and the norm of inp2 where they are asked for."""
    total, stored = _summed(inp1, res1)
    y, error = _rms(total, inp1_weight, inp1_epsilon)
    codes, scales = _by_groups(y, error, group_size, sizes["groups"], kinds["out1_fp8"])
    if transpose_scale:
        shape = scales.values.shape
        scales = Near(scales.values.T.reshape(shape), scales.error.T.reshape(shape), None)
    return {
        "out1_fp8": codes,
        "out1_bs": scales,
        "out1": near(y, absolute=error) if output_unquantized_inp1 else None,
        "out2": _second(inp2, inp2_weight, inp2_epsilon),
        "out_res1": stored,
    }


def fused_rms_fp8_per_tensor_static_quant(
    inp1: Values,
    inp1_weight: Values,
    inp1_epsilon: float,
    inp1_scale: Values,
    inp2: Values | None,
    inp2_weight: Values | None,
    inp2_epsilon: float | None,
    res1: Values | None,
    output_unquantized_inp1: bool,
    rmsnorm_convert_to_inp1_type: bool,
    kinds: Mapping[str, str],
) -> dict[str, Near | None]:
    """Codes of the norm of inp1 + res1, by the scale; the norm, the sum, and the norm of inp2 where they are asked for."""
    total, stored = _summed(inp1, res1)
    y, error = _rms(total, inp1_weight, inp1_epsilon)
    qmax, scale = QMAX[kinds["out1_fp8"]], inp1_scale[0]
    coded, off = y, error
    if rmsnorm_convert_to_inp1_type:  # near the middle of two numbers a kernel may take the other one
        coded = rounded(y, kinds["inp1"])
        ends = (rounded(y - error, kinds["inp1"]), rounded(y + error, kinds["inp1"]))
        off = np.fmax.reduce([_finite(np.abs(end - coded)) for end in ends])
    codes = np.clip(coded / scale, -qmax, qmax)
    codes = np.where(np.isnan(codes), -qmax, codes)
    off = off / scale + 4 * _ROUNDING * np.abs(codes)
    return {
        "out1_fp8": near(codes, absolute=np.where(np.isfinite(y), off, 0.0)),
        "out1": near(y, absolute=error) if output_unquantized_inp1 else None,
        "out2": _second(inp2, inp2_weight, inp2_epsilon),
        "out_res1": stored,
    }


def fused_add_rmsnorm_pad(
    x: Values, weight: Values, epsilon: float, res: Values | None, sizes: Mapping[str, int]
) -> tuple[Near, Near | None]:
    """The norm of x + res with zeros behind its rows, and the sum."""
    total, stored = _summed(x, res)
    y, error = _rms(total, weight, epsilon)
    room = ((0, 0), (0, sizes["columns"] - x.shape[-1]))
    return near(np.pad(y, room), absolute=np.pad(error, room)), stored
