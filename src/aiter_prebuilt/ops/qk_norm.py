"""Norms of queries and keys in one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, like, no_output
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.qk_norm import refuse_fused_qk_rmsnorm_group_quant

if TYPE_CHECKING:
    import torch

_fused_qk_rmsnorm_plain = operator("fused_qk_rmsnorm_plain")
_fused_qk_rmsnorm_group_quant = operator("fused_qk_rmsnorm_group_quant")
_fused_qk_rmsnorm_per_token_quant = operator("fused_qk_rmsnorm_per_token_quant")


@traced
def fused_qk_rmsnorm_plain(
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
        q: [m, n] bf16 or fp16, n at most 16384. k: [m, nk]. Both may be parts of one tensor; the last dim must be contiguous.
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
        raise no_output("fused_qk_rmsnorm_plain", error) from error
    _fused_qk_rmsnorm_plain(q_out, q, q_weight, k_out, k, k_weight, q_eps, k_eps)
    return q_out, k_out


@traced
def fused_qk_rmsnorm_group_quant(
    q_out_quantized: torch.Tensor | None = None,
    q_out_scale: torch.Tensor | None = None,
    q: torch.Tensor | None = None,
    q_weight: torch.Tensor | None = None,
    q_epsilon: float = 1e-6,
    q_out_unquantized: torch.Tensor | None = None,
    k_out: torch.Tensor | None = None,
    q_res_out: torch.Tensor | None = None,
    k: torch.Tensor | None = None,
    k_weight: torch.Tensor | None = None,
    k_epsilon: float | None = None,
    q_residual: torch.Tensor | None = None,
    group_size: int = 128,
    transpose_scale: bool = False,
    gemma_norm: bool = False,
) -> None:
    """The RMS norms of queries and of keys, in one launch; queries as fp8 codes with a scale for each group of columns.

    Args:
        q: [m, n] bf16 or fp16, n at most 16384. k: [m, nk], or None as k_out and k_weight. Both may be parts of one tensor; the
            last dim must be contiguous.
        q_weight: [n]. k_weight: [nk]. q_epsilon, k_epsilon: added to the mean squares; k_epsilon None: q_epsilon.
        q_out_quantized: [m, n] the target's own fp8, written. q_out_scale: [m, n / group_size] fp32, written: max(amax, 1e-10) /
            qmax. Both None: no codes, q_out_unquantized alone.
        q_out_unquantized: [m, n], the norm of the queries; left out when None. k_out: [m, nk], that of the keys.
        q_residual: [m, n], added to q before the norm. q_res_out: [m, n], the sum, rounded.
        group_size: 32, 64 or 128, a divisor of n.
        transpose_scale: scales of a group lie side by side, [n / group_size, m] in the memory of q_out_scale.
        gemma_norm: the weights are one more.

    Raises:
        UnsupportedError: no q or q_weight, or a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_qk_rmsnorm_group_quant``.
    """
    refuse_fused_qk_rmsnorm_group_quant(q, q_weight)
    of_keys = q_epsilon if k_epsilon is None else k_epsilon
    outs = (q_out_unquantized, k_out, q_res_out)
    _fused_qk_rmsnorm_group_quant(
        q_out_quantized,
        q_out_scale,
        q,
        q_weight,
        *outs,
        k,
        k_weight,
        q_residual,
        q_epsilon,
        of_keys,
        group_size,
        transpose_scale,
        gemma_norm,
    )


@traced
def fused_qk_rmsnorm_per_token_quant(
    q_out_quantized: torch.Tensor,
    q_out_scale: torch.Tensor,
    q: torch.Tensor,
    q_weight: torch.Tensor,
    q_epsilon: float,
    q_out_unquantized: torch.Tensor | None = None,
    k_out: torch.Tensor | None = None,
    q_res_out: torch.Tensor | None = None,
    k: torch.Tensor | None = None,
    k_weight: torch.Tensor | None = None,
    k_epsilon: float | None = None,
    q_residual: torch.Tensor | None = None,
    gemma_norm: bool = False,
) -> None:
    """:func:`fused_qk_rmsnorm_group_quant` with one scale for each row of queries.

    Args:
        q_out_quantized: [m, n] the target's own fp8, written. q_out_scale: [m, 1] fp32, written: max(amax, 1e-10) / qmax.
        q, q_weight, q_epsilon, q_out_unquantized, k_out, q_res_out, k, k_weight, k_epsilon, q_residual, gemma_norm: as there.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_qk_rmsnorm_per_token_quant``.
    """
    of_keys = q_epsilon if k_epsilon is None else k_epsilon
    outs = (q_out_unquantized, k_out, q_res_out)
    _fused_qk_rmsnorm_per_token_quant(
        q_out_quantized,
        q_out_scale,
        q,
        q_weight,
        *outs,
        k,
        k_weight,
        q_residual,
        q_epsilon,
        of_keys,
        gemma_norm,
    )
