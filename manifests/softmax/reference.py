"""Softmax over the last dim.

A kernel works in fp32: exp2 of (x - max) * log2(e), a sum of which no thread adds more than 48 terms and one for every 1024
columns, one reciprocal, one product. The argument of exp2 is rounded twice, so a power is off by 2^-23 for every unit of
max - x. Powers below 2^-126 may be lost.
"""

from __future__ import annotations

import numpy as np

from build_tools.cases.near import Near, Values, near


def softmax(x: Values) -> Near:
    """exp(x - max) / sum(exp(x - max)). A row of nothing but -inf, or with NaN or +inf in it, is NaN in every column."""
    below = x - x.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(below)
    exact = powers / powers.sum(axis=-1, keepdims=True)
    depth = np.where(np.isfinite(below), -below, 0.0)
    roundings = 56 + x.shape[-1] / 1024 + 3 * depth
    return near(exact, relative=2.0**-24 * roundings, absolute=2.0**-125)
