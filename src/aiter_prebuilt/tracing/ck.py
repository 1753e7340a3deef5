"""Traced forms of functions that launch ck_tile's kernels.

As in ``calls``.
"""

# ruff: noqa: N803  # the names are AITER's

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.ops._common import codes
from aiter_prebuilt.tracing.library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def deepgemm(XQ: Any, WQ: Any, Y: Any, group_layout: Any, x_scale: Any, w_scale: Any) -> Any:
    """Trace ``aiter_prebuilt.deepgemm``."""
    _OPS.deepgemm.default(XQ, WQ, Y, group_layout, x_scale, w_scale)
    return Y


def moe_cktile2stages_gemm1(
    XQ: Any, WQ: Any, Y: Any, ids: Any, experts: Any, valid: Any, topk: int, w_scale: Any, bias: Any, block_m: int | None,
) -> Any:  # fmt: skip
    """Trace ``aiter_prebuilt.moe_cktile2stages_gemm1``."""
    pairs, scales = codes(WQ, "fp4x2"), codes(w_scale, "e8m0")
    _OPS.moe_cktile2stages_gemm1.default(XQ, pairs, Y, ids, experts, valid, scales, bias, topk, block_m)
    return Y


def ck_moe_stage1_fwd(
    hidden_states: Any, w1: Any, w2: Any, ids: Any, experts: Any, valid: Any, out: Any,
    topk: int, w_scale: Any, a_scale: Any, block_m: int | None, weights: Any, quant_type: int, activation: int,
) -> Any:  # fmt: skip
    """Trace ``aiter_prebuilt.ck_moe_stage1_fwd``."""
    given = (hidden_states, w1, w2, ids, experts, valid, out, w_scale, a_scale, weights)
    _OPS.ck_moe_stage1_fwd.default(*given, topk, block_m, quant_type, activation)
    return out


def ck_moe_stage2_fwd(
    inter_states: Any, w1: Any, w2: Any, ids: Any, experts: Any, valid: Any, out: Any,
    topk: int, w_scale: Any, a_scale: Any, block_m: int | None, weights: Any, quant_type: int,
) -> Any:  # fmt: skip
    """Trace ``aiter_prebuilt.ck_moe_stage2_fwd``."""
    given = (inter_states, w1, w2, ids, experts, valid, out, w_scale, a_scale, weights)
    _OPS.ck_moe_stage2_fwd.default(*given, topk, block_m, quant_type)
    return out
