"""Quantisation of rows: one scale a row, codes rounded to nearest even and cut at the largest one.

qmax is 127 for int8 (-128 is never a code), 240 for e4m3fnuz, 448 for e4m3fn. A row of zeros gets scale 1 and codes 0, as AITER's
``pertoken_quant`` has it; no other scale is below the smallest normal fp32 number, so that its reciprocal is finite.

A kernel rounds the scale twice (the reciprocal of qmax is a constant), and multiplies by the rounded reciprocal of the scale:
six roundings before a code is rounded. That moves a code only where the exact quotient is that close to a tie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

QMAX = {"i8": 127.0, "e4m3fnuz": 240.0, "e4m3fn": 448.0}
_SMALLEST = 2.0**-126
_ROUNDING = 2.0**-24


def _amax(x: Values) -> Values:
    """Largest size of each row; NaN is passed over."""
    sizes: Values = np.fmax.reduce(np.abs(x), axis=-1, keepdims=True, initial=0.0)
    return sizes


def _quantised(x: Values, amax: Values, kind: str) -> tuple[Values, Values]:
    """(codes before their rounding, scales)."""
    qmax = QMAX[kind]
    scales = np.where(amax > 0, np.maximum(amax / qmax, _SMALLEST), 1.0)
    codes = np.clip(x / scales, -qmax, qmax)
    return (np.nan_to_num(codes, nan=0.0) if kind == "i8" else codes), scales


def dynamic_per_token_scaled_quant(
    input: Values,
    scale_ub: Values | None,
    shuffle_scale: bool,
    num_rows: Values | None,
    num_rows_factor: int,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> tuple[Near, Near]:
    """scales = amax(|row|) / qmax, amax at most ``scale_ub``; out = input / scales.

    Only the first ``num_rows * num_rows_factor`` rows are done; the others stay as they were. NaN is left out of amax: its code
    is NaN in fp8 and 0 in int8, and so is that of an infinity, whose row has the scale infinity. Rows of ``input`` that are
    shorter than those of ``out`` are groups of them.
    """
    rows, width, kind = sizes["M"], sizes["N"], kinds["out"]
    grouped, amax = input.shape[-1] != width, _amax(input)
    if scale_ub is not None:
        amax = np.minimum(amax, scale_ub.reshape(()))
    if grouped and kind != "i8":
        codes, scales = _group_quantised(input, amax, kind)
    else:
        codes, scales = _quantised(input, amax, kind)
    if grouped:
        codes, scales = codes.reshape(rows, width), scales.reshape(rows, sizes["scale_columns"])
    count = rows if num_rows is None else int(num_rows.reshape(())) * num_rows_factor
    rest = (np.arange(rows) >= count).reshape(*codes.shape[:-1], 1)
    codes = np.ma.array(codes, mask=np.broadcast_to(rest, codes.shape))
    scales = np.ma.array(scales, mask=np.broadcast_to(rest, scales.shape))
    if grouped and shuffle_scale and kind != "i8":
        scales = _turned(scales, count)
    return near(codes, relative=6 * _ROUNDING), near(scales, relative=2 * _ROUNDING)


def _group_quantised(x: Values, amax: Values, kind: str) -> tuple[Values, Values]:
    """As :func:`_quantised`, as AITER's kernel has it: no scale is that of zeros, and NaN is the lowest code."""
    qmax = QMAX[kind]
    scales = np.maximum(amax, 1e-10) / qmax
    codes = np.clip(x / scales, -qmax, qmax)
    return np.where(np.isnan(codes), -qmax, codes), scales


def _turned(scales: Values, count: int) -> Values:
    """The scales of ``count`` rows, column after column; behind them nothing is written."""
    made = np.ma.array(np.zeros(scales.size), mask=np.ones(scales.size, bool))
    made[: count * scales.shape[1]] = np.ma.getdata(scales)[:count].T.reshape(-1)
    return made.reshape(scales.shape)


def smoothquant_fwd(input: Values, x_scale: Values, kinds: Mapping[str, str]) -> tuple[Near, Near]:
    """v = input * x_scale; y_scale = amax(|v|) / qmax; out = v / y_scale. The product is one rounding more.

    NaN is left out of amax, and a kernel's cut takes it for the lower bound: its code is -qmax. A row with an infinity has the
    scale infinity and no codes to speak of: each is 0 or -qmax, as its kernel has it.
    """
    product = input * x_scale
    amax, qmax = _amax(product), QMAX[kinds["out"]]
    codes, scales = _quantised(product, amax, kinds["out"])
    lost = np.broadcast_to(amax == np.inf, codes.shape)
    codes = np.where(lost, -qmax / 2, np.where(np.isnan(product), -qmax, codes))
    return near(codes, relative=np.where(lost, 1.0, 8 * _ROUNDING)), near(scales, relative=3 * _ROUNDING)


def dynamic_per_tensor_quant(input: Values, kinds: Mapping[str, str]) -> tuple[Near, Near]:
    """scale = amax(|input|) / qmax; out = input / scale. The whole tensor is one row of the above."""
    codes, scale = _quantised(input, _amax(input.reshape(-1)), kinds["out"])
    return near(codes, relative=6 * _ROUNDING), near(scale, relative=2 * _ROUNDING)


