"""What Dynamo traces of attention by kernels of ours and of Composable Kernel: as ``torch_calls``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import torch

from aiter_prebuilt.ops._common import scale_of, window_of
from aiter_prebuilt.ops._ragged import NO_LIMIT, as_f32, paged, skipped, window
from aiter_prebuilt.torch_library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def flash_attn_func(
    q: Any, k: Any, v: Any, softmax_scale: float | None, causal: bool, return_lse: bool
) -> Any:
    """Of ``aiter_prebuilt.flash_attn_func``."""
    out = q.new_empty(q.shape)
    lse_shape = (q.shape[0], q.shape[2], q.shape[1])
    lse = q.new_empty(lse_shape, dtype=torch.float32) if return_lse else None
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    _OPS.flash_attn_func.default(q, k, v, out, lse, scale, causal)
    return (out, lse) if return_lse else out


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
    """Of ``aiter_prebuilt.mha_fwd``."""
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
    """Of ``aiter_prebuilt.mha_varlen_fwd``."""
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
    out: Any,
    sink_ptr: Any,
) -> Any:
    """Of ``aiter_prebuilt.flash_attn_varlen_func``."""
    left, right = window("flash_attn_varlen_func", window_size, max_seqlen_q, max_seqlen_k, causal)
    result = q.new_empty((*q.shape[:2], v.shape[2])) if out is None else out
    lse = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32) if return_lse else None
    scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    skip = skipped(q, v.shape[2], (left, right), logits_soft_cap, min_seqlen_q)
    tensors = (q, k, v, cu_seqlens_q, cu_seqlens_k, result, as_f32(sink_ptr), lse)
    how = (max_seqlen_q, scale, logits_soft_cap, left, right, skip)
    _OPS.flash_attn_varlen_func.default(*tensors, *how)
    return (result, lse) if return_lse else result


def unified_attention(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    cu_seqlens_q: Any,
    max_seqlen_q: int,
    seqused_k: Any,
    softmax_scale: float,
    window_size: Any,
    block_table: Any,
    softcap: float,
    k_descale: Any,
    v_descale: Any,
    sinks: Any,
) -> None:
    """Of ``aiter_prebuilt.unified_attention``."""
    left, _ = window("unified_attention", window_size, max_seqlen_q, NO_LIMIT, True)
    tensors = (q, k, v, out, cu_seqlens_q, seqused_k, block_table, k_descale, v_descale, as_f32(sinks))
    _OPS.unified_attention.default(*tensors, max_seqlen_q, softmax_scale, left, softcap)


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
    out: Any,
    kv_last_page_lens: Any,
    k_descale: Any,
    v_descale: Any,
    sink_ptr: Any,
) -> Any:
    """Of ``aiter_prebuilt.mha_batch_prefill_func``."""
    left, right = window("mha_batch_prefill_func", window_size, max_seqlen_q, max_seqlen_k, causal)
    result = q.new_empty((*q.shape[:2], v.shape[-1])) if out is None else out
    lse = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32) if return_lse else None
    scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    tensors = (q, paged(k), paged(v), cu_seqlens_q, kv_indptr, kv_page_indices, result, kv_last_page_lens)
    more = (k_descale, v_descale, as_f32(sink_ptr), lse)
    how = (max_seqlen_q, scale, logits_soft_cap, left, right)
    _OPS.mha_batch_prefill_func.default(*tensors, *more, *how)
    return (result, lse) if return_lse else result


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
    """Of ``aiter_prebuilt.mha_bwd``."""
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
    """Of ``aiter_prebuilt.mha_varlen_bwd``."""
    made = like(((dq, q), (dk, k), (dv, v)))
    delta = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
    window = window_of(max_seqlen_q, max_seqlen_k, is_causal, window_size_left, window_size_right)
    given = (dout, q, k, v, out, softmax_lse, cu_seqlens_q, cu_seqlens_k, *made, sink, d_sink, delta)
    _OPS.mha_varlen_bwd.default(*given, max_seqlen_q, max_seqlen_k, softmax_scale, *window)
    return (*made, delta)


def like(pairs: Iterable[tuple[Any, Any]]) -> tuple[Any, ...]:
    """What was given, or a tensor like the one beside it."""
    return tuple(tensor.new_empty(tensor.shape) if given is None else given for given, tensor in pairs)
