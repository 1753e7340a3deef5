"""Flash attention of sequences of different lengths, forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops import _dropout
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, no_output, with_probabilities
from aiter_prebuilt.ops._ragged import as_f32, left_of, paged, skipped, window
from aiter_prebuilt.ops._sequence_lists import split_padding
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.attention_ragged import (
    refuse_flash_attn_varlen_func,
    refuse_unified_attention,
)

if TYPE_CHECKING:
    import torch

_flash_attn_varlen_func = operator("flash_attn_varlen_func")
_unified_attention = operator("unified_attention")


@traced
def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int = 0,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    logits_soft_cap: float = 0.0,
    causal: bool = False,
    window_size: tuple[int, ...] = (-1, -1, 0),
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_lse: bool = False,
    return_attn_probs: bool = False,
    how_v3_bf16_cvt: int = 1,
    block_table: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    cu_seqlens_q_padded: torch.Tensor | None = None,
    cu_seqlens_k_padded: torch.Tensor | None = None,
    sink_ptr: torch.Tensor | None = None,
) -> Any:
    """Compute variable-length flash attention.

    ``softmax(q @ k.T * softmax_scale) @ v`` per head of sequences of different lengths, with grouped queries.

    Torch records the gradients of q, k, v and sink_ptr, also under ``torch.compile``; the log-sum-exp has none.

    Args:
        q: [sq, hq, d] bf16 or fp16, the queries of all sequences, d up to 256.
        k: [sk, hk, d] of the same type, hq a multiple of hk.
        v: [sk, hk, dv], dv up to 256. The last dim of each must be contiguous.
        cu_seqlens_q: [n + 1] int32: sequence i has the queries from cu_seqlens_q[i] to cu_seqlens_q[i + 1].
        cu_seqlens_k: the same for keys. Rows of no sequence stay as they are.
        max_seqlen_q: the most queries of a sequence; of rows behind it some may be written, where a tile of AITER's reaches that
            far.
        max_seqlen_k: the most keys of a sequence: a left window of so many is none, a right one where no sequence has more
            queries.
        min_seqlen_q: above 0, sequences of no more queries are left alone, but for calls that AITER would give to its assembly
            (bf16, d 128 or 192, dv 128, no side of a window above 0, no cap), which takes them.
        dropout_p: the share of probabilities that is dropped; the others are divided by 1 - dropout_p. Seed and offset are drawn
            from torch's default generator of the device; equal ones give the mask of AITER's Composable Kernel where there is no
            padding. Not with block_table.
        softmax_scale: d**-0.5 when None.
        logits_soft_cap: above 0, a score x becomes cap * tanh(x / cap).
        causal: aligned bottom-right: of n queries and m keys query i sees keys up to i + m - n.
        window_size: (left, right), or (left, right, first): keys from i + m - n - left to i + m - n + right, and the ``first``
            ones up to there; -1 is no limit. With ``causal`` right is 0.
        bias: only the default is supported.
        alibi_slopes: only the default is supported.
        deterministic: any value; the kernels are deterministic.
        return_lse: also return the log-sum-exp (natural log) of the scaled scores and of the sink.
        return_attn_probs: also return the random byte of each query and key, [hq, sq, max_seqlen_k] uint8: kept are those of at
            most floor(255 * (1 - dropout_p)). Without dropout an empty tensor.
        how_v3_bf16_cvt: of AITER's assembly on gfx942 (bf16, d and dv 128, causal, no window, cap, sink or pages), rounding
            of results: 0 to nearest even, 1 away from zero, 2 towards zero. Every other kernel rounds to nearest even.
        block_table: [n, most pages] int32: k and v are pages then, [pages, keys of one, hk, d], and these are the pages of each
            sequence in order; cu_seqlens_k says how many keys it has.
        out: [sq, hq, dv], written; made when None.
        cu_seqlens_q_padded: [n + 1] int32: sequence i begins at row cu_seqlens_q_padded[i], and of cu_seqlens_q only the
            differences count.
        cu_seqlens_k_padded: the same for keys. None: as cu_seqlens_q and cu_seqlens_k say. Rows of padding in ``out`` and in lse
            get any values. Not with block_table.
        sink_ptr: [hq], one more score of each head, which takes part in the sum and has no value; made fp32 if it is not.

    Returns:
        out, or with ``return_lse`` a pair with lse fp32 [hq, sq]; with ``return_attn_probs`` the bytes, or [0] of the type of q,
        behind them. A query that sees no key gives 0, and -inf or its sink.

    Raises:
        UnsupportedError: an option that no kernel covers; where a tensor requires grad also ``first``, block_table,
            logits_soft_cap, min_seqlen_q, and ``out`` that requires grad itself.
        ArgumentError, NoKernelError: the call does not fit.

    Source: Dao, FlashAttention-2; AITER ``flash_attn_varlen_func``.
    """
    del deterministic
    refuse_flash_attn_varlen_func(bias, alibi_slopes)
    seen = window("flash_attn_varlen_func", window_size, max_seqlen_q, max_seqlen_k, causal)
    try:
        heads, size, width = q.shape[1], q.shape[2], v.shape[-1]
        keys, values = (k, v) if block_table is not None else (paged(k, 0), paged(v, 0))
        result = q.new_empty((q.shape[0], heads, width)) if out is None else out
        lse = q.new_empty((heads, q.shape[0]), dtype=element_type(q, "f32")) if return_lse else None
        scale = size**-0.5 if softmax_scale is None else softmax_scale
        skip = skipped(q, width, seen, logits_soft_cap, min_seqlen_q)
        padded = (cu_seqlens_q_padded, cu_seqlens_k_padded)
        if dropout_p:
            how = (scale, seen, logits_soft_cap, (max_seqlen_q, max_seqlen_k), max(min_seqlen_q, 0))
            rows = (result, q, keys, values, as_f32(sink_ptr), lse)
            listed = (cu_seqlens_q, cu_seqlens_k, *padded, block_table)
            drawn, _ = _dropout.attend_sequences(
                "flash_attn_varlen_func", dropout_p, rows, listed, *how, return_attn_probs
            )
            return with_probabilities(q, result, lse, return_attn_probs, drawn)
        starts = split_padding("flash_attn_varlen_func", cu_seqlens_q, cu_seqlens_k, *padded, block_table)
    except AiterPrebuiltError:
        raise
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("flash_attn_varlen_func", error) from error
    tensors = (q, keys, values, *starts, block_table, result, as_f32(sink_ptr), lse)
    plain = scale > 0 and logits_soft_cap <= 0
    _flash_attn_varlen_func(
        *tensors, max_seqlen_q, scale, logits_soft_cap, *seen, skip, plain, how_v3_bf16_cvt
    )
    return with_probabilities(q, result, lse, return_attn_probs)


@traced
def unified_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    max_seqlen_q: int,
    seqused_k: torch.Tensor,
    max_seqlen_k: int,
    softmax_scale: float,
    causal: bool,
    window_size: tuple[int, ...],
    block_table: torch.Tensor,
    softcap: float,
    q_descale: torch.Tensor | None,
    k_descale: torch.Tensor | None,
    v_descale: torch.Tensor | None,
    q_scales: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    output_scale: torch.Tensor | None = None,
    qq_bias: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    shuffled_kv_cache: bool = False,
    skip_reduce: bool = False,
) -> None:
    """Attend over a paged cache, prompts and decoding alike.

    ``softmax(q @ k.T * softmax_scale) @ v`` per head of sequences whose keys and values lie in pages of a cache.

    Args:
        q: [sq, hq, d] bf16 or fp16, the queries of all sequences, d up to 256. The last dim of each tensor must be contiguous.
        k: [pages, page size, hk, d] of the same type, or fp8; hq is a multiple of hk.
        v: [pages, page size, hk, dv].
        out: [sq, hq, dv], written. Rows of no sequence stay as they are, and queries behind max_seqlen_q.
        cu_seqlens_q: [n + 1] int32: sequence i has the queries from cu_seqlens_q[i] to cu_seqlens_q[i + 1].
        max_seqlen_q: the most queries of a sequence.
        seqused_k: [n] int32, the keys of each sequence, those of its queries among them.
        max_seqlen_k: the most keys of one, about: by it the keys of few queries are divided among workgroups, and no result
            depends on it.
        softmax_scale: what scores are multiplied with.
        causal: only True: of n queries and m keys query i sees keys up to i + m - n.
        window_size: (left, right): and keys from i + m - n - left on, where left is not negative; right is not read.
        block_table: [n, most pages] int32, the pages of each sequence in order.
        softcap: above 0, a score x becomes cap * tanh(x / cap).
        q_descale: only None is supported.
        k_descale: fp32, one scale of all keys of an fp8 cache, which needs both scales: the first element counts. Not read with
            16 bits.
        v_descale: fp32, one scale of all values of an fp8 cache: the first element counts. Not read with 16 bits.
        q_scales: only None is supported.
        alibi_slopes: only None is supported.
        output_scale: only None is supported.
        qq_bias: only None is supported.
        sinks: [hq], one more score of each head, which takes part in the sum and has no value; made fp32 if it is not.
        shuffled_kv_cache: only False is supported.
        skip_reduce: only False is supported.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``unified_attention``; vLLM's Triton attention.
    """
    refuse_unified_attention(
        causal, q_descale, q_scales, alibi_slopes, output_scale, qq_bias, shuffled_kv_cache, skip_reduce
    )
    left = left_of("unified_attention", window_size)
    tensors = (q, k, v, out, cu_seqlens_q, seqused_k, block_table, k_descale, v_descale, as_f32(sinks))
    _unified_attention(*tensors, max_seqlen_q, max_seqlen_k, softmax_scale, left, softcap)
