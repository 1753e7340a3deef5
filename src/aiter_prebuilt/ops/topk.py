"""Routing: softmax over experts and the k best of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._common import refuse
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_topk_softmax = operator("topk_softmax")


@traced
def topk_softmax(
    topk_weights: torch.Tensor,
    topk_indices: torch.Tensor,
    token_expert_indices: torch.Tensor,
    gating_output: torch.Tensor,
    need_renorm: bool,
    num_shared_experts: int = 0,
    shared_expert_scoring_func: str = "",
) -> None:
    """Softmax over experts in fp32, then the k largest, best first; of equal ones the lowest expert first.

    Args:
        topk_weights: fp32 [T, k], written. topk_indices: int32 [T, k], written.
        token_expert_indices: int32 [T, k], written: ``j * T + t`` for the j-th choice of token t.
        gating_output: [T, E] fp32, bf16 or fp16. need_renorm: make the k weights of a token sum to 1.
        num_shared_experts, shared_expert_scoring_func: only 0 and "" are covered.

    Raises:
        UnsupportedError: shared experts. NoKernelError: a number of experts or k that no kernel covers. ArgumentError.

    Source: AITER ``topk_softmax``.
    """
    if num_shared_experts:
        raise refuse("topk_softmax", "num_shared_experts", num_shared_experts, "0")
    if shared_expert_scoring_func:
        raise refuse("topk_softmax", "shared_expert_scoring_func", shared_expert_scoring_func, '""')
    _topk_softmax(topk_weights, topk_indices, token_expert_indices, gating_output, need_renorm)
