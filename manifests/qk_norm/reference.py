"""Norms of queries and keys, with a residual before them and codes behind them: the formulas, and how far a kernel may be off.

A norm is as far off as `manifests/norm/reference.py` says: 2^-19 of each element. A row whose squares fp32 cannot add has the
scale 0; NaN or an infinity makes the row NaN where it stands.

Codes are of a norm that is so far off; the largest of a row or group sets its scale, so its error is in all of its codes. qmax is
127 for int8 (-128 is never a code), 240 for e4m3fnuz, 448 for e4m3fn. NaN is left out of amax, which is at least 1e-10; its code
is NaN in fp8 and 0 in int8, and so is that of an infinity, whose scale is infinite.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.group_codes import coded, rms_norm
from build_tools.cases.near import Near, Values, near


def fused_qk_rmsnorm_plain(
    q: Values, q_weight: Values, q_eps: float, k: Values, k_weight: Values, k_eps: float
) -> tuple[Near, Near]:
    """(q_out, k_out): each row over the root of its mean square, times the weight."""
    queries, of_queries = rms_norm(q, q_weight, q_eps)
    keys, of_keys = rms_norm(k, k_weight, k_eps)
    return near(queries, absolute=of_queries), near(keys, absolute=of_keys)


def _total(x: Values, residual: Values) -> tuple[Values, Near]:
    """The sum, and as it is stored: a kernel adds in fp32."""
    error = 2.0**-23 * (np.abs(x) + np.abs(residual))
    return x + residual, near(x + residual, absolute=np.nan_to_num(error, posinf=0.0))


def rmsnorm_quant(
    input: Values,
    weight: Values,
    epsilon: float,
    group_size: int,
    shuffle_scale: bool,
    gemma_norm: bool,
    kinds: Mapping[str, str],
) -> tuple[Near, Near]:
    """(out, scale) of the norm: one scale for each of G groups of columns."""
    norm = rms_norm(input, weight + 1 if gemma_norm else weight, epsilon)
    return coded(*norm, group_size, kinds["out"], shuffle_scale)


def add_rmsnorm_quant(
    input: Values,
    residual_in: Values,
    weight: Values,
    epsilon: float,
    group_size: int,
    shuffle_scale: bool,
    gemma_norm: bool,
    kinds: Mapping[str, str],
) -> tuple[Near, Near, Near]:
    """(out, residual_out, scale) of the norm of the sum."""
    total, stored = _total(input, residual_in)
    norm = rms_norm(total, weight + 1 if gemma_norm else weight, epsilon)
    codes, scales = coded(*norm, group_size, kinds["out"], shuffle_scale)
    return codes, stored, scales


def rmsnorm(input: Values, weight: Values, epsilon: float, gemma_norm: bool) -> Near:
    """The norm alone."""
    y, error = rms_norm(input, weight + 1 if gemma_norm else weight, epsilon)
    return near(y, absolute=error)


def add_rmsnorm(
    input: Values, residual_in: Values, weight: Values, epsilon: float, gemma_norm: bool
) -> tuple[Near, Near]:
    """(out, residual_out): the norm of the sum, and the sum."""
    total, stored = _total(input, residual_in)
    return rmsnorm(total, weight, epsilon, gemma_norm), stored


def _near(values: Values, error: Values) -> Near:
    return near(values, absolute=error)


def fused_qk_rmsnorm_group_quant(
    q: Values,
    q_weight: Values,
    q_epsilon: float,
    k: Values | None,
    k_weight: Values | None,
    k_epsilon: float,
    q_residual: Values | None,
    group_size: int,
    transpose_scale: bool,
    gemma_norm: bool,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> dict[str, Near | None]:
    """Codes of the norm of queries and their scales, the norm and the sum where they are asked for, and the norm of keys."""
    one = 1.0 if gemma_norm else 0.0
    total, stored = (q, None) if q_residual is None else _total(q, q_residual)
    y, error = rms_norm(total, q_weight + one, q_epsilon)
    codes, scales = None, None
    if "q_out_scale" in kinds:
        turned = transpose_scale and sizes.get("s_row") != 1
        codes, scales = coded(y, error, group_size, kinds["q_out_quantized"], turned)
    return {
        "q_out_quantized": codes,
        "q_out_scale": scales,
        "q_out_unquantized": _near(y, error) if "q_out_unquantized" in kinds else None,
        "k_out": None if k is None or k_weight is None else _near(*rms_norm(k, k_weight + one, k_epsilon)),
        "q_res_out": stored if "q_res_out" in kinds else None,
    }


def fused_qk_rmsnorm_per_token_quant(
    q: Values,
    q_weight: Values,
    q_epsilon: float,
    k: Values | None,
    k_weight: Values | None,
    k_epsilon: float,
    q_residual: Values | None,
    gemma_norm: bool,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> dict[str, Near | None]:
    """:func:`fused_qk_rmsnorm_group_quant` with one group."""
    given = (q, q_weight, q_epsilon, k, k_weight, k_epsilon, q_residual, 0, False, gemma_norm)
    return fused_qk_rmsnorm_group_quant(*given, kinds, sizes)
