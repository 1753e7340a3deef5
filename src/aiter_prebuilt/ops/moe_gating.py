"""AITER's ``topk_gating``: a bias of no element is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.moe_gating import refuse_topk_gating

if TYPE_CHECKING:
    import torch

_topk_gating = operator("topk_gating")


@traced
def topk_gating(
    topk_weights: torch.Tensor,
    topk_indices: torch.Tensor,
    gating_output: torch.Tensor,
    correction_bias: torch.Tensor | None = None,
    need_renorm: bool = True,
    routed_scaling_factor: float = 1.0,
    score_func: str = "sqrtsoftplus",
    num_shared_experts: int = 0,
) -> None:
    """Choose each token's k best experts by scores in fp32, best first; of equal ones the lowest expert first.

    Args:
        topk_weights: [M, k + num_shared_experts] fp32, written; rows may be strided. The scores of the k experts without the
            bias, times ``routed_scaling_factor``; then the sigmoid of each shared expert's logit, unscaled.
        topk_indices: [M, k] int32, written; rows may be strided; k at most 64. Shared experts are not among them.
        gating_output: [M, E + num_shared_experts] bf16, fp16 or fp32, rows may be strided. Up to 1024 experts to choose from,
            then the shared ones. NaN counts above all.
        correction_bias: [E] fp32 or bf16, added to the scores for the choice alone. None, or [0]: no bias.
        need_renorm: divide the k weights of a token by their sum, 1e-20 at least.
        routed_scaling_factor: a float.
        score_func: "softmax" over experts, the "sigmoid" of each, or "sqrtsoftplus", the square root of ``log(1 + exp(x))``.
        num_shared_experts: 0 to 64.

    Raises:
        UnsupportedError: another score_func, or a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``topk_gating``.
    """
    refuse_topk_gating(score_func)
    if correction_bias is not None and getattr(correction_bias, "shape", None) in ((0,), [0]):
        correction_bias = None
    _topk_gating(
        topk_weights,
        topk_indices,
        gating_output,
        correction_bias,
        need_renorm,
        routed_scaling_factor,
        score_func,
        num_shared_experts,
    )
