"""Traced forms of attention to prompts behind a cached prefix.

As in ``calls``.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.ops._common import with_probabilities
from aiter_prebuilt.ops._ragged import as_f32, as_type, paged, prefilled, window
from aiter_prebuilt.ops._sequence_lists import of_table
from aiter_prebuilt.tracing.library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def mha_batch_prefill_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    kv_indptr: Any,
    kv_page_indices: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float | None,
    logits_soft_cap: float,
    causal: bool,
    window_size: Any,
    return_lse: bool,
    return_attn_probs: bool,
    out: Any,
    kv_last_page_lens: Any,
    block_table: Any,
    seqlen_k: Any,
    q_descale: Any,
    k_descale: Any,
    v_descale: Any,
    sink_ptr: Any,
    sink_size: int,
) -> Any:
    """Trace ``aiter_prebuilt.mha_batch_prefill_func``."""
    seen = window("mha_batch_prefill_func", window_size, max_seqlen_q, max_seqlen_k, causal)[:2]
    result, lse = prefilled(q, v, out, return_lse)
    scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    how = (max_seqlen_q, scale, logits_soft_cap, *seen, max(sink_size, 0))
    lists, descales = (cu_seqlens_q, kv_indptr, kv_page_indices), (q_descale, k_descale, v_descale)
    lists, last = of_table("mha_batch_prefill_func", k, lists, kv_last_page_lens, block_table, seqlen_k)
    _prefill(q, k, v, lists, result, last, descales, as_f32(sink_ptr), lse, how)
    return with_probabilities(q, result, lse, return_attn_probs)


def mha_batch_prefill(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    kv_indptr: Any,
    kv_page_indices: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float,
    logits_soft_cap: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    sink_size: int,
    return_softmax_lse: bool,
    out: Any,
    q_descale: Any,
    k_descale: Any,
    v_descale: Any,
    kv_last_page_lens: Any,
    block_table: Any,
    seqlen_k: Any,
    sink_ptr: Any,
) -> Any:
    """Trace ``aiter_prebuilt.mha_batch_prefill``."""
    sides = (window_size_left, window_size_right)
    seen = window("mha_batch_prefill", sides, max_seqlen_q, max_seqlen_k, is_causal)[:2]
    result, lse = prefilled(q, v, out, return_softmax_lse)
    how = (max_seqlen_q, softmax_scale, logits_soft_cap, *seen, max(sink_size, 0))
    lists, descales = (cu_seqlens_q, kv_indptr, kv_page_indices), (q_descale, k_descale, v_descale)
    lists, last = of_table("mha_batch_prefill", k, lists, kv_last_page_lens, block_table, seqlen_k)
    _prefill(q, k, v, lists, result, last, descales, as_f32(sink_ptr), lse, how)
    return result, lse, None, None


def _prefill(
    q: Any,
    k: Any,
    v: Any,
    lists: tuple[Any, ...],
    out: Any,
    last: Any,
    descales: tuple[Any, ...],
    sinks: Any,
    lse: Any,
    how: tuple[Any, ...],
) -> None:
    if len(k.shape) == 5:
        _OPS.mha_batch_prefill.default(q, k, v, *lists, out, *descales, last, sinks, lse, *how)
    else:
        tensors = (q, paged(k), paged(v), *lists, out, last, *descales, sinks, lse)
        _OPS.mha_batch_prefill_func.default(*tensors, *how)


def extend_attention_fwd(
    q_extend: Any,
    k_extend: Any,
    v_extend: Any,
    o_extend: Any,
    k_buffer: Any,
    v_buffer: Any,
    qo_indptr: Any,
    kv_indptr: Any,
    kv_indices: Any,
    custom_mask: Any,
    is_causal: bool,
    mask_indptr: Any,
    max_len_extend: int,
    sm_scale: float | None,
    logit_cap: float,
    skip_prefix_custom_mask: bool,
) -> None:
    """Trace ``aiter_prebuilt.extend_attention_fwd``."""
    scale = sm_scale or q_extend.shape[2] ** -0.5
    of_bool = custom_mask is not None and custom_mask.dtype is torch.bool
    mask = custom_mask.view(torch.uint8) if of_bool else custom_mask
    new = (q_extend, k_extend, v_extend, o_extend, k_buffer, v_buffer)
    rows = as_type(kv_indices, "i32")
    tensors = (*new, qo_indptr, kv_indptr, rows, mask, as_type(mask_indptr, "i32"))
    how = (is_causal, max_len_extend, scale, logit_cap, skip_prefix_custom_mask)
    _OPS.extend_attention_fwd.default(*tensors, *how)
