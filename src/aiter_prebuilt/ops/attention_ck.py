"""Attention by Composable Kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, no_output, scale_of, window_of
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.attention_ck import refuse_mha_fwd, refuse_mha_varlen_fwd

if TYPE_CHECKING:
    import torch

_mha_fwd = operator("mha_fwd")
_mha_varlen_fwd = operator("mha_varlen_fwd")


@traced
def mha_fwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    return_softmax_lse: bool,
    return_dropout_randval: bool,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_kv: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    gen: torch.Tensor | None = None,
) -> Any:
    """``softmax(q @ k.T * softmax_scale) @ v`` per head, with grouped queries; forward only; Composable Kernel.

    Args:
        q: [b, sq, hq, d] bf16 or fp16. k: [b, sk, hk, d], hq a multiple of hk, at least one key. v: [b, sk, hk, dv]. d and dv
            are 64, 128 or 256 both, or 192 and 128. The last dim of each must be contiguous.
        softmax_scale: what scores are multiplied with, more than 0. is_causal: aligned bottom-right: query i sees keys up
            to i + sk - sq; where it sees none, out is 0 and the log-sum-exp -inf.
        window_size_left, window_size_right: query i sees keys from i + sk - sq - left to i + sk - sq + right; below 0: all.
        return_softmax_lse: also return the log-sum-exp (natural log) of the scaled scores.
        cu_seqlens_q: [b + 1] int32: of sequence i the first cu_seqlens_q[i + 1] - cu_seqlens_q[i] queries count, and rows
            behind them stay as they are. cu_seqlens_kv: the same for keys.
        out: [b, sq, hq, dv], written; made when None.
        dropout_p, return_dropout_randval, bias, alibi_slopes, gen: no dropout, no bias.

    Returns:
        out, lse (fp32 [b, hq, sq], None unless asked for), and None twice: there is no dropout with a mask and a state.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``mha_fwd``.
    """
    refuse_mha_fwd(dropout_p, return_dropout_randval, bias, alibi_slopes, gen)
    scale_of("mha_fwd", softmax_scale)
    try:
        result = q.new_empty((*q.shape[:3], v.shape[3])) if out is None else out
        lse = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=element_type(q, "f32"))
        window = window_of(q.shape[1], k.shape[1], is_causal, window_size_left, window_size_right)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mha_fwd", error) from error
    _mha_fwd(q, k, v, cu_seqlens_q, cu_seqlens_kv, result, lse, softmax_scale, *window)
    return result, lse if return_softmax_lse else None, None, None


@traced
def mha_varlen_fwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int,
    dropout_p: float,
    softmax_scale: float,
    logits_soft_cap: float,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    return_softmax_lse: bool,
    return_dropout_randval: bool,
    out: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    gen: torch.Tensor | None = None,
    cu_seqlens_q_padded: torch.Tensor | None = None,
    cu_seqlens_k_padded: torch.Tensor | None = None,
) -> Any:
    """``softmax(q @ k.T * softmax_scale) @ v`` per head, of sequences of different lengths; Composable Kernel.

    Args:
        q: [sq, hq, d] bf16 or fp16: the queries of all sequences. k: [sk, hk, d], hq a multiple of hk, at least one key.
            v: [sk, hk, dv]. d and dv are 64, 128 or 256 both, or 192 and 128. The last dim of each must be contiguous.
        cu_seqlens_q: [n + 1] int32: sequence i has the queries from cu_seqlens_q[i] to cu_seqlens_q[i + 1].
            cu_seqlens_k: the same for keys. Rows of no sequence stay as they are; queries without any key give 0.
        cu_seqlens_q_padded: [n + 1] int32: sequence i begins at row cu_seqlens_q_padded[i], and of cu_seqlens_q only the
            differences count. cu_seqlens_k_padded: the same for keys.
        max_seqlen_q, max_seqlen_k: no sequence has more queries, or keys; of one that has more queries not all are computed.
        min_seqlen_q: sequences of so many queries and fewer are left out, and their rows stay as they are.
        softmax_scale: what scores are multiplied with, more than 0. is_causal: aligned bottom-right: of n queries and m keys
            query i sees keys up to i + m - n; where it sees none, out is 0 and the log-sum-exp -inf.
        window_size_left, window_size_right: query i sees keys from i + m - n - left to i + m - n + right; below 0: all.
        return_softmax_lse: also return the log-sum-exp (natural log) of the scaled scores.
        out: [sq, hq, dv], written; made when None.
        dropout_p, logits_soft_cap, zero_tensors, return_dropout_randval, block_table, bias, alibi_slopes, gen: no dropout, no
            cap, no pages, no bias.

    Returns:
        out, lse (fp32 [hq, sq], None unless asked for), and None twice: there is no dropout with a mask and a state.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``mha_varlen_fwd``.
    """
    refuse_mha_varlen_fwd(
        cu_seqlens_k,
        dropout_p,
        logits_soft_cap,
        zero_tensors,
        return_dropout_randval,
        block_table,
        bias,
        alibi_slopes,
        gen,
    )
    scale_of("mha_varlen_fwd", softmax_scale)
    try:
        result = q.new_empty((*q.shape[:2], v.shape[2])) if out is None else out
        lse = q.new_empty((q.shape[1], q.shape[0]), dtype=element_type(q, "f32"))
        window = window_of(max_seqlen_q, max_seqlen_k, is_causal, window_size_left, window_size_right)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mha_varlen_fwd", error) from error
    _mha_varlen_fwd(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        result,
        cu_seqlens_q_padded,
        cu_seqlens_k_padded,
        lse,
        max_seqlen_q,
        max_seqlen_k,
        min_seqlen_q,
        softmax_scale,
        *window,
    )
    return result, lse if return_softmax_lse else None, None, None
