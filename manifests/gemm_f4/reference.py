"""Products of MXFP4 matrices by Triton kernels of ours, in the forms of AITER's Triton functions.

What may be lost in a sum stands in ``build_tools/cases/mxfp4.py``; the result is rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping

from build_tools.cases.mxfp4 import quantised, rows_of_bytes, rows_of_scales, scaled, sum_error, unfolded
from build_tools.cases.near import Near, Values, near


def _product(a: Values, b: Values) -> Near:
    product = a @ b.T
    return near(product, absolute=sum_error(a, b, product))


def gemm_afp4wfp4(x: Values, w: Values, x_scales: Values, w_scales: Values) -> Near:
    """x [M, K] @ w [N, K]^T, pairs of fp4 and their scales in rows."""
    return _product(scaled(x, x_scales), scaled(w, w_scales))


def gemm_afp4wfp4_preshuffle(
    x_fp4: Values, w_preshuf: Values, x_scales: Values, w_scales: Values, sizes: Mapping[str, int]
) -> Near:
    """The same of what ``shuffle_weight`` (16, 16) and ``e8m0_shuffle`` stored; of fewer than 32 rows, scales lie in rows."""
    rows = x_scales if sizes["M"] < 32 else rows_of_scales(unfolded(x_scales, 32))
    weight = rows_of_bytes(unfolded(w_preshuf, 16))
    return _product(scaled(x_fp4, rows), scaled(weight, rows_of_scales(unfolded(w_scales, 32))))


def gemm_a16wfp4(x: Values, w: Values, w_scales: Values) -> Near:
    """x [M, K], made MXFP4, @ w [N, K]^T."""
    return _product(quantised(x), scaled(w, w_scales))


def gemm_afp4wfp4_pre_quant(x: Values, w: Values, w_scales: Values) -> Near:
    """As gemm_a16wfp4."""
    return gemm_a16wfp4(x, w, w_scales)
