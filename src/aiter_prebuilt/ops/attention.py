"""Flash attention, forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops import _dropout
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, no_output, with_probabilities
from aiter_prebuilt.ops._ragged import as_f32, window
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.attention import refuse_flash_attn_func

if TYPE_CHECKING:
    import torch

_flash_attn_func = operator("flash_attn_func")


@traced
def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, ...] = (-1, -1, 0),
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = True,
    return_lse: bool = False,
    return_attn_probs: bool = False,
    how_v3_bf16_cvt: int = 1,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_kv: torch.Tensor | None = None,
    sink_ptr: torch.Tensor | None = None,
    num_splits: int = 0,
) -> Any:
    """Compute dense flash attention.

    ``softmax(q @ k.T * softmax_scale) @ v`` per head, with grouped queries; dense.

    Torch records the gradients of q, k, v and sink_ptr, also under ``torch.compile``; the log-sum-exp has none.

    Args:
        q: [b, sq, hq, d] bf16 or fp16, d up to 256.
        k: [b, sk, hk, d] of the same type, hq a multiple of hk.
        v: [b, sk, hk, dv], dv up to 256. The last dim of each must be contiguous.
        dropout_p: the share of probabilities that is dropped; the others are divided by 1 - dropout_p. Seed and offset are drawn
            from torch's default generator of the device; equal ones give the mask of AITER's Composable Kernel.
        softmax_scale: d**-0.5 when None.
        causal: aligned bottom-right: query i sees keys up to i + sk - sq.
        window_size: (left, right), or (left, right, first): keys from i + sk - sq - left to i + sk - sq + right, and the
            ``first`` ones up to there; -1 is no limit. With ``causal`` right is 0.
        bias: only None is supported.
        alibi_slopes: only None is supported.
        deterministic: any value; the kernels are deterministic.
        return_lse: also return the log-sum-exp (natural log) of the scaled scores and of the sink.
        return_attn_probs: also return the random byte of each query and key, [b, hq, sq, sk] uint8: kept are those of at most
            floor(255 * (1 - dropout_p)). Without dropout an empty tensor.
        how_v3_bf16_cvt: of AITER's assembly on gfx942 (bf16, d and dv 128, more than 128 queries, no window, no sink), how a
            result in the middle of two is rounded: 1 away from zero, 0 to the even one, as every other kernel does; another value
            does not take it.
        cu_seqlens_q: only None is supported.
        cu_seqlens_kv: only None is supported.
        sink_ptr: [hq], one more score of each head, which takes part in the sum and has no value; made fp32 if it is not.
        num_splits: 0 or 1.

    Returns:
        [b, sq, hq, dv], or with ``return_lse`` a pair with lse fp32 [b, hq, sq]; with ``return_attn_probs`` the bytes, or
        [0] of the type of q, behind them. A query that sees no key gives 0, and -inf or its sink.

    Raises:
        UnsupportedError: an option that no kernel covers, or ``first`` where a tensor requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: Dao, FlashAttention-2; AITER ``flash_attn_func``.
    """
    del deterministic
    refuse_flash_attn_func(
        bias,
        alibi_slopes,
        cu_seqlens_q,
        cu_seqlens_kv,
        num_splits,
    )
    try:
        scale = q.shape[3] ** -0.5 if softmax_scale is None else softmax_scale
        out = q.new_empty((*q.shape[:3], v.shape[3]))
        lse_shape = (q.shape[0], q.shape[2], q.shape[1])
        lse = q.new_empty(lse_shape, dtype=element_type(q, "f32")) if return_lse else None
        queries, keys = q.shape[1], k.shape[1]
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("flash_attn_func", error) from error
    seen = window("flash_attn_func", window_size, queries, keys, causal)
    if dropout_p:
        drawn = _dropout.new_bytes(q, keys) if return_attn_probs else None
        tensors = (out, q, k, v, None, None, as_f32(sink_ptr), lse, drawn)
        _dropout.attend("flash_attn_func", dropout_p, tensors, scale, seen)
        return with_probabilities(q, out, lse, return_attn_probs, drawn)
    _flash_attn_func(q, k, v, as_f32(sink_ptr), out, lse, scale, *seen, scale > 0, how_v3_bf16_cvt)
    return with_probabilities(q, out, lse, return_attn_probs)
