"""Products with few rows: the formula and how far a kernel may be off."""

from __future__ import annotations

import numpy as np

from build_tools.cases.near import Near, Values, near


def _product(weight: Values, input: Values, scale: float = 1.0) -> Near:
    """``input @ weight.T``, added up in fp32 by 64 lanes side by side: what each addition may lose is of the sum of all sizes."""
    with np.errstate(all="ignore"):
        exact = input @ weight.T * scale
        size = np.abs(input) @ np.abs(weight).T * abs(scale)
    longest = input.shape[-1] / 64 + 8
    error = np.nan_to_num(size, posinf=0.0) * longest * 2.0**-24 + 2.0**-148
    return near(exact, relative=2.0**-23, absolute=error)


def wvSpltK(in_a: Values, in_b: Values) -> Near:
    """Up to 16 rows."""
    return _product(in_a, in_b)


def wv_splitk_small_fp16_bf16(in_a: Values, in_b: Values) -> Near:
    """Up to 16 rows."""
    return _product(in_a, in_b)


def LLMM1(in_a: Values, in_b: Values) -> Near:
    """One row."""
    return _product(in_a, in_b)


def wvSplitKQ(in_a: Values, in_b: Values, scale_a: Values, scale_b: Values) -> Near:
    """Both scales are one number."""
    return _product(in_a, in_b, float(scale_a.ravel()[0]) * float(scale_b.ravel()[0]))
