"""Products of MXFP4 matrices.

What may be lost in a sum stands in ``build_tools/cases/mxfp4.py``. The parts of a split K are rounded to bf16 and added in bf16,
in any order.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.mxfp4 import rows_of_bytes, rows_of_scales, scaled, sum_error
from build_tools.cases.near import Near, Values, near

_ROUNDING = 2.0**-24
_HALF = 2.0**-8
#: Columns of the smallest part of a split K.
_STEP = 256


def gemm_a4w4_asm(
    A: Values,
    B: Values,
    A_scale: Values,
    B_scale: Values,
    bias: Values | None,
    log2_k_split: int | None,
    bpreshuffle: bool,
    beta: float,
    sizes: Mapping[str, int],
) -> Near:
    """out [R, N]: the values of A [M, K] @ the values of B [N, K]^T + beta * bias [N].

    B is stored as shuffle_weight (16, 16) does with ``bpreshuffle``. Rows behind M are 0 where K is split, else they stay as they
    are; a call that does not say does not split.
    """
    a = scaled(A, rows_of_scales(A_scale))
    b = scaled(rows_of_bytes(B) if bpreshuffle else B, rows_of_scales(B_scale))
    product = a @ b.T
    error = sum_error(a, b, product)
    if log2_k_split and log2_k_split > 0:
        count = 1 << log2_k_split
        step = -(-(a.shape[1] // count) // _STEP) * _STEP
        starts = range(0, a.shape[1], step)
        together = sum(np.abs(a[:, at : at + step] @ b[:, at : at + step].T) for at in starts) + error
        error = error + _HALF * min(count, len(starts)) * 1.02 * together
    if bias is not None:
        error = error + 3 * _ROUNDING * (np.abs(product) + np.abs(beta * bias))
        product = product + beta * bias
    behind = sizes["R"] - sizes["M"]
    wide = np.ma.MaskedArray(np.pad(product, ((0, behind), (0, 0))), np.zeros((sizes["R"], sizes["N"]), bool))
    if not log2_k_split or log2_k_split < 0:
        wide[sizes["M"] :] = np.ma.masked
    return near(wide, absolute=np.pad(error, ((0, behind), (0, 0))))


def gemm_a4w4(
    A: Values,
    B: Values,
    A_scale: Values,
    B_scale: Values,
    bias: Values | None,
    bpreshuffle: bool,
    beta: float,
    sizes: Mapping[str, int],
) -> Near:
    """As gemm_a4w4_asm, never split."""
    return gemm_a4w4_asm(A, B, A_scale, B_scale, bias, 0, bpreshuffle, beta, {**sizes, "R": sizes["M"]})


def gemm_a4w4_blockscale(
    XQ: Values, WQ: Values, x_scale: Values, w_scale: Values, sizes: Mapping[str, int]
) -> Near:
    """As gemm_a4w4_asm, never split."""
    return gemm_a4w4_asm(XQ, WQ, x_scale, w_scale, None, 0, True, 0.0, sizes)
