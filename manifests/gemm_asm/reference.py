"""Matrix products of AITER's assembly.

A kernel adds in fp32 on the matrix cores, at least four products at a time, and the parts of a split K one after the other. Each
of its additions may lose half a unit of a partial sum; partial sums are about as large as the root of the sum of the squared
products, or as the result where all products have one sign.
"""

from __future__ import annotations

import numpy as np

from build_tools.cases.near import Near, Values, near

_ROUNDING = 2.0**-24
_LOST = 2.0**-126


def _sum_error(a: Values, b: Values, product: Values) -> Values:
    """Of a @ b^T in fp32."""
    size = np.sqrt((a * a) @ (b * b).swapaxes(-1, -2))
    error: Values = _ROUNDING * (a.shape[-1] / 4 + 72) * (2 * size + np.abs(product)) + _LOST
    return error


def gemm_a16w16_asm(A: Values, B: Values) -> Near:
    """A [M, K] @ B [N, K]^T."""
    product = A @ B.T
    return near(product, relative=_ROUNDING, absolute=_sum_error(A, B, product))
