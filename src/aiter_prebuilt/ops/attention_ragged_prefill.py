"""Flash attention of prompts over pages of a cache that one list names, forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output, with_probabilities
from aiter_prebuilt.ops._ragged import as_f32, paged, prefilled, window
from aiter_prebuilt.ops._sequence_lists import of_table
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops._unasked import placeholders
from aiter_prebuilt.ops.refusals.attention_ragged import (
    refuse_mha_batch_prefill,
    refuse_mha_batch_prefill_func,
)

if TYPE_CHECKING:
    import torch

_mha_batch_prefill = operator("mha_batch_prefill")
_mha_batch_prefill_func = operator("mha_batch_prefill_func")


@traced
def mha_batch_prefill_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_page_indices: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    logits_soft_cap: float = 0.0,
    causal: bool = False,
    window_size: tuple[int, ...] = (-1, -1),
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_lse: bool = False,
    return_attn_probs: bool = False,
    out: torch.Tensor | None = None,
    kv_last_page_lens: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    seqlen_k: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    kv_block_descale: torch.Tensor | None = None,
    sink_ptr: torch.Tensor | None = None,
    sink_size: int = 0,
) -> Any:
    """Attend over pages that one list names.

    ``softmax(q @ k.T * softmax_scale) @ v`` per head of sequences whose keys and values lie in pages that one list names.

    Args:
        q: [sq, hq, d] bf16, fp16, or fp8 with an fp8 cache, the queries of all sequences, d up to 256. The last dim of each
            tensor must be contiguous.
        k: [pages, page size, hk, d] of the same type, or fp8, or [pages, hk, d], pages of one key; hq is a multiple of
            hk.
        v: [pages, page size, hk, dv] or [pages, hk, dv]. Or both of the type of q in groups of x elements, 16 bytes, all but
            pages and heads contiguous: k [pages, hk, d / x, page size, x], v [pages, hk, page size / x, dv, x].
        cu_seqlens_q: [n + 1] int32: sequence i has the queries from cu_seqlens_q[i] to cu_seqlens_q[i + 1].
        kv_indptr: [n + 1] int32: its pages are kv_page_indices[kv_indptr[i]] to that before kv_indptr[i + 1].
        kv_page_indices: [m] int32.
        max_seqlen_q: the most queries of a sequence; rows of one behind it stay as they are.
        max_seqlen_k: the most keys of a sequence: a left window of so many is none, a right one where no sequence has more
            queries.
        dropout_p: only the default is supported.
        softmax_scale: d**-0.5 when None.
        logits_soft_cap: above 0, a score x becomes cap * tanh(x / cap).
        causal: aligned bottom-right: of n queries and m keys query i sees keys up to i + m - n.
        window_size: (left, right): keys from i + m - n - left to i + m - n + right; -1 is no limit. With ``causal`` right is 0.
        alibi_slopes: only the default is supported.
        deterministic: any value.
        return_lse: also return the log-sum-exp (natural log) of the scaled scores and of the sink.
        return_attn_probs: also return an empty tensor, as AITER does without dropout.
        out: [sq, hq, dv] of the type of q, bf16 of fp8 queries, written; made when None.
        kv_last_page_lens: [n] int32, keys of each sequence's last page; full when None.
        block_table: [n, most pages] int32, the pages of each sequence in order, which count then, and no list.
        seqlen_k: [n] int32, the keys of each sequence, with block_table; not read without.
        q_descale: QD elements, fp32, or None; may be strided; one scale of all queries of 8 bits, the first element; not read
            with 16.
        k_descale: KD elements, fp32, or None; may be strided; one scale of all keys of 8 bits, the first element; not read with
            16.
        v_descale: fp32, one scale of all values of 8 bits: the first element counts. Not read with 16 bits.
        kv_block_descale: only the default is supported.
        sink_ptr: [hq], one more score of each head, which takes part in the sum and has no value; made fp32 if it is not.
        sink_size: so many of the first keys are seen whatever the left window is.

    Returns:
        out, or with ``return_lse`` a pair with lse fp32 [hq, sq]; with ``return_attn_probs`` [0] of the type of q behind them. A
        query that sees no key gives 0, and -inf or its sink.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mha_batch_prefill_func``.
    """
    del deterministic
    refuse_mha_batch_prefill_func(dropout_p, alibi_slopes, kv_block_descale)
    seen = window("mha_batch_prefill_func", window_size, max_seqlen_q, max_seqlen_k, causal)[:2]
    try:
        result, lse = prefilled(q, v, out, return_lse)
        scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
        lists = (cu_seqlens_q, kv_indptr, kv_page_indices)
        lists, last = of_table("mha_batch_prefill_func", k, lists, kv_last_page_lens, block_table, seqlen_k)
        descales = (q_descale, k_descale, v_descale)
        native, tensors = _bound(q, k, v, lists, result, last, descales, as_f32(sink_ptr), lse)
        how = (max_seqlen_q, scale, logits_soft_cap, *seen, max(sink_size, 0))
    except AiterPrebuiltError:
        raise
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mha_batch_prefill_func", error) from error
    native(*tensors, *how)
    return with_probabilities(q, result, lse, return_attn_probs)


@traced
def mha_batch_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_page_indices: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    logits_soft_cap: float,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    sink_size: int,
    return_softmax_lse: bool,
    return_dropout_randval: bool,
    out: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    kv_block_descale: torch.Tensor | None = None,
    kv_last_page_lens: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    seqlen_k: torch.Tensor | None = None,
    sink_ptr: torch.Tensor | None = None,
    gen: Any = None,
) -> Any:
    """Attend over a paged cache in groups of 16 bytes.

    ``softmax(q @ k.T * softmax_scale) @ v`` per head of sequences.

    Args:
        q: [SQ, HQ, D] bf16 or fp16 or the target's own e4m3, may be strided, the last dim contiguous; the queries of all
            sequences, one behind the other; bf16, fp16, or fp8 with keys and values of fp8 and out of bf16; D and DV are
            multiples of X up to 256, HQ a multiple of HK.
        k: [NB, HK, KG, PS, X] bf16 or fp16 or the target's own e4m3, may be strided, the last dim contiguous; pages of PS keys,
            whose groups of X elements, 16 bytes, lie together; PS is a multiple of X. Pages of rows, 4-D or 3-D, are served by
            ``mha_batch_prefill_func``.
        v: [NB, HK, VG, DV, X] bf16 or fp16 or the target's own e4m3, may be strided, the last dim contiguous; pages of PS values,
            in which those of X consecutive keys lie together in each column.
        cu_seqlens_q: [S1] int32, where the queries of each sequence start, and where the last end.
        kv_indptr: [S1] int32, where the pages of each sequence start in kv_page_indices, and where the last end.
        kv_page_indices: int32, the pages of all sequences, one behind the other.
        max_seqlen_q: the most queries of a sequence; rows of one behind it stay as they are.
        max_seqlen_k: the most keys of a sequence: a left window of so many is none, a right one where no sequence has more
            queries.
        dropout_p: only 0.0 is supported.
        softmax_scale: the factor of the scores.
        logits_soft_cap: above 0: a score x is cap * tanh(x / cap), whose tanh has an absolute error of some 1e-7: with caps above
            about 1,000 scores and logarithms lose digits (1e-3 at 10,000).
        zero_tensors: any value.
        is_causal: as ``causal`` there.
        window_size_left: query i sees keys from i + m - n - left on; -1 is all.
        window_size_right: and up to i + m - n + right; -1 is all.
        sink_size: so many of the first keys are seen whatever the left window is.
        return_softmax_lse: as ``return_lse`` there.
        return_dropout_randval: only False is supported.
        out: [SQ, HQ, DV] bf16 or fp16, written; or None; may be strided, the last dim contiguous; written; made when None.
        bias: only None is supported.
        alibi_slopes: only None is supported.
        q_descale: QD elements, fp32, or None; may be strided; one scale of all queries of 8 bits, the first element; not read
            with 16.
        k_descale: fp32, one scale of all keys of 8 bits: the first element counts. Not read with 16 bits.
        v_descale: fp32, one scale of all values of 8 bits: the first element counts. Not read with 16 bits.
        kv_block_descale: only None is supported.
        kv_last_page_lens: [S1 - 1] int32, or None; the keys of each sequence's last page; all of them when None.
        block_table: the pages of each sequence in order; then it counts, and no list of pages.
        seqlen_k: the keys of each sequence, with block_table.
        sink_ptr: [HQ] fp32, or None; of each head one more score, which has no value: it takes part in the sum.
        gen: only None is supported.

    Returns:
        (out, lse, mask, state): lse is fp32 [hq, sq], of no element unless asked for; there is no dropout with a mask, of no
        element, and a state, to which nothing is written.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mha_batch_prefill``.
    """
    del zero_tensors
    refuse_mha_batch_prefill(dropout_p, return_dropout_randval, bias, alibi_slopes, kv_block_descale, gen)
    sides = (window_size_left, window_size_right)
    seen = window("mha_batch_prefill", sides, max_seqlen_q, max_seqlen_k, is_causal)[:2]
    try:
        result, lse = prefilled(q, v, out, return_softmax_lse)
        lists = (cu_seqlens_q, kv_indptr, kv_page_indices)
        lists, last = of_table("mha_batch_prefill", k, lists, kv_last_page_lens, block_table, seqlen_k)
        descales = (q_descale, k_descale, v_descale)
        native, tensors = _bound(q, k, v, lists, result, last, descales, as_f32(sink_ptr), lse)
        how = (max_seqlen_q, softmax_scale, logits_soft_cap, *seen, max(sink_size, 0))
    except AiterPrebuiltError:
        raise
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mha_batch_prefill", error) from error
    native(*tensors, *how)
    return result, *placeholders(q, lse)


def _bound(
    q: Any,
    k: Any,
    v: Any,
    lists: tuple[Any, ...],
    out: Any,
    last: Any,
    descales: tuple[Any, ...],
    sinks: Any,
    lse: Any,
) -> tuple[Any, tuple[Any, ...]]:
    """Choose the native call and its tensors.

    Pages of groups are mha_batch_prefill's, pages of rows mha_batch_prefill_func's.
    """
    if len(k.shape) == 5:
        return _mha_batch_prefill, (q, k, v, *lists, out, *descales, last, sinks, lse)
    return _mha_batch_prefill_func, (q, paged(k), paged(v), *lists, out, last, *descales, sinks, lse)
