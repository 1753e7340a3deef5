"""Norms of queries and keys in one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, like, no_output
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_fused_qk_rmsnorm = operator("fused_qk_rmsnorm")


@traced
def fused_qk_rmsnorm(
    q_out: torch.Tensor | None,
    q: torch.Tensor,
    q_weight: torch.Tensor,
    q_eps: float,
    k_out: torch.Tensor | None,
    k: torch.Tensor,
    k_weight: torch.Tensor,
    k_eps: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``q / sqrt(mean(q**2) + q_eps) * q_weight`` and the same of keys, in one launch, summed in fp32.

    Args:
        q: [m, n] bf16 or fp16, n at most 8192. k: [m, nk]. Both may be parts of one tensor; the last dim must be contiguous.
        q_weight: [n]. k_weight: [nk]. q_eps, k_eps: added to the mean squares.
        q_out, k_out: written; made when None.

    Returns:
        q_out and k_out.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``_fused_qk_rmsnorm``.
    """
    try:
        q_out = like(q) if q_out is None else q_out
        k_out = like(k) if k_out is None else k_out
    except NOT_A_TENSOR as error:
        raise no_output("fused_qk_rmsnorm", error) from error
    _fused_qk_rmsnorm(q_out, q, q_weight, k_out, k, k_weight, q_eps, k_eps)
    return q_out, k_out
