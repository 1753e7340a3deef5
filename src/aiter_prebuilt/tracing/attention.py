"""Traced forms of attention by Triton and Composable Kernel kernels.

As in ``calls``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import torch

from aiter_prebuilt.devices import device
from aiter_prebuilt.ops._common import refuse, same_shape, scale_of, window_of, with_probabilities
from aiter_prebuilt.ops._mla import of_parts, of_works
from aiter_prebuilt.ops._prompts import beside
from aiter_prebuilt.ops._ragged import (
    as_f32,
    left_of,
    paged,
    skipped,
    tokens_first,
    window,
)
from aiter_prebuilt.ops._sequence_lists import split_padding
from aiter_prebuilt.tracing import attention_autograd
from aiter_prebuilt.tracing.library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def _records(*tensors: Any) -> bool:
    """Tell whether torch records the gradient of a tensor."""
    return torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in tensors)


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    softmax_scale: float | None,
    causal: bool,
    window_size: Any,
    return_lse: bool,
    return_attn_probs: bool,
    how_v3_bf16_cvt: int,
    sink_ptr: Any,
) -> Any:
    """Trace ``aiter_prebuilt.flash_attn_func``."""
    if _records(q, k, v, sink_ptr):
        return attention_autograd.flash_attn_func(
            q=q,
            k=k,
            v=v,
            softmax_scale=softmax_scale,
            causal=causal,
            window_size=window_size,
            return_lse=return_lse,
            return_attn_probs=return_attn_probs,
            how_v3_bf16_cvt=how_v3_bf16_cvt,
            sink_ptr=sink_ptr,
        )
    out = q.new_empty((*q.shape[:3], v.shape[3]))
    lse_shape = (q.shape[0], q.shape[2], q.shape[1])
    lse = q.new_empty(lse_shape, dtype=torch.float32) if return_lse else None
    scale = q.shape[3] ** -0.5 if softmax_scale is None else softmax_scale
    seen = window("flash_attn_func", window_size, q.shape[1], k.shape[1], causal)
    how = (scale, *seen, scale > 0, how_v3_bf16_cvt)
    _OPS.flash_attn_func.default(q, k, v, as_f32(sink_ptr), out, lse, *how)
    return with_probabilities(q, out, lse, return_attn_probs)


def mha_fwd(
    q: Any,
    k: Any,
    v: Any,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    return_softmax_lse: bool,
    cu_seqlens_q: Any,
    cu_seqlens_kv: Any,
    out: Any,
) -> Any:
    """Trace ``aiter_prebuilt.mha_fwd``."""
    scale_of("mha_fwd", softmax_scale)
    result = q.new_empty((*q.shape[:3], v.shape[3])) if out is None else out
    lse = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)
    window = window_of(q.shape[1], k.shape[1], is_causal, window_size_left, window_size_right)
    _OPS.mha_fwd.default(q, k, v, cu_seqlens_q, cu_seqlens_kv, result, lse, softmax_scale, *window)
    return result, lse if return_softmax_lse else None, None, None


def mha_varlen_fwd(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    return_softmax_lse: bool,
    out: Any,
    cu_seqlens_q_padded: Any,
    cu_seqlens_k_padded: Any,
) -> Any:
    """Trace ``aiter_prebuilt.mha_varlen_fwd``."""
    scale_of("mha_varlen_fwd", softmax_scale)
    result = q.new_empty((*q.shape[:2], v.shape[2])) if out is None else out
    lse = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
    window = window_of(max_seqlen_q, max_seqlen_k, is_causal, window_size_left, window_size_right)
    given = (q, k, v, cu_seqlens_q, cu_seqlens_k, result, cu_seqlens_q_padded, cu_seqlens_k_padded, lse)
    _OPS.mha_varlen_fwd.default(*given, max_seqlen_q, max_seqlen_k, min_seqlen_q, softmax_scale, *window)
    return result, lse if return_softmax_lse else None, None, None


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int,
    softmax_scale: float | None,
    logits_soft_cap: float,
    causal: bool,
    window_size: Any,
    return_lse: bool,
    return_attn_probs: bool,
    how_v3_bf16_cvt: int,
    block_table: Any,
    out: Any,
    cu_seqlens_q_padded: Any,
    cu_seqlens_k_padded: Any,
    sink_ptr: Any,
) -> Any:
    """Trace ``aiter_prebuilt.flash_attn_varlen_func``."""
    if _records(q, k, v, out, sink_ptr):
        return attention_autograd.flash_attn_varlen_func(
            q=q,
            k=k,
            v=v,
            cu_seqlens_q=cu_seqlens_q,
            cu_seqlens_k=cu_seqlens_k,
            max_seqlen_q=max_seqlen_q,
            max_seqlen_k=max_seqlen_k,
            min_seqlen_q=min_seqlen_q,
            softmax_scale=softmax_scale,
            logits_soft_cap=logits_soft_cap,
            causal=causal,
            window_size=window_size,
            return_lse=return_lse,
            return_attn_probs=return_attn_probs,
            how_v3_bf16_cvt=how_v3_bf16_cvt,
            block_table=block_table,
            out=out,
            cu_seqlens_q_padded=cu_seqlens_q_padded,
            cu_seqlens_k_padded=cu_seqlens_k_padded,
            sink_ptr=sink_ptr,
            deterministic=True,
        )
    seen = window("flash_attn_varlen_func", window_size, max_seqlen_q, max_seqlen_k, causal)
    result = q.new_empty((*q.shape[:2], v.shape[-1])) if out is None else out
    keys, values = (k, v) if block_table is not None else (paged(k, 0), paged(v, 0))
    lse = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32) if return_lse else None
    scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    skip = skipped(q, v.shape[-1], seen, logits_soft_cap, min_seqlen_q)
    padded = (cu_seqlens_q_padded, cu_seqlens_k_padded)
    starts = split_padding("flash_attn_varlen_func", cu_seqlens_q, cu_seqlens_k, *padded, block_table)
    tensors = (q, keys, values, *starts, block_table, result, as_f32(sink_ptr), lse)
    plain = scale > 0 and logits_soft_cap <= 0
    how = (max_seqlen_q, scale, logits_soft_cap, *seen, skip, plain, how_v3_bf16_cvt)
    _OPS.flash_attn_varlen_func.default(*tensors, *how)
    return with_probabilities(q, result, lse, return_attn_probs)


def unified_attention(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    cu_seqlens_q: Any,
    max_seqlen_q: int,
    seqused_k: Any,
    max_seqlen_k: int,
    softmax_scale: float,
    window_size: Any,
    block_table: Any,
    softcap: float,
    k_descale: Any,
    v_descale: Any,
    sinks: Any,
) -> None:
    """Trace ``aiter_prebuilt.unified_attention``."""
    left = left_of("unified_attention", window_size)
    tensors = (q, k, v, out, cu_seqlens_q, seqused_k, block_table, k_descale, v_descale, as_f32(sinks))
    _OPS.unified_attention.default(*tensors, max_seqlen_q, max_seqlen_k, softmax_scale, left, softcap)


def flash_attn_fp8_pertensor_func(
    q: Any,
    k: Any,
    v: Any,
    q_descale: Any,
    k_descale: Any,
    v_descale: Any,
    causal: bool,
    window_size: Any,
    softmax_scale: float | None,
    sink_ptr: Any,
) -> Any:
    """Trace ``aiter_prebuilt.flash_attn_fp8_pertensor_func``."""
    out = q.new_empty((*q.shape[:3], v.shape[3]), dtype=torch.bfloat16)
    scale = q.shape[3] ** -0.5 if softmax_scale is None else softmax_scale
    seen = window("flash_attn_fp8_pertensor_func", window_size, q.shape[1], k.shape[1], causal)
    tensors = (q, k, v, q_descale, k_descale, v_descale, as_f32(sink_ptr), out)
    _OPS.flash_attn_fp8_pertensor_func.default(*tensors, scale, *seen)
    return out


def flash_attn_varlen_fp8_pertensor_func(
    q: Any,
    k: Any,
    v: Any,
    q_descale: Any,
    k_descale: Any,
    v_descale: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int,
    logits_soft_cap: float,
    causal: bool,
    window_size: Any,
    softmax_scale: float | None,
    sink_ptr: Any,
) -> Any:
    """Trace ``aiter_prebuilt.flash_attn_varlen_fp8_pertensor_func``."""
    seen = window("flash_attn_varlen_fp8_pertensor_func", window_size, max_seqlen_q, max_seqlen_k, causal)
    out = q.new_empty((*q.shape[:2], v.shape[2]), dtype=torch.bfloat16)
    scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    tensors = (q, k, v, q_descale, k_descale, v_descale, cu_seqlens_q, cu_seqlens_k, as_f32(sink_ptr), out)
    how = (max_seqlen_q, scale, logits_soft_cap, *seen, max(min_seqlen_q, 0))
    _OPS.flash_attn_varlen_fp8_pertensor_func.default(*tensors, *how)
    return out


def paged_attention_v1(
    out: Any,
    query: Any,
    key_cache: Any,
    value_cache: Any,
    scale: float,
    block_tables: Any,
    cu_query_lens: Any,
    context_lens: Any,
    max_context_len: int,
    alibi_slopes: Any,
    kv_cache_dtype: str,
    kv_cache_layout: str,
    logits_soft_cap: float,
    k_scale: Any,
    v_scale: Any,
    sliding_window: int,
) -> Any:
    """Trace ``aiter_prebuilt.paged_attention_v1``."""
    keys, values = (tokens_first(each, kv_cache_layout) for each in (key_cache, value_cache))
    starts = None if same_shape(cu_query_lens, context_lens) else cu_query_lens
    tensors = (query, keys, values, out, block_tables, starts, context_lens, alibi_slopes, k_scale, v_scale)
    left = sliding_window - 1 if sliding_window > 0 else -1
    how = (scale, max_context_len, kv_cache_dtype, kv_cache_layout, logits_soft_cap, left)
    _OPS.paged_attention_v1.default(*tensors, *how)
    return out


def paged_attention_ragged(
    out: Any,
    query: Any,
    key_cache: Any,
    value_cache: Any,
    scale: float,
    kv_indptr: Any,
    kv_page_indices: Any,
    kv_last_page_lens: Any,
    max_num_partitions: int,
    kv_cache_dtype: str,
    kv_cache_layout: str,
    logits_soft_cap: float,
    k_scale: Any,
    v_scale: Any,
    partition_size: int,
) -> Any:
    """Trace ``aiter_prebuilt.paged_attention_ragged``."""
    keys, values = (tokens_first(each, kv_cache_layout) for each in (key_cache, value_cache))
    tensors = (query, keys, values, out, kv_indptr, kv_page_indices, kv_last_page_lens, k_scale, v_scale)
    most = max_num_partitions * partition_size
    _OPS.paged_attention_ragged.default(
        *tensors, scale, most, kv_cache_dtype, kv_cache_layout, logits_soft_cap
    )
    return out


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _units(ordinal: int) -> int:
    return device.facts("amd", ordinal).compute_units


def mla_decode_fwd(
    q: Any,
    kv_buffer: Any,
    o: Any,
    qo_indptr: Any,
    kv_indptr: Any,
    kv_indices: Any,
    kv_last_page_lens: Any,
    max_seqlen_q: int,
    page_size: int,
    sm_scale: float | None,
    logit_cap: float,
    num_kv_splits: int | None,
    work_indptr: Any,
    work_info_set: Any,
    reduce_indptr: Any,
    reduce_final_map: Any,
    reduce_partial_map: Any,
    q_scale: Any,
    kv_scale: Any,
    return_lse: bool,
    causal: bool,
) -> Any:
    """Trace ``aiter_prebuilt.mla_decode_fwd``."""
    if page_size != kv_buffer.shape[1]:
        raise refuse("mla_decode_fwd", "page_size", page_size, f"{kv_buffer.shape[1]}")
    scale = q.shape[-1] ** -0.5 if sm_scale is None else sm_scale
    scale_of("mla_decode_fwd", scale, "sm_scale")
    capped = logit_cap > 0
    lists = (work_indptr, work_info_set, reduce_indptr, reduce_final_map, reduce_partial_map)
    if all(each is not None for each in lists):
        made = of_works(q, o, page_size, reduce_partial_map, max_seqlen_q, torch.float32)
    else:
        lists = (None, None, None, None, None)
        units = _units(q.device.index or 0) if num_kv_splits is None else 0
        keys = kv_indices.shape[0] * page_size
        made = of_parts(q, o, qo_indptr, keys, max_seqlen_q, num_kv_splits, units, torch.float32)
    _OPS.mla_decode_fwd.default(
        made.q, kv_buffer, made.o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, *lists, q_scale, kv_scale,
        made.logits, made.lse, max_seqlen_q, scale, made.splits, made.fold, max(logit_cap, 0.0), capped, return_lse,
        causal,
    )  # fmt: skip
    return made.parts, made.lse


def get_ps_metadata_v1(
    seqlens_qo_indptr: Any,
    pages_kv_indptr: Any,
    context_lens: Any,
    num_heads_k: int,
    work_indptr: Any,
    work_info: Any,
    reduce_indptr: Any,
    reduce_final_map: Any,
    reduce_partial_map: Any,
    qhead_granularity: int,
    qlen_granularity: int,
    kvlen_granularity: int,
    block_size: int,
    is_causal: bool,
) -> None:
    """Trace ``aiter_prebuilt.get_ps_metadata_v1``."""
    lengths = [beside(each, work_info) for each in (seqlens_qo_indptr, pages_kv_indptr, context_lens)]
    lists = (work_indptr, work_info, reduce_indptr, reduce_final_map, reduce_partial_map)
    _OPS.get_ps_metadata_v1.default(
        *lengths, *lists, num_heads_k, qhead_granularity, qlen_granularity, kvlen_granularity, block_size, is_causal
    )  # fmt: skip


def mha_bwd(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    softmax_lse: Any,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    dq: Any,
    dk: Any,
    dv: Any,
    sink: Any,
    d_sink: Any,
) -> Any:
    """Trace ``aiter_prebuilt.mha_bwd``."""
    made = like(((dq, q), (dk, k), (dv, v)))
    delta = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)
    window = window_of(q.shape[1], k.shape[1], is_causal, window_size_left, window_size_right)
    given = (dout, q, k, v, out, softmax_lse, *made, sink, d_sink, delta)
    _OPS.mha_bwd.default(*given, softmax_scale, *window)
    return (*made, delta)


def mha_varlen_bwd(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    softmax_lse: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    dq: Any,
    dk: Any,
    dv: Any,
    sink: Any,
    d_sink: Any,
) -> Any:
    """Trace ``aiter_prebuilt.mha_varlen_bwd``."""
    made = like(((dq, q), (dk, k), (dv, v)))
    delta = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
    window = window_of(max_seqlen_q, max_seqlen_k, is_causal, window_size_left, window_size_right)
    given = (dout, q, k, v, out, softmax_lse, cu_seqlens_q, cu_seqlens_k, *made, sink, d_sink, delta)
    _OPS.mha_varlen_bwd.default(*given, max_seqlen_q, max_seqlen_k, softmax_scale, *window)
    return (*made, delta)


def like(pairs: Iterable[tuple[Any, Any]]) -> tuple[Any, ...]:
    """Return each given tensor, or a new one like its partner."""
    return tuple(tensor.new_empty(tensor.shape) if given is None else given for given, tensor in pairs)
