"""Flash attention, forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, like, no_output
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.attention import refuse_flash_attn_func

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
    """``softmax(q @ k.T * softmax_scale) @ v`` per head, with grouped queries; dense, forward only.

    Args:
        q: [b, sq, hq, d] bf16 or fp16, d 64 or 128. k, v: [b, sk, hk, d] of the same type, hq a multiple of hk. The last dim of
            each must be contiguous.
        softmax_scale: d**-0.5 when None. causal: aligned bottom-right: query i sees keys up to i + sk - sq.
        return_lse: also return the log-sum-exp (natural log) of the scaled scores.
        deterministic, how_v3_bf16_cvt: any value; the kernel is deterministic and rounds to nearest even.
        window_size: (-1, -1) or (-1, -1, 0), no window. num_splits: 0 or 1.
        dropout_p, bias, alibi_slopes, return_attn_probs, cu_seqlens_*, sink_ptr: defaults only.

    Returns:
        [b, sq, hq, d], or with ``return_lse`` a pair with lse fp32 [b, hq, sq]. A query that sees no key gives 0 and -inf.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: Dao, FlashAttention-2; AITER ``flash_attn_func``.
    """
    del deterministic, how_v3_bf16_cvt
    refuse_flash_attn_func(
        dropout_p,
        window_size,
        bias,
        alibi_slopes,
        return_attn_probs,
        cu_seqlens_q,
        cu_seqlens_kv,
        sink_ptr,
        num_splits,
    )
    try:
        scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
        out = like(q)
        lse_shape = (q.shape[0], q.shape[2], q.shape[1])
        lse = q.new_empty(lse_shape, dtype=element_type(q, "f32")) if return_lse else None
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("flash_attn_func", error) from error
    _flash_attn_func(q, k, v, out, lse, scale, causal)
    return (out, lse) if return_lse else out
