"""Attention by Composable Kernel, and with dropout by a kernel of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops import _dropout
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, no_output, refuse, scale_of, window_of
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops._unasked import placeholders
from aiter_prebuilt.ops.refusals.attention_ck import refuse_mha_fwd, refuse_mha_varlen_fwd

if TYPE_CHECKING:
    import torch

_mha_fwd = operator("mha_fwd")
_mha_varlen_fwd = operator("mha_varlen_fwd")


def _refuse_bytes(function: str, dropout_p: float, wanted: bool) -> None:
    """Refuse random bytes that a call without dropout does not draw.

    Raises:
        UnsupportedError: they are wanted, and there are none.
    """
    if wanted and dropout_p == 0:
        raise refuse(function, "return_dropout_randval", wanted, "False, or a dropout_p above 0.0")


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
    """Compute dense attention, forward only.

    ``softmax(q @ k.T * softmax_scale) @ v`` per head, with grouped queries; forward only; Composable Kernel.

    Args:
        q: [b, sq, hq, d] bf16 or fp16.
        k: [b, sk, hk, d], hq a multiple of hk, at least one key.
        v: [b, sk, hk, dv]. d and dv are 64, 128 or 256 both, or 192 and 128. The last dim of each must be contiguous.
        dropout_p: the share of probabilities that is dropped; the others are divided by 1 - dropout_p. Seed and offset are drawn
            from torch's default generator of the device. A kernel of ours takes it, of any head sizes to 256, without
            ``cu_seqlens_q`` and ``cu_seqlens_kv``.
        softmax_scale: what scores are multiplied with, more than 0.
        is_causal: aligned bottom-right: query i sees keys up to i + sk - sq; where it sees none, out is 0 and the log-sum-exp
            -inf.
        window_size_left: query i sees keys from i + SK - SQ - window_size_left; below 0: from the first.
        window_size_right: up to i + SK - SQ + window_size_right; below 0: to the last.
        return_softmax_lse: also return the log-sum-exp (natural log) of the scaled scores.
        return_dropout_randval: also return the random byte of each query and key: kept are those of at most
            floor(255 * (1 - dropout_p)). With dropout only.
        cu_seqlens_q: [b + 1] int32: of sequence i the first cu_seqlens_q[i + 1] - cu_seqlens_q[i] queries count, and rows behind
            them stay as they are.
        cu_seqlens_kv: the same for keys.
        out: [b, sq, hq, dv], written; made when None.
        bias: only None is supported.
        alibi_slopes: only None is supported.
        gen: only None is supported.

    Returns:
        out, lse (fp32 [b, hq, sq]), the random bytes (uint8 [b, hq, sq, sk]), and the state of dropout, [2] int64 as ``mha_bwd``
        takes it. What is not asked for is a tensor of no element; without dropout nothing is written to the state.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mha_fwd``.
    """
    refuse_mha_fwd(bias, alibi_slopes, gen)
    scale_of("mha_fwd", softmax_scale)
    _refuse_bytes("mha_fwd", dropout_p, return_dropout_randval)
    if dropout_p != 0 and (cu_seqlens_q is not None or cu_seqlens_kv is not None):
        raise refuse("mha_fwd", "dropout_p", dropout_p, "0.0 with cu_seqlens_q or cu_seqlens_kv")
    try:
        result = q.new_empty((*q.shape[:3], v.shape[3])) if out is None else out
        lse = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=element_type(q, "f32"))
        window = window_of(q.shape[1], k.shape[1], is_causal, window_size_left, window_size_right)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mha_fwd", error) from error
    if dropout_p != 0:  # None, too, which is refused as no number
        drawn = _dropout.new_bytes(q, k.shape[1]) if return_dropout_randval else None
        tensors = (result, q, k, v, None, None, None, lse, drawn)
        state = _dropout.attend("mha_fwd", dropout_p, tensors, softmax_scale, (*window, 0))
        return result, *placeholders(q, lse if return_softmax_lse else None, drawn, state)
    _mha_fwd(q, k, v, cu_seqlens_q, cu_seqlens_kv, result, lse, softmax_scale, *window)
    return result, *placeholders(q, lse if return_softmax_lse else None)


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
    """Compute variable-length attention, forward only.

    ``softmax(q @ k.T * softmax_scale) @ v`` per head, of sequences of different lengths; Composable Kernel.

    Args:
        q: [sq, hq, d] bf16 or fp16: the queries of all sequences.
        k: [sk, hk, d], hq a multiple of hk, at least one key.
        v: [sk, hk, dv]. d and dv are 64, 128 or 256 both, or 192 and 128. The last dim of each must be contiguous.
        cu_seqlens_q: [n + 1] int32: sequence i has the queries from cu_seqlens_q[i] to cu_seqlens_q[i + 1].
        cu_seqlens_k: the same for keys. Rows of no sequence stay as they are; queries without any key give 0.
        max_seqlen_q: no sequence has more queries: what is behind so many, to the end of a tile of 128, is not computed.
        max_seqlen_k: no sequence has more keys: a left window of so many is none, a right one where no sequence has more queries,
            and offsets of 32 bits reach so far.
        min_seqlen_q: sequences of so many queries and fewer are left out, and their rows stay as they are.
        dropout_p: the share of probabilities that is dropped; the others are divided by 1 - dropout_p. Seed and offset are drawn
            from torch's default generator of the device. A kernel of ours takes it, of any head sizes to 256. Rows of padding get
            any values then.
        softmax_scale: what scores are multiplied with, more than 0.
        logits_soft_cap: only 0.0 is supported.
        zero_tensors: only False is supported.
        is_causal: aligned bottom-right: of n queries and m keys query i sees keys up to i + m - n; where it sees none, out is 0
            and the log-sum-exp -inf.
        window_size_left: query i sees keys from i + m - n - window_size_left; below 0: from the first.
        window_size_right: up to i + m - n + window_size_right; below 0: to the last.
        return_softmax_lse: also return the log-sum-exp (natural log) of the scaled scores.
        return_dropout_randval: also return the random byte of each query and key: kept are those of at most
            floor(255 * (1 - dropout_p)). With dropout only.
        out: [sq, hq, dv], written; made when None.
        block_table: only None is supported.
        bias: only None is supported.
        alibi_slopes: only None is supported.
        gen: only None is supported.
        cu_seqlens_q_padded: [n + 1] int32: sequence i begins at row cu_seqlens_q_padded[i], and of cu_seqlens_q only the
            differences count.
        cu_seqlens_k_padded: the same for keys.

    Returns:
        out, lse (fp32 [hq, sq]), the random bytes (uint8 [hq, sq, max_seqlen_k]), and the state of dropout, [2] int64 as
        ``mha_varlen_bwd`` takes it. What is not asked for is a tensor of no element; without dropout nothing is written to the
        state.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mha_varlen_fwd``.
    """
    refuse_mha_varlen_fwd(
        cu_seqlens_k,
        logits_soft_cap,
        zero_tensors,
        block_table,
        bias,
        alibi_slopes,
        gen,
    )
    scale_of("mha_varlen_fwd", softmax_scale)
    _refuse_bytes("mha_varlen_fwd", dropout_p, return_dropout_randval)
    try:
        result = q.new_empty((*q.shape[:2], v.shape[2])) if out is None else out
        lse = q.new_empty((q.shape[1], q.shape[0]), dtype=element_type(q, "f32"))
        window = window_of(max_seqlen_q, max_seqlen_k, is_causal, window_size_left, window_size_right)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mha_varlen_fwd", error) from error
    if dropout_p != 0:  # None, too, which is refused as no number
        rows = (result, q, _dropout.one_batch(k), _dropout.one_batch(v), None, lse)
        lists = (cu_seqlens_q, cu_seqlens_k, cu_seqlens_q_padded, cu_seqlens_k_padded, None)
        how = (softmax_scale, (*window, 0), 0.0, (max_seqlen_q, max_seqlen_k), max(min_seqlen_q, 0))
        drawn, state = _dropout.attend_sequences(
            "mha_varlen_fwd", dropout_p, rows, lists, *how, return_dropout_randval
        )
        return result, *placeholders(q, lse if return_softmax_lse else None, drawn, state)
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
    return result, *placeholders(q, lse if return_softmax_lse else None)
