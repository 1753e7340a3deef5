"""The choice of experts by AITER's fused gate, which writes tensors that the caller made and returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.moe_tokens import refuse_moe_fused_gate

if TYPE_CHECKING:
    import torch

_moe_fused_gate = operator("moe_fused_gate")


@traced
def moe_fused_gate(
    input: torch.Tensor,
    bias: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    num_expert_group: int,
    topk_group: int,
    topk: int,
    n_share_experts_fusion: int,
    routed_scaling_factor: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose the best experts of the best groups, biased.

    The topk best experts of a token's best groups, by ``sigmoid(input) + bias``, best first; the weights are without the bias,
    and sum to 1.

    Args:
        input: [M, E] bf16, fp16 or fp32: 256 experts in 8 groups, or 128 in 4; a strided one is copied. NaN counts as the
            sigmoid 0.
        bias: [E] of the same type. In the groups chosen must be ``topk`` experts above -infinity, else AITER's kernel takes one
            twice.
        topk_weights: [M, topk] fp32, written: the sigmoids of those experts, which sum to 1. The first dim may be strided.
        topk_ids: [M, topk] int32, written; of experts with the same score the order is not defined. Other strides than those of
            ``topk_weights`` are written through copies.
        num_expert_group: 8 or 4; a group counts as the sum of its two best.
        topk_group: groups of which experts are taken.
        topk: 64 at most, and no more than those groups have.
        n_share_experts_fusion: 0: AITER's kernel overwrites the weight of a shared expert with what its LDS holds.
        routed_scaling_factor: any value; it is of shared experts alone.

    Returns:
        ``topk_weights`` and ``topk_ids``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: DeepSeek-V3's router, from SGLang; AITER ``moe_fused_gate``.
    """
    del routed_scaling_factor
    refuse_moe_fused_gate(num_expert_group, n_share_experts_fusion)
    _moe_fused_gate(input, bias, topk_weights, topk_ids, num_expert_group, topk_group, topk)
    return topk_weights, topk_ids
