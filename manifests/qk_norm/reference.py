"""Norms of queries and keys, with a residual before them and codes behind them: the formulas, and how far a kernel may be off.

A norm is as far off as `manifests/norm/reference.py` says: 2^-19 of each element. A row whose squares fp32 cannot add has the
scale 0; NaN or an infinity makes the row NaN where it stands.
"""

from __future__ import annotations

import numpy as np

from build_tools.cases.near import Near, Values, near

_LARGEST = float(np.finfo(np.float32).max)
#: Products of a subnormal number may be lost.
_LOST = 2.0**-125


def _norm(x: Values, weight: Values, epsilon: float) -> tuple[Values, Values]:
    """The norm of each row, and how far a kernel's may be off."""
    total = (x * x).sum(axis=-1, keepdims=True)
    total = np.where(total > _LARGEST, np.inf, total)
    result: Values = x * (1 / np.sqrt(total / x.shape[-1] + epsilon)) * weight
    return result, np.nan_to_num(2.0**-19 * np.abs(result), posinf=0.0) + _LOST


def fused_qk_rmsnorm(
    q: Values, q_weight: Values, q_eps: float, k: Values, k_weight: Values, k_eps: float
) -> tuple[Near, Near]:
    """(q_out, k_out): each row over the root of its mean square, times the weight."""
    queries, of_queries = _norm(q, q_weight, q_eps)
    keys, of_keys = _norm(k, k_weight, k_eps)
    return near(queries, absolute=of_queries), near(keys, absolute=of_keys)
