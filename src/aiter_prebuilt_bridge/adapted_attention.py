"""Attention as AITER calls it: dense attention of padded batches, and decode over a paged cache in groups of 16 bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import aiter_prebuilt  # not its functions: they are read when they are called, which costs less than an import in each call
from aiter_prebuilt.errors import UnsupportedError

if TYPE_CHECKING:
    import torch

#: Dims of values in groups of 16 bytes of consecutive keys: [NB, HK, BS / X, D, X].
_GROUPED: Final = 5


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


def paged_attention_common(
    Q: torch.Tensor,  # noqa: N803  # AITER's names
    K: torch.Tensor,  # noqa: N803
    V: torch.Tensor,  # noqa: N803
    exp_sums: torch.Tensor,
    max_logits: torch.Tensor,
    tmp_out: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables_stride0: int,
    scale: float,
    max_qlen: int = 1,
    max_seq_len: int = 1,
    K_QScale_hip: torch.Tensor | None = None,  # noqa: N803
    V_QScale_hip: torch.Tensor | None = None,  # noqa: N803
    K_QScale_asm: torch.Tensor | None = None,  # noqa: N803
    V_QScale_asm: torch.Tensor | None = None,  # noqa: N803
    out_: torch.Tensor | None = None,
    qo_indptr: torch.Tensor | None = None,
    high_precision: int | None = 1,
    kernelName: str | None = None,  # noqa: N803
    kv_cache_dtype: str = "auto",
    kv_cache_tensor_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Decode over a paged cache in groups of 16 bytes: vLLM's shuffled layout.

    AITER has two kernels for it and chooses by the number of heads. Ours is `pa_fwd_asm` for all.

    Args:
        Q: [S, HQ, D], of any strides; copied if it is not contiguous.
        K: [NB, HK, D / X, BS, X], X elements of 16 bytes.
        V: [NB, HK, BS / X, D, X].
        exp_sums: not used.
        max_logits: not used.
        tmp_out: not used.
        block_tables: [S, MB] int32.
        context_lens: [S] int32, keys of each sequence.
        block_tables_stride0: block_tables.stride(0).
        scale: only D**-0.5.
        max_qlen: the most queries of a sequence.
        max_seq_len: not used.
        K_QScale_hip: not read: of an 8-bit cache K_QScale_asm has the same scales.
        V_QScale_hip: likewise.
        K_QScale_asm: of an 8-bit cache a scale for each key, [NB, HK, BS] fp32.
        V_QScale_asm: the same for values.
        out_: [S, HQ, D], contiguous, written; made when None.
        qo_indptr: where the queries of each sequence start.
        high_precision: as `pa_fwd_asm` has it.
        kernelName: AITER's object to take.
        kv_cache_dtype: not read: K has a type.
        kv_cache_tensor_dtype: only that of K.

    Returns:
        out_.

    Raises:
        UnsupportedError: another scale, values in another layout, or an 8-bit cache without K_QScale_asm.
    """
    del exp_sums, max_logits, tmp_out, max_seq_len, K_QScale_hip, V_QScale_hip, kv_cache_dtype
    usual = math.isclose(scale, Q.shape[-1] ** -0.5, rel_tol=1e-6)
    typed = kv_cache_tensor_dtype in (None, K.dtype)
    scaled = K.element_size() > 1 or (K_QScale_asm is not None and V_QScale_asm is not None)
    if not usual or not typed or not scaled or V.dim() != _GROUPED:
        raise UnsupportedError(
            f"paged_attention_common(scale={scale}, V of {V.dim()} dims, a cache of {K.dtype})",
            "ours takes scale=D**-0.5, V of 5 dims, and an 8-bit cache with K_QScale_asm and V_QScale_asm",
            "Leave it to AITER's own function",
        )
    # vLLM's queries lie between keys and values.
    return aiter_prebuilt.pa_fwd_asm(
        Q.contiguous(), K, V, block_tables, context_lens, block_tables_stride0, max_qlen, K_QScale_asm, V_QScale_asm, out_,
        qo_indptr, high_precision, kernelName,
    )  # fmt: skip
