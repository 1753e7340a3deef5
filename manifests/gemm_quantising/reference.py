"""Matrix products of 16-bit rows with a weight in fp8; the rows may be made fp8 first, each 128 columns with their scale.

A kernel adds in fp32 on the matrix cores, at least four products at a time, and rounds once at the end. Each of its additions
may lose half a unit of a partial sum; partial sums are about as large as the root of the sum of the squared products, or as the
result where all products have one sign.

It multiplies by the rounded reciprocal of a scale that was rounded twice before: six roundings before a code is rounded. That
moves a code only where the exact quotient is that close to a tie, and then to the neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near
from build_tools.cases.numbers import rounded

_ROUNDING = 2.0**-24
_LOST = 2.0**-126
_GROUP = 128
_QMAX = {"e4m3fnuz": 240.0, "e4m3fn": 448.0}


def _group(x: Values, kind: str | None) -> tuple[Values, Values]:
    """128 columns as the matrix cores have them, times their scale, and how far each may be off. ``kind`` None: as they are."""
    if kind is None:
        return x, np.zeros_like(x)
    qmax = _QMAX[kind]
    scale = np.maximum(np.fmax.reduce(np.abs(x), axis=-1, keepdims=True), 1e-10) / qmax
    exact = x / scale
    codes = rounded(exact, kind, saturate=True)
    near_by = [rounded(exact * (1 + way * 6 * _ROUNDING), kind, saturate=True) for way in (-1, 1)]
    off = np.maximum(*(np.abs(other - codes) for other in near_by))
    lost = np.isnan(x).any(axis=-1, keepdims=True) | np.isinf(scale)
    made = np.where(lost, np.nan, codes * scale)
    return made, off * scale + 4 * _ROUNDING * np.abs(made)


def _product(x: Values, w: Values, scales: Values, kind: str | None) -> tuple[Values, Values]:
    """The sum over blocks of 128 columns of x [.., M, 128] @ w [.., N, 128]^T * scales [.., N, block], and its error."""
    out = np.zeros((*x.shape[:-1], w.shape[-2]))
    error = np.zeros_like(out)
    for block in range(x.shape[-1] // _GROUP):
        part = slice(_GROUP * block, _GROUP * (block + 1))
        a, off = _group(x[..., part], kind)
        b = w[..., part].swapaxes(-1, -2)
        columns = scales[..., block][..., None, :]
        product = a @ b
        out = out + product * columns
        size = np.sqrt((a * a) @ (b * b))
        lost = off @ np.abs(b) + _ROUNDING * (_GROUP / 4 + 8) * (2 * size + np.abs(product))
        error = error + lost * np.abs(columns) + 4 * _ROUNDING * np.abs(out)
    return out, error


def batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant(
    X: Values, WQ: Values, w_scale: Values, bias: Values | None, kinds: Mapping[str, str]
) -> Near:
    """fp8(X [L, M, K]) @ WQ [L, N, K]^T * w_scale + bias [L, 1, N]."""
    scales = np.broadcast_to(w_scale.reshape(()), (*WQ.shape[:2], WQ.shape[2] // _GROUP))
    product, error = _product(X, WQ, scales, kinds["fp8"])
    out = product if bias is None else product + bias
    return near(out, relative=2 * _ROUNDING, absolute=error + 2 * _ROUNDING * np.abs(product) + _LOST)


def gemm_a16w8_blockscale(
    x: Values, w: Values, w_scale: Values, prequant: bool, kinds: Mapping[str, str]
) -> Near:
    """x [M, K], or fp8(x), @ w [N, K]^T, each 128 x 128 of w times its w_scale."""
    scales = np.repeat(w_scale, _GROUP, axis=0)[: w.shape[0]]
    product, error = _product(x, w, scales, kinds["fp8"] if prequant else None)
    return near(product, relative=2 * _ROUNDING, absolute=error + _LOST)
