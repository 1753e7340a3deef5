"""Matrix products of eight-bit numbers with scales.

A kernel adds in fp32 on the matrix cores, at least four products at a time, or in int32, which is exact, and rounds once at the
end. Each of its K / 4 additions may lose half a unit of a partial sum; partial sums are about as large as the root of the sum of
the squared products, or as the result where all products have one sign.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

_ROUNDING = 2.0**-24
_LOST = 2.0**-126


def _sum_error(a: Values, b: Values, product: Values) -> Values:
    """Of a @ b^T in fp32."""
    size = np.sqrt((a * a) @ (b * b).swapaxes(-1, -2))
    error: Values = _ROUNDING * (a.shape[-1] / 4 + 8) * (2 * size + np.abs(product)) + _LOST
    return error


def gemm_a8w8_CK(
    XQ: Values, WQ: Values, x_scale: Values, w_scale: Values, bias: Values | None, kinds: Mapping[str, str]
) -> Near:
    """(XQ [M, K] @ WQ [N, K]^T) * x_scale [M, 1] * w_scale [N, 1]^T + bias [N]."""
    a, b = XQ.astype(np.float64), WQ.astype(np.float64)
    product = a @ b.T
    scale = x_scale.reshape(-1, 1) * w_scale.reshape(1, -1)
    scaled = product * scale
    out = scaled if bias is None else scaled + bias.reshape(1, -1)
    error = 0.0 if kinds["XQ"] == "i8" else _sum_error(a, b, product) * np.abs(scale)
    return near(out, relative=_ROUNDING, absolute=error + 4 * _ROUNDING * np.abs(scaled) + _LOST)


def gemm_a8w8(
    XQ: Values, WQ: Values, x_scale: Values, w_scale: Values, bias: Values | None, kinds: Mapping[str, str]
) -> Near:
    """The same."""
    return gemm_a8w8_CK(XQ, WQ, x_scale, w_scale, bias, kinds)


def gemm_a8w8_blockscale(XQ: Values, WQ: Values, x_scale: Values, w_scale: Values) -> Near:
    """Sum over blocks b of 128 columns of (XQ_b [M, 128] @ WQ_b [N, 128]^T) * x_scale [M, b] * w_scale [N / 128, b]."""
    out = np.zeros((XQ.shape[0], WQ.shape[0]))
    error = np.zeros_like(out)
    columns = np.repeat(w_scale, 128, axis=0)[: WQ.shape[0]]
    for block in range(x_scale.shape[1]):
        part = slice(128 * block, 128 * (block + 1))
        scale = x_scale[:, block][:, None] * columns[:, block][None, :]
        product = XQ[:, part] @ WQ[:, part].T
        out += product * scale
        error += _sum_error(XQ[:, part], WQ[:, part], product) * np.abs(scale) + 4 * _ROUNDING * np.abs(out)
    return near(out, relative=_ROUNDING, absolute=error + _LOST)


def batched_gemm_a8w8_CK(XQ: Values, WQ: Values, x_scale: Values, w_scale: Values) -> Near:
    """(XQ [L, M, K] @ WQ [L, N, K]^T) * x_scale [L, M, 1] * w_scale [L, 1, N]; int32 sums are exact."""
    scaled = (XQ.astype(np.float64) @ WQ.astype(np.float64).swapaxes(-1, -2)) * (x_scale * w_scale)
    return near(scaled, relative=_ROUNDING, absolute=4 * _ROUNDING * np.abs(scaled) + _LOST)


def batched_gemm_a8w8(XQ: Values, WQ: Values, x_scale: Values, w_scale: Values) -> Near:
    """The same."""
    return batched_gemm_a8w8_CK(XQ, WQ, x_scale, w_scale)


def batched_gemm_bf16_CK(XQ: Values, WQ: Values) -> Near:
    """XQ [L, M, K] @ WQ [L, N, K]^T."""
    product = XQ @ WQ.swapaxes(-1, -2)
    return near(product, relative=_ROUNDING, absolute=_sum_error(XQ, WQ, product))


def batched_gemm_bf16(XQ: Values, WQ: Values) -> Near:
    """The same."""
    return batched_gemm_bf16_CK(XQ, WQ)


def gemm_a8w8_blockscale_bpreshuffle(
    XQ: Values, WQ: Values, x_scale: Values, w_scale: Values, sizes: Mapping[str, int]
) -> Near:
    """The same of W, which WQ [N, K] holds as shuffle_weight (16, 16) stores it: each block of 16 rows and 32 columns as
    [2][16][16]. The memory of a contiguous x_scale [M, K / 128] is that of its transpose; else its rows lie side by side.
    """
    rows, columns = WQ.shape
    blocks = WQ.reshape(rows // 16, columns // 32, 2, 16, 16)
    w = blocks.transpose(0, 3, 1, 2, 4).reshape(rows, columns)
    turned = x_scale
    if sizes.get("xs_block", 1) == 1:  # a call that says no stride
        turned = x_scale.reshape(x_scale.shape[1], x_scale.shape[0]).T
    return gemm_a8w8_blockscale(XQ, w, turned, w_scale)


def draw_not_a_number(rng: np.random.Generator, shape: tuple[int, ...], sizes: object) -> Values:
    """Normal, with one NaN in every third row: an fp8 has no infinity."""
    del sizes
    values = rng.standard_normal(shape)
    values[::3, rng.integers(shape[1])] = np.nan
    return values
