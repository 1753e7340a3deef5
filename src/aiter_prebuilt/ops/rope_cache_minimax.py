"""Queries, keys and values of one tensor, the first two normed as whole rows and turned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_minimax_qk_norm_rope = operator("minimax_qk_norm_rope")


@traced
def minimax_qk_norm_rope(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    positions: torch.Tensor,
    num_heads_q: int,
    num_heads_k: int,
    head_dim: int,
    rotary_dim: int,
    eps: float,
    is_neox_style: bool,
    q_out: torch.Tensor | None = None,
    k_out: torch.Tensor | None = None,
    v_out: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Normalise and rotate the queries and keys of a token.

    RMSNorm of all queries of a token and of all its keys, and rotary embedding; values are moved.

    Args:
        qkv: [tokens, (num_heads_q + 2 * num_heads_k) * head_dim] bf16 or fp16, at most 32768 columns; rows at multiples of 16
            bytes.
        q_weight: [num_heads_q * head_dim], of the type of qkv or fp32.
        k_weight: [num_heads_k * head_dim], of the type of q_weight.
        cos_sin_cache: [positions, rotary_dim], of the type of qkv, cosines, then sines.
        positions: int64, at least one for each token, cut to the rows of cos_sin_cache.
        num_heads_q: heads of queries.
        num_heads_k: heads of keys, and of values.
        head_dim: elements of a head, a multiple of 8.
        rotary_dim: how many elements of a head are turned, the first: a multiple of 16, and no more than head_dim.
        eps: what the norms add to the mean of squares.
        is_neox_style: pairs are element i and i + rotary_dim / 2; else neighbours.
        q_out: [tokens, num_heads_q * head_dim], contiguous, written; made when None.
        k_out: [tokens, num_heads_k * head_dim], as q_out.
        v_out: as k_out.

    Returns:
        q_out, k_out and v_out.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``minimax_qk_norm_rope``.
    """
    try:
        rows, widths = qkv.shape[0], (num_heads_q * head_dim, num_heads_k * head_dim)
        q_out = qkv.new_empty((rows, widths[0])) if q_out is None else q_out
        k_out = qkv.new_empty((rows, widths[1])) if k_out is None else k_out
        v_out = qkv.new_empty((rows, widths[1])) if v_out is None else v_out
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("minimax_qk_norm_rope", error) from error
    _minimax_qk_norm_rope(
        qkv, q_weight, k_weight, cos_sin_cache, positions, q_out, k_out, v_out, num_heads_q, num_heads_k, head_dim, rotary_dim,
        eps, is_neox_style,
    )  # fmt: skip
    return q_out, k_out, v_out
