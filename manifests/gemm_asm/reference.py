"""Matrix products of AITER's assembly.

A kernel adds in fp32 on the matrix cores, at least four products at a time, and the parts of a split K one after the other. Each
of its additions may lose half a unit of a partial sum; partial sums are about as large as the root of the sum of the squared
products, or as the result where all products have one sign.
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
    error: Values = _ROUNDING * (a.shape[-1] / 4 + 72) * (2 * size + np.abs(product)) + _LOST
    return error


def _parts_error(a: Values, b: Values, product: Values, bf16: bool, name: str) -> Values | float:
    """Return the error of sums of bf16 parts, which AITER's objects of this name add to a bf16 result.

    Each of up to 16 parts of 64 columns or more is rounded to bf16, by half of 2**-8 at most, and so is each sum of them; of
    thousands of parts some are twice the root of their squared products.
    """
    if not bf16 or "splitk_clean" not in name:
        return 0.0
    size = np.sqrt((a * a) @ (b * b).swapaxes(-1, -2))
    error: Values = 2.0**-8 * min(16, a.shape[-1] // 64) * (size + np.abs(product))
    return error


def gemm_a16w16_asm(
    A: Values, B: Values, bias: Values | None, kernelName: str | None, kinds: Mapping[str, str]
) -> Near:
    """A [M, K] @ B [N, K]^T + bias [N]."""
    product = A @ B.T
    out = product if bias is None else product + bias
    error = _sum_error(A, B, product) + _ROUNDING * np.abs(out)
    return near(
        out, relative=_ROUNDING, absolute=error + _parts_error(A, B, out, kinds["out"] == "bf16", kernelName or "")
    )  # fmt: skip


def gemm_a16w16_shuffled(
    A: Values, B: Values, bias: Values | None, kernelName: str, kinds: Mapping[str, str]
) -> Near:
    """A [M, K] @ W^T + bias [N]; B [N, K] is W stored as [N / 16][K / 8][16 rows][8 columns]."""
    rows, columns = B.shape
    w = B.reshape(rows // 16, columns // 8, 16, 8).transpose(0, 2, 1, 3).reshape(rows, columns)
    return gemm_a16w16_asm(A, w, bias, kernelName, kinds)


def gemm_a8w8_ASM(XQ: Values, WQ: Values, x_scale: Values, w_scale: Values, bias: Values) -> Near:
    """(XQ [M, K] @ W^T) * x_scale [M, 1] * w_scale [N, 1]^T + bias [N]; WQ [N, K] is W in shuffle_weight's (32, 16) layout, in
    which each block of 32 rows and 32 columns is stored as [2][32][16].

    Sums are int32 and exact; as fp32 they are rounded, then scaled twice and added to.
    """
    rows, columns = WQ.shape
    blocks = WQ.reshape(rows // 32, columns // 32, 2, 32, 16)
    w = blocks.transpose(0, 3, 1, 2, 4).reshape(rows, columns)
    product = (XQ.astype(np.int64) @ w.T.astype(np.int64)).astype(np.float64)
    scaled = product * (x_scale.reshape(-1, 1) * w_scale.reshape(1, -1))
    out = scaled + bias.reshape(1, -1)
    return near(out, relative=_ROUNDING, absolute=4 * _ROUNDING * np.abs(scaled) + _LOST)


def flatmm_a8w8_blockscale_ASM(XQ: Values, WQ: Values, x_scale: Values, w_scale: Values) -> Near:
    """Sum over blocks b of 128 columns of (XQ_b [M, 128] @ W_b^T) * x_scale [b, M] * w_scale [b, N / 128]; WQ [N, K] is W stored
    as [N / 16][K / 64][4][16 rows][16 columns].
    """
    rows, columns = WQ.shape
    w = WQ.reshape(rows // 16, columns // 64, 4, 16, 16).transpose(0, 3, 1, 2, 4).reshape(rows, columns)
    out = np.zeros((XQ.shape[0], rows))
    error = np.zeros_like(out)
    for block in range(columns // 128):
        part = slice(128 * block, 128 * (block + 1))
        scale = x_scale[block][:, None] * np.repeat(w_scale[block], 128)[None, :]
        product = XQ[:, part] @ w[:, part].T
        out += product * scale
        error += _sum_error(XQ[:, part], w[:, part], product) * np.abs(scale) + 4 * _ROUNDING * np.abs(out)
    return near(out, absolute=error)


def mi350_a8w8_blockscale_asm(XQ: Values, WQ: Values, x_scale: Values, w_scale: Values) -> Near:
    """Sum over blocks b of 128 columns of (XQ_b [M, 128] @ W_b^T) * x_scale [b, M] * w_scale [N / 128, b]; WQ [N, K] is W stored
    as [N / 16][K / 32][2][16 rows][16 columns].
    """
    rows, columns = WQ.shape
    w = WQ.reshape(rows // 16, columns // 32, 2, 16, 16).transpose(0, 3, 1, 2, 4).reshape(rows, columns)
    out = np.zeros((XQ.shape[0], rows))
    error = np.zeros_like(out)
    for block in range(columns // 128):
        part = slice(128 * block, 128 * (block + 1))
        scale = x_scale[block][:, None] * np.repeat(w_scale[:, block], 128)[None, :]
        product = XQ[:, part] @ w[:, part].T
        out += product * scale
        error += _sum_error(XQ[:, part], w[:, part], product) * np.abs(scale) + 4 * _ROUNDING * np.abs(out)
    return near(out, absolute=error)
