"""Products of MXFP4 matrices.

A kernel adds in fp32 on the matrix cores, at least four products at a time. Each of its additions may lose half a unit of a
partial sum; partial sums are about as large as the root of the sum of the squared products, or as the result where all products
have one sign. The parts of a split K are rounded to bf16 and added in bf16, in any order.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

_ROUNDING, _LOST = 2.0**-24, 2.0**-126
_HALF = 2.0**-8
_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
#: Columns that share a scale; of the smallest part of a split K.
_BLOCK, _STEP = 32, 256


def gemm_a4w4_asm(
    A: Values,
    B: Values,
    A_scale: Values,
    B_scale: Values,
    log2_k_split: int | None,
    sizes: Mapping[str, int],
) -> Near:
    """out [R, N]: the values of A [M, K] @ the values of B [N, K]^T; B is stored as shuffle_weight (16, 16) does.

    Rows behind M are 0 where K is split, else they stay as they are; a call that does not say does not split.
    """
    a = _values(A, A_scale)
    b = _values(_unshuffled(B), B_scale)
    product = a @ b.T
    size = np.sqrt((a * a) @ (b * b).T)
    error = _ROUNDING * (a.shape[1] / 4 + 72) * (2 * size + np.abs(product)) + a.shape[1] * _LOST
    if log2_k_split:
        count = 1 << log2_k_split
        step = -(-(a.shape[1] // count) // _STEP) * _STEP
        starts = range(0, a.shape[1], step)
        together = sum(np.abs(a[:, at : at + step] @ b[:, at : at + step].T) for at in starts) + error
        error = error + _HALF * min(count, len(starts)) * 1.02 * together
    behind = sizes["R"] - sizes["M"]
    wide = np.ma.MaskedArray(np.pad(product, ((0, behind), (0, 0))), np.zeros((sizes["R"], sizes["N"]), bool))
    if not log2_k_split:
        wide[sizes["M"] :] = np.ma.masked
    return near(wide, absolute=np.pad(error, ((0, behind), (0, 0))))


def gemm_a4w4(A: Values, B: Values, A_scale: Values, B_scale: Values, sizes: Mapping[str, int]) -> Near:
    """As gemm_a4w4_asm, never split."""
    return gemm_a4w4_asm(A, B, A_scale, B_scale, 0, sizes)


def gemm_a4w4_blockscale(
    XQ: Values, WQ: Values, x_scale: Values, w_scale: Values, sizes: Mapping[str, int]
) -> Near:
    """As gemm_a4w4_asm, never split."""
    return gemm_a4w4_asm(XQ, WQ, x_scale, w_scale, 0, sizes)


def _values(codes: Values, scales: Values) -> Values:
    """Bytes of two fp4 each, the lower half first, times the scale of their block."""
    rows, width = codes.shape
    halves = np.stack([codes & 15, codes >> 4], axis=-1).reshape(rows, 2 * width)
    exact = _FP4[halves & 7] * np.where(halves & 8, -1.0, 1.0)
    found: Values = exact * np.repeat(_scales(scales)[:rows], _BLOCK, axis=1)
    return found


def _scales(codes: Values) -> Values:
    """Powers of two, 255 is NaN; of 32 rows and 8 columns row r and column c stand at [c % 4][r % 16][c // 4][r // 16]."""
    rows, columns = codes.shape
    blocks = codes.reshape(rows // 32, columns // 8, 4, 16, 2, 2).transpose(0, 5, 3, 1, 4, 2)
    plain = blocks.reshape(rows, columns)
    return np.where(plain == 255, np.nan, np.ldexp(1.0, plain - 127))


def _unshuffled(stored: Values) -> Values:
    """Bytes [n, k] from the layout of 16 rows by twice 16 bytes to the usual one."""
    n, k = stored.shape
    usual: Values = stored.reshape(n // 16, k // 32, 2, 16, 16).transpose(0, 3, 1, 2, 4).reshape(n, k)
    return usual
