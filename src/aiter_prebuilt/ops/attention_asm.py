"""Attention by AITER's assembly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, like, no_output, scale_of
from aiter_prebuilt.ops._sequence_lists import most_queries
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops._unasked import placeholders
from aiter_prebuilt.ops.refusals.attention_asm import (
    refuse_fmha_v3_fwd,
    refuse_fmha_v3_varlen_fwd,
    refuse_pa_fwd_asm,
)

if TYPE_CHECKING:
    import torch

_fmha_v3_fwd = operator("fmha_v3_fwd")
_fmha_v3_varlen_fwd = operator("fmha_v3_varlen_fwd")
_pa_fwd_asm = operator("pa_fwd_asm")


@traced
def fmha_v3_fwd(
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
    how_v3_bf16_cvt: int,
    out: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    gen: torch.Tensor | None = None,
) -> Any:
    """Compute dense attention with AITER's assembly.

    ``softmax(q @ k.T * softmax_scale) @ v`` per head, with grouped queries; dense, forward only; AITER's assembly.

    Args:
        q: [b, sq, hq, d] bf16, d 128, or 192 on gfx950.
        k: [b, sk, hk, d], hq a multiple of hk.
        v: [b, sk, hk, 128]. The last dim of each must be contiguous.
        dropout_p: only 0.0 is supported.
        softmax_scale: what scores are multiplied with, more than 0.
        is_causal: aligned bottom-right: query i sees keys up to i + sk - sq; where it sees none, out is 0, and then no
            log-sum-exp can be had.
        window_size_left: only -1 is supported.
        window_size_right: only -1 is supported.
        return_softmax_lse: also return the log-sum-exp (natural log) of the scaled scores.
        return_dropout_randval: only False is supported.
        how_v3_bf16_cvt: on gfx942, rounding of results: 0 to nearest even, 1 away from zero, 2 towards zero.
        out: [b, sq, hq, 128], written; made when None.
        bias: only None is supported.
        alibi_slopes: only None is supported.
        gen: only None is supported.

    Returns:
        out, lse (fp32 [b, hq, sq], of no element unless asked for), a tensor of no element, and one that nothing is written to:
        there is no dropout with a mask and a state.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fmha_v3_fwd``.
    """
    refuse_fmha_v3_fwd(
        dropout_p,
        window_size_left,
        window_size_right,
        return_dropout_randval,
        how_v3_bf16_cvt,
        bias,
        alibi_slopes,
        gen,
    )
    scale_of("fmha_v3_fwd", softmax_scale)
    try:
        result = q.new_empty((*q.shape[:3], v.shape[3])) if out is None else out
        lse_shape = (q.shape[0], q.shape[2], q.shape[1])
        lse = q.new_empty(lse_shape, dtype=element_type(q, "f32")) if return_softmax_lse else None
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fmha_v3_fwd", error) from error
    _fmha_v3_fwd(q, k, v, result, lse, softmax_scale, is_causal, how_v3_bf16_cvt)
    return result, *placeholders(q, lse)


@traced
def fmha_v3_varlen_fwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
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
    how_v3_bf16_cvt: int,
    out: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    gen: torch.Tensor | None = None,
) -> Any:
    """Compute variable-length attention with AITER's assembly.

    ``softmax(q @ k.T * softmax_scale) @ v`` per head, of sequences of different lengths; AITER's assembly.

    Args:
        q: [sq, hq, d] bf16, d 128, or 192 on gfx950: the queries of all sequences.
        k: [sk, hk, d], hq a multiple of hk.
        v: [sk, hk, 128]. The last dim of each must be contiguous.
        cu_seqlens_q: [n + 1] int32: sequence i has the queries from cu_seqlens_q[i] to cu_seqlens_q[i + 1].
        cu_seqlens_k: the same for keys. Rows of no sequence stay as they are; queries without any key give NaN unless is_causal.
        max_seqlen_q: accepted and ignored.
        max_seqlen_k: accepted and ignored.
        min_seqlen_q: accepted and ignored.
        dropout_p: only 0.0 is supported.
        softmax_scale: what scores are multiplied with, more than 0.
        logits_soft_cap: only 0.0 is supported.
        zero_tensors: only False is supported.
        is_causal: aligned bottom-right: of n queries and m keys query i sees keys up to i + m - n; where it sees none, out is 0
            and lse says nothing (-inf, 0 or more).
        window_size_left: only -1 is supported.
        window_size_right: only -1 is supported.
        return_softmax_lse: also return the log-sum-exp (natural log) of the scaled scores.
        return_dropout_randval: only False is supported.
        how_v3_bf16_cvt: on gfx942, rounding of results: 0 to nearest even, 1 away from zero, 2 towards zero.
        out: [sq, hq, 128], written; made when None.
        block_table: only None is supported.
        bias: only None is supported.
        alibi_slopes: only None is supported.
        gen: only None is supported.

    Returns:
        out, lse (fp32 [hq, sq], of no element unless asked for), a tensor of no element, and one that nothing is written to:
        there is no dropout with a mask and a state.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fmha_v3_varlen_fwd``.
    """
    del max_seqlen_q, max_seqlen_k, min_seqlen_q
    refuse_fmha_v3_varlen_fwd(
        dropout_p,
        logits_soft_cap,
        zero_tensors,
        window_size_left,
        window_size_right,
        return_dropout_randval,
        how_v3_bf16_cvt,
        block_table,
        bias,
        alibi_slopes,
        gen,
    )
    scale_of("fmha_v3_varlen_fwd", softmax_scale)
    try:
        result = q.new_empty((*q.shape[:2], v.shape[2])) if out is None else out
        lse_shape = (q.shape[1], q.shape[0])
        lse = q.new_empty(lse_shape, dtype=element_type(q, "f32")) if return_softmax_lse else None
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fmha_v3_varlen_fwd", error) from error
    _fmha_v3_varlen_fwd(
        q, k, v, cu_seqlens_q, cu_seqlens_k, result, lse, softmax_scale, is_causal, how_v3_bf16_cvt
    )
    return result, *placeholders(q, lse)


@traced
def pa_fwd_asm(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables_stride0: int,
    max_qlen: int = 1,
    K_QScale: torch.Tensor | None = None,
    V_QScale: torch.Tensor | None = None,
    out_: torch.Tensor | None = None,
    qo_indptr: torch.Tensor | None = None,
    high_precision: int | None = 1,
    kernelName: str | None = None,
) -> torch.Tensor:
    """Decode over a paged cache with AITER's assembly.

    ``softmax(Q @ K.T / sqrt(d)) @ V`` of one or a few queries for each sequence, over a paged cache; AITER's assembly, and a
    kernel of ours for what it does not take.

    Args:
        Q: [s, hq, 128] bf16 or fp16, contiguous, hq a multiple of hk. Over an 8-bit cache, with more than two queries, a row
            behind its end may be read.
        K: [blocks, hk, 128 / x, keys, x] of the same type, fp8 or int8: the keys of a block, a multiple of x, and x elements of
            a key (16 bytes) together.
        V: [blocks, hk, keys / x, 128, x]: x values of an element together. Dense also as [blocks, hk, 128, keys], which AITER
            takes for another name of the same memory. Both have the same strides of blocks and heads. AITER's assembly takes
            16 keys a block and 2 GiB (on gfx942 also 1024 keys, with bf16, an fp8 cache and hq 10 times hk), and hq up to 16
            times hk, with several queries 8 times for a 16-bit cache, or for more than two; a kernel of ours takes the rest.
        block_tables: [s, n] int32, the blocks of each sequence in order.
        context_lens: [s] int32, keys of each, 1 and more, those of its queries among them. With 241 to 255 keys AITER's objects
            for blocks of 16 count what lies behind the last, too, and from 256 on some lack a wait (the repository's
            ``hsa/findings.toml``). Nothing in a sequence's last block may be NaN or infinite, behind its last key neither.
        block_tables_stride0: what ``block_tables.stride(0)`` is.
        max_qlen: the most queries of a sequence: AITER's objects are for 2, 3 and 4, a kernel of ours for any number. Without
            qo_indptr each has one, whatever it says.
        K_QScale: scales elements, fp32, or None; of an 8-bit cache, one for each key: NB * HK * block size of them, in any shape.
        V_QScale: of an 8-bit cache, fp32, one for each value: [blocks, hk, 16] or any shape with these elements.
        out_: like Q, written; made when None.
        qo_indptr: [s + 1] int32: where the queries of each sequence start in Q, and where the last end, 1 to max_qlen of each
            (max_qlen, where a block has 1024 keys). The last sees all keys, the one before it one fewer. Without it each sequence
            has one.
        high_precision: of an fp8 cache of 16 keys a block, one query, hq up to 8 times hk: probabilities are fp8 for the
            product with V (0), bf16 for those of the last 256 keys if these are fewer (1), or bf16 for all (2, which no other
            8-bit cache takes).
        kernelName: symbol of AITER's object to take, chosen when None; in those of ``..._mtp_msk0E`` each query of a sequence
            sees all its keys.

    Returns:
        The output.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``pa_fwd_asm``.
    """
    refuse_pa_fwd_asm(high_precision)
    queries = most_queries(max_qlen, qo_indptr)
    try:
        result = like(Q) if out_ is None else out_
    except NOT_A_TENSOR as error:
        raise no_output("pa_fwd_asm", error) from error
    tensors = (Q, K, V, block_tables, context_lens, K_QScale, V_QScale, result, qo_indptr)
    _pa_fwd_asm(*tensors, block_tables_stride0, queries, high_precision, kernelName)
    return result
