"""Dense attention of padded batches, as AITER takes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import aiter_prebuilt  # not its functions: they are read when they are called, which costs less than an import in each call

if TYPE_CHECKING:
    import torch


def _inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let Dynamo trace a function that only calls ours."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords)

    setattr(call, "_torchdynamo_inline", function)  # noqa: B010  # a function has no such attribute to mypy
    return call


@_inlined
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
    """Compute dense flash attention; with lengths, of padded sequences.

    Args:
        q: [b, sq, hq, d].
        k: [b, sk, hk, d].
        v: [b, sk, hk, dv].
        dropout_p: as ours takes it, like all that is not named here.
        softmax_scale: d**-0.5 when None.
        causal: aligned bottom-right, by the lengths.
        window_size: likewise.
        bias: only None.
        alibi_slopes: only None.
        deterministic: any value.
        return_lse: also return fp32 [b, hq, sq].
        return_attn_probs: also return the random bytes of dropout, [b, hq, sq, sk] uint8; an empty tensor without.
        how_v3_bf16_cvt: how AITER's assembly rounds.
        cu_seqlens_q: [b + 1] int32: batch i has cu_seqlens_q[i + 1] - cu_seqlens_q[i] queries, its first rows. Rows behind them
            get any values. None: sq each.
        cu_seqlens_kv: the same for keys; no query sees those behind them.
        sink_ptr: [hq], one more score of each head.
        num_splits: 0 or 1.
    """
    if (cu_seqlens_q is None and cu_seqlens_kv is None) or num_splits not in (0, 1):
        return aiter_prebuilt.flash_attn_func(
            q, k, v, dropout_p, softmax_scale, causal, window_size, bias, alibi_slopes, deterministic, return_lse,
            return_attn_probs, how_v3_bf16_cvt, cu_seqlens_q, cu_seqlens_kv, sink_ptr, num_splits,
        )  # fmt: skip
    import torch

    (batches, queries), keys = q.shape[:2], k.shape[1]
    numbers = torch.arange(batches + 1, dtype=torch.int32, device=q.device)
    rows = numbers * queries, numbers * keys
    lengths = (
        rows[0] if cu_seqlens_q is None else cu_seqlens_q,
        rows[1] if cu_seqlens_kv is None else cu_seqlens_kv,
    )
    flat = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
    out, *rest = aiter_prebuilt.flash_attn_varlen_func(
        *flat, *lengths, queries, keys, 0, dropout_p, softmax_scale, 0.0, causal,
        window_size, bias, alibi_slopes, deterministic, True, return_attn_probs, how_v3_bf16_cvt, None, None, *rows, sink_ptr,
    )  # fmt: skip
    out = out.unflatten(0, (batches, queries))
    lse = rest.pop(0).unflatten(1, (batches, queries)).transpose(0, 1).contiguous()
    if rest and dropout_p:  # random bytes, [hq, b * sq, sk]
        rest = [rest[0].unflatten(1, (batches, queries)).transpose(0, 1).contiguous()]
    result = [out, *([lse] if return_lse else ()), *rest]
    return result[0] if len(result) == 1 else tuple(result)
