"""What Dynamo traces of the functions of ``ops/attention_ck.py``: as ``torch_calls``."""

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.ops._common import scale_of, window_of
from aiter_prebuilt.torch_library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


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
