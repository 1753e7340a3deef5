"""Matrix products.

A kernel adds in fp32 on the matrix cores, at least four products at a time, and rounds once at the end. Each of its K / 4
additions may lose half a unit of a partial sum; partial sums are about as large as the root of the sum of the squared products,
or as the result where all products have one sign.
"""

from __future__ import annotations

import numpy as np

from build_tools.cases.near import Near, Values, near

_ROUNDING = 2.0**-24
_LOST = 2.0**-126


def _sum_error(a: Values, b: Values, product: Values) -> Values:
    """Of a @ b^T in fp32."""
    size = np.sqrt((a * a) @ (b * b).swapaxes(-1, -2))
    error: Values = _ROUNDING * (a.shape[-1] / 4 + 8) * (2 * size + np.abs(product)) + _LOST
    return error


def gemm_a16w16(A: Values, B: Values, bias: Values | None) -> Near:
    """A [..., K] @ B [N, K]^T + bias [N]."""
    product = A @ B.T
    error = _sum_error(A, B, product)
    out = product if bias is None else product + bias
    return near(out, relative=_ROUNDING, absolute=error)


def gemm_a16w16_fp32(A: Values, B: Values, bias: Values | None) -> Near:
    """The same; AITER's objects add parts of K in any order."""
    return gemm_a16w16(A, B, bias)


def _unshuffled(w: Values) -> Values:
    """A weight [N, K] back from shuffle_weight's (16, 16) layout, in which each block of 16 rows and 32 columns is stored as
    [2][16][16].
    """
    rows, columns = w.shape
    blocks = w.reshape(rows // 16, columns // 32, 2, 16, 16)
    plain: Values = blocks.transpose(0, 3, 1, 2, 4).reshape(rows, columns)
    return plain


def gemm_a8w8_bpreshuffle(XQ: Values, WQ: Values, x_scale: Values, w_scale: Values) -> Near:
    """(XQ [M, K] @ W^T) * x_scale [M, 1] * w_scale [N, 1]^T; WQ [N, Kw] is W as shuffle_weight stores it.

    Columns K .. Kw of W are padding and take no part.
    """
    w = _unshuffled(WQ)[:, : XQ.shape[-1]]
    product = XQ @ w.T
    scale = x_scale.reshape(-1, 1) * w_scale.reshape(1, -1)
    return near(product * scale, relative=2 * _ROUNDING, absolute=_sum_error(XQ, w, product) * np.abs(scale))


def draw_not_a_number(rng: np.random.Generator, shape: tuple[int, ...], sizes: object) -> Values:
    """Normal, with one NaN in every third row: an fp8 has no infinity."""
    del sizes
    values = rng.standard_normal(shape)
    values[::3, rng.integers(shape[1])] = np.nan
    return values