def static_per_tensor_quant(input: Values, scale: Values, kinds: Mapping[str, str]) -> Near:
    """out = input / scale, cut at the largest code. A kernel multiplies by the rounded reciprocal."""
    qmax = QMAX[kinds["out"]]
    return near(np.clip(input / scale.reshape(()), -qmax, qmax), relative=4 * _ROUNDING)


def smooth_per_token_scaled_quant(
    input: Values,
    smooth_scale: Values,
    smooth_scale_map: Values | None,
    num_rows: Values | None,
    num_rows_factor: int,
    kinds: Mapping[str, str],
) -> tuple[Near, Near]:
    """v = input * smooth_scale of the row's expert; scales = max(amax(|v|), 1e-10) / qmax; out = v / scales.

    Rows of a negative expert stay as they were, and so do rows from ``num_rows * num_rows_factor`` on. NaN and infinities as
    :func:`smoothquant_fwd`.
    """
    width, qmax = input.shape[-1], QMAX[kinds["out"]]
    rows = input.reshape(math.prod(input.shape[:-1]), width)
    each = smooth_scale.reshape(math.prod(smooth_scale.shape[:-1]), width)
    which = np.zeros(len(rows), np.int64) if smooth_scale_map is None else smooth_scale_map.reshape(-1)
    product = rows * each[np.maximum(which, 0)]
    amax = np.maximum(_amax(product), 1e-10)
    codes, scales = _quantised(product, amax, kinds["out"])
    lost = np.broadcast_to(amax == np.inf, codes.shape)
    codes = np.where(lost, -qmax / 2, np.where(np.isnan(product), -qmax, codes))
    count = (len(rows) if num_rows is None else int(num_rows.reshape(())) * num_rows_factor) if width else 0
    rest = ((np.arange(len(rows)) >= count) | (which < 0)).reshape(*input.shape[:-1], 1)
    made = np.ma.array(codes.reshape(input.shape), mask=np.broadcast_to(rest, input.shape))
    error = np.where(lost, 1.0, 8 * _ROUNDING).reshape(input.shape)
    return near(made, relative=error), near(
        np.ma.array(scales.reshape(rest.shape), mask=rest), relative=4 * _ROUNDING
    )


def dynamic_per_group_scaled_quant_fp4(
    input: Values,
    group_size: int,
    shuffle_scale: bool,
    num_rows: Values | None,
    num_rows_factor: int,
    sizes: Mapping[str, int],
) -> tuple[Values, Values]:
    """Codes and exponents byte by byte. scale = 2 ** (e - 2): 2 ** e is amax rounded to a power of two, upwards from 1.5 on."""
    rows, width = input.shape
    columns = width // group_size
    groups = input.reshape(rows, columns, group_size)
    amax = np.maximum(np.abs(groups).max(axis=-1, initial=0.0), np.float64(np.float32(1e-10)))
    fraction, exponent = np.frexp(amax)  # in [0.5, 1)
    power = exponent - 1 + (fraction >= 0.75)
    codes = _fp4(groups / np.exp2(power - 2.0)[..., None]).reshape(rows, width // 2, 2)
    count = rows if num_rows is None else int(num_rows.reshape(())) * num_rows_factor
    rest = np.arange(rows) >= count
    pairs = np.ma.array(
        codes[..., 0] + 16 * codes[..., 1], mask=np.broadcast_to(rest[:, None], codes.shape[:2])
    )
    cells = (sizes["scale_rows"], sizes["scale_columns"])
    scales = np.ma.array(np.zeros(cells, np.int64), mask=np.ones(cells, bool)).reshape(-1)
    x, y = (place.reshape(-1) for place in np.indices((count, columns)))
    places = x * columns + y
    if shuffle_scale:
        blocks, inner = x // 32 * (columns // 8) + y // 8, (y % 4 * 16 + x % 16) * 2 + y % 8 // 4
        places = blocks * 256 + inner * 2 + x % 32 // 16
    scales[places] = (power - 2 + 127)[:count].reshape(-1)
    return pairs, scales.reshape(cells)


_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def _fp4(x: Values) -> Values:
    """Codes of fp4, rounded to nearest even, cut at 6; the sign of a zero is kept."""
    sizes = np.abs(x)[..., None]
    edges = (_FP4[1:] + _FP4[:-1]) / 2
    # from an odd code a tie goes up, from an even one it stays
    above = np.where(np.arange(7) % 2 == 1, sizes >= edges, sizes > edges)
    code: Values = above.sum(axis=-1) + 8 * np.signbit(x)
    return code


def partial_transpose(input: Values, num_rows: Values) -> Values:
    """The first rows, transposed, at the beginning."""
    count = int(num_rows.reshape(())) if input.size else 0
    made = np.ma.array(np.zeros(input.size), mask=np.ones(input.size, bool))
    made[: count * input.shape[1]] = input[:count].T.reshape(-1)
    return made.reshape(input.shape)
