"""The first stage of mixtures of experts by ck_tile, which writes a tensor that the caller made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import codes
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.moe_cktile import refuse_moe_cktile2stages_gemm1

if TYPE_CHECKING:
    import torch

_moe_cktile2stages_gemm1 = operator("moe_cktile2stages_gemm1")


@traced
def moe_cktile2stages_gemm1(
    XQ: torch.Tensor,
    WQ: torch.Tensor,
    Y: torch.Tensor,
    sorted_ids: torch.Tensor,
    sorted_expert_ids: torch.Tensor,
    max_token_ids: torch.Tensor,
    topk: int,
    n_padded_zeros: int | None = 0,
    k_padded_zeros: int | None = 0,
    topk_weight: torch.Tensor | None = None,
    x_scale: torch.Tensor | None = None,
    w_scale: torch.Tensor | None = None,
    exp_bias: torch.Tensor | None = None,
    block_m: int | None = 32,
) -> torch.Tensor:
    """``Y[token, choice] = swiglu(x @ gate.T + bias, x @ up.T + bias)`` of each choice's expert; Composable Kernel.

    Accumulated in fp32 on the matrix cores; SwiGLU is gpt-oss's: g = min(gate, 7), u = clip(up, -7, 7), g * sigmoid(1.702 * g) *
    (u + 1).

    Args:
        XQ: [T, K] bf16, one row a token; K a multiple of 256.
        WQ: [E, 2 * I, K / 2] pairs of fp4 (torch's, or bytes: the lower half is the first), as AITER's ``shuffle_weight_a16w4``
            (16, gate_up) has rows of gate and up; I a multiple of 128.
        Y: [T, topk, I] bf16, written; rows of choices that no sorted id names stay as they are. All contiguous.
        sorted_ids: [P] int32, as ``moe_sorting`` with blocks of 32 makes them. sorted_expert_ids: int32, the expert of each
            block. max_token_ids: [2] int32, how many ids count, T. topk: choices of a token.
        w_scale: e8m0 (torch's, or bytes) per 32 columns, as AITER's ``shuffle_scale_a16w4`` (gate_up) has them, in any shape.
        exp_bias: 2 * I fp32 numbers for each expert, gate's first, in any shape.
        topk_weight: not read. n_padded_zeros, k_padded_zeros: 0. x_scale: None. block_m: 32, the rows of a block.

    Returns:
        ``Y``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``moe_cktile2stages_gemm1``.
    """
    del topk_weight
    refuse_moe_cktile2stages_gemm1(n_padded_zeros, k_padded_zeros, x_scale, w_scale, exp_bias)
    lists = (sorted_ids, sorted_expert_ids, max_token_ids)
    given = (codes(w_scale, "e8m0"), exp_bias)
    _moe_cktile2stages_gemm1(XQ, codes(WQ, "fp4x2"), Y, *lists, *given, topk, block_m)
    return Y
