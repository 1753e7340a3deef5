"""Flash attention of 8-bit queries, keys and values with one scale each, forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, no_output
from aiter_prebuilt.ops._ragged import as_f32, window
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_dense = operator("flash_attn_fp8_pertensor_func")
_varlen = operator("flash_attn_varlen_fp8_pertensor_func")


@traced
def flash_attn_fp8_pertensor_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_descale: torch.Tensor,
    k_descale: torch.Tensor,
    v_descale: torch.Tensor,
    causal: bool = False,
    window_size: tuple[int, ...] = (-1, -1, 0),
    softmax_scale: float | None = None,
    sink_ptr: torch.Tensor | None = None,
) -> torch.Tensor:
    """``softmax(q @ k.T * softmax_scale) @ v`` per head of 8-bit numbers, with grouped queries; dense, forward only.

    Args:
        q: [b, sq, hq, d] fp8, d up to 256. k: [b, sk, hk, d] fp8, hq a multiple of hk. v: [b, sk, hk, dv] fp8, dv up to 256. The
            last dim of each must be contiguous. q_descale, k_descale, v_descale: fp32 of one element, the scale of all numbers
            of each.
        causal: aligned bottom-right: query i sees keys up to i + sk - sq.
        window_size: (left, right), or (left, right, first): keys from i + sk - sq - left to i + sk - sq + right, and the
            ``first`` ones up to there; -1 is no limit. With ``causal`` right is 0.
        softmax_scale: d**-0.5 when None.
        sink_ptr: [hq], one more score of each head, which takes part in the sum and has no value; made fp32 if it is not.

    Returns:
        [b, sq, hq, dv] bf16. A query that sees no key gives 0.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``flash_attn_fp8_pertensor_func``.
    """
    try:
        out = q.new_empty((*q.shape[:3], v.shape[3]), dtype=element_type(q, "bf16"))
        scale = q.shape[3] ** -0.5 if softmax_scale is None else softmax_scale
        queries, keys = q.shape[1], k.shape[1]
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("flash_attn_fp8_pertensor_func", error) from error
    seen = window("flash_attn_fp8_pertensor_func", window_size, queries, keys, causal)
    _dense(q, k, v, q_descale, k_descale, v_descale, as_f32(sink_ptr), out, scale, *seen)
    return out


@traced
def flash_attn_varlen_fp8_pertensor_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_descale: torch.Tensor,
    k_descale: torch.Tensor,
    v_descale: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int = 0,
    logits_soft_cap: float = 0.0,
    causal: bool = False,
    window_size: tuple[int, ...] = (-1, -1, 0),
    softmax_scale: float | None = None,
    sink_ptr: torch.Tensor | None = None,
) -> torch.Tensor:
    """``softmax(q @ k.T * softmax_scale) @ v`` per head of sequences of different lengths, of 8-bit numbers; forward only.

    Args:
        q: [sq, hq, d] fp8, the queries of all sequences, d up to 256. k: [sk, hk, d] fp8, hq a multiple of hk. v: [sk, hk, dv]
            fp8, dv up to 256. The last dim of each must be contiguous. q_descale, k_descale, v_descale: fp32 of one element, the
            scale of all numbers of each.
        cu_seqlens_q: [n + 1] int32: sequence i has the queries from cu_seqlens_q[i] to cu_seqlens_q[i + 1]. cu_seqlens_k: the
            same for keys. Rows of no sequence stay as they are.
        max_seqlen_q, max_seqlen_k: the most queries and keys of a sequence. Queries behind max_seqlen_q stay as they are.
        min_seqlen_q: above 0, sequences of no more queries are left alone.
        logits_soft_cap: above 0, a score x becomes cap * tanh(x / cap).
        causal: aligned bottom-right: of n queries and m keys query i sees keys up to i + m - n.
        window_size: (left, right), or (left, right, first): keys from i + m - n - left to i + m - n + right, and the ``first``
            ones up to there; -1 is no limit. With ``causal`` right is 0.
        softmax_scale: d**-0.5 when None.
        sink_ptr: [hq], one more score of each head, which takes part in the sum and has no value; made fp32 if it is not.

    Returns:
        [sq, hq, dv] bf16. A query that sees no key gives 0.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``flash_attn_varlen_fp8_pertensor_func``.
    """
    seen = window("flash_attn_varlen_fp8_pertensor_func", window_size, max_seqlen_q, max_seqlen_k, causal)
    try:
        out = q.new_empty((*q.shape[:2], v.shape[2]), dtype=element_type(q, "bf16"))
        scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("flash_attn_varlen_fp8_pertensor_func", error) from error
    tensors: Any = (
        q,
        k,
        v,
        q_descale,
        k_descale,
        v_descale,
        cu_seqlens_q,
        cu_seqlens_k,
        as_f32(sink_ptr),
        out,
    )
    _varlen(*tensors, max_seqlen_q, scale, logits_soft_cap, *seen, max(min_seqlen_q, 0))
    return out
