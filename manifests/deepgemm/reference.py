"""Matrix products of groups of rows, each with a matrix of its own.

A kernel adds in fp32 on the matrix cores, at least four products at a time, and rounds once at the end. Each of its K / 4
additions may lose half a unit of a partial sum; partial sums are about as large as the root of the sum of the squared products,
or as the result where all products have one sign.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.experts import draw_codes, draw_scales, usual
from build_tools.cases.near import Near, Values, near

__all__ = ["draw_codes", "draw_scales"]

_ROUNDING = 2.0**-24
_LOST = 2.0**-126
#: Elements that lie together in the layout of ``shuffle_weight`` (16, 16).
_RUN = {"bf16": 8, "f16": 8, "e4m3fn": 16, "e4m3fnuz": 16}


def deepgemm(
    XQ: Values,
    WQ: Values,
    group_layout: Values,
    x_scale: Values | None,
    w_scale: Values | None,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> Near:
    """XQ [G, M, K] @ WQ [G, N, K]^T, times the scales of rows and columns; rows from ``group_layout`` on keep what they had."""
    groups, rows, columns = sizes["G"], sizes["M"], sizes["N"]
    weights = usual(WQ, _RUN[kinds["WQ"]]).swapaxes(-1, -2)
    product = XQ @ weights
    size = np.sqrt((XQ * XQ) @ (weights * weights))
    error = _ROUNDING * (sizes["K"] / 4 + 8) * (2 * size + np.abs(product))
    if x_scale is not None and w_scale is not None:
        scale = x_scale.reshape(groups, rows, 1) * w_scale.reshape(groups, 1, columns)
        product, error = product * scale, error * np.abs(scale)
    left = np.arange(rows)[None, :, None] >= group_layout[:, None, None]
    kept = np.ma.array(product, mask=np.broadcast_to(left, product.shape))
    return near(kept, absolute=error + 4 * _ROUNDING * np.abs(product) + _LOST)


def draw_valid(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Valid rows of each group: all of the first, none of the third."""
    found = rng.integers(0, sizes["M"] + 1, shape)
    found[:1] = sizes["M"]
    found[2:3] = 0
    return found
