"""Gradients of attention by AITER's assembly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, like, no_output, scale_of, window_of
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.attention_bwd_asm import refuse_fmha_v3_bwd, refuse_fmha_v3_varlen_bwd

if TYPE_CHECKING:
    import torch

_fmha_v3_bwd = operator("fmha_v3_bwd")
_fmha_v3_varlen_bwd = operator("fmha_v3_varlen_bwd")


@traced
def fmha_v3_bwd(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    softmax_lse: torch.Tensor,
    dropout_p: float,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    deterministic: bool,
    is_v3_atomic_fp32: bool,
    how_v3_bf16_cvt: int,
    dq: torch.Tensor | None = None,
    dk: torch.Tensor | None = None,
    dv: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    rng_state: torch.Tensor | None = None,
    gen: torch.Tensor | None = None,
) -> Any:
    """Compute dense attention gradients with AITER's assembly.

    The gradients of ``softmax(q @ k.T * softmax_scale) @ v`` per head, with grouped queries; dense; AITER's assembly.

    Args:
        dout: [b, sq, hq, dv], the gradient of ``out``.
        q: [b, sq, hq, d] bf16 or fp16.
        k: [b, sk, hk, d], hq a multiple of hk.
        v: [b, sk, hk, dv]. d and dv are 1 to 256; what AITER's assembly does not take, expanded tensors among it, a kernel of
            ours does. The last dim of each must be contiguous.
        out: what the forward pass gave.
        softmax_lse: [b, hq, sq] fp32, the log-sum-exp (natural log) of its scaled scores.
        dropout_p: only 0.0 is supported.
        softmax_scale: what scores are multiplied with, more than 0.
        is_causal: aligned bottom-right: query i sees keys up to i + sk - sq.
        window_size_left: query i sees keys from i + SK - SQ - window_size_left; -1: from the first; AITER's assembly takes a
            window of more than one key with D of 72 to 128 and is_v3_atomic_fp32.
        window_size_right: up to i + SK - SQ + window_size_right; -1: to the last.
        deterministic: only False is supported.
        is_v3_atomic_fp32: add ``dq`` up in fp32, else in its own type where AITER's assembly does.
        how_v3_bf16_cvt: bf16 by rounding to nearest even (0), away from zero (1) or towards zero (2), where there is a choice.
        dq: [B, SQ, HQ, D] of the type of q, written: the gradient of q; made when None.
        dk: [B, SK, HK, D] of the type of k, written: the gradient of k; made when None.
        dv: [B, SK, HK, DV] of the type of v, written: the gradient of v; made when None.
        alibi_slopes: only None is supported.
        rng_state: any, there is no dropout.
        gen: only None is supported.

    Returns:
        dq, dk, dv, and ``rowsum(out * dout)`` (fp32 [b, hq, sq]).

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fmha_v3_bwd``.
    """
    del rng_state
    refuse_fmha_v3_bwd(dropout_p, deterministic, how_v3_bf16_cvt, alibi_slopes, gen)
    scale_of("fmha_v3_bwd", softmax_scale)
    try:
        made = tuple(
            like(tensor) if given is None else given for given, tensor in ((dq, q), (dk, k), (dv, v))
        )
        left, right = window_of(q.shape[1], k.shape[1], is_causal, window_size_left, window_size_right)
        delta = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=element_type(q, "f32"))
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fmha_v3_bwd", error) from error
    _fmha_v3_bwd(
        dout,
        q,
        k,
        v,
        out,
        softmax_lse,
        *made,
        delta,
        softmax_scale,
        left,
        right,
        is_v3_atomic_fp32,
        how_v3_bf16_cvt,
    )
    return (*made, delta)


@traced
def fmha_v3_varlen_bwd(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    softmax_lse: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    deterministic: bool,
    is_v3_atomic_fp32: bool,
    how_v3_bf16_cvt: int,
    dq: torch.Tensor | None = None,
    dk: torch.Tensor | None = None,
    dv: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    rng_state: torch.Tensor | None = None,
    gen: torch.Tensor | None = None,
    cu_seqlens_q_padded: torch.Tensor | None = None,
    cu_seqlens_k_padded: torch.Tensor | None = None,
) -> Any:
    """Compute variable-length attention gradients with AITER's assembly.

    The gradients of ``softmax(q @ k.T * softmax_scale) @ v`` per head, of sequences of different lengths; AITER's assembly.

    Args:
        dout: [sq, hq, dv], the gradient of ``out``.
        q: [sq, hq, d] bf16 or fp16: the queries of all sequences.
        k: [sk, hk, d], hq a multiple of hk.
        v: [sk, hk, dv]. d and dv are 1 to 256; what AITER's assembly does not take, expanded tensors among it, a kernel of ours
            does. The last dim of each must be contiguous.
        out: what the forward pass gave.
        softmax_lse: [hq, sq] fp32, the log-sum-exp (natural log) of its scaled scores.
        cu_seqlens_q: [n + 1] int32: sequence i has the queries from cu_seqlens_q[i] to cu_seqlens_q[i + 1]; it begins with 0 and
            ends with sq.
        cu_seqlens_k: the same for keys.
        max_seqlen_q: no sequence has more queries.
        max_seqlen_k: no sequence has more keys.
        dropout_p: only 0.0 is supported.
        softmax_scale: what scores are multiplied with, more than 0.
        zero_tensors: any value: keys that meet no query, and queries that meet no key, have gradients of 0 either way.
        is_causal: aligned bottom-right: of n queries and m keys query i sees keys up to i + m - n.
        window_size_left: only -1 is supported.
        window_size_right: only -1 is supported.
        deterministic: only False is supported.
        is_v3_atomic_fp32: add ``dq`` up in fp32, else in its own type where AITER's assembly does.
        how_v3_bf16_cvt: bf16 by rounding to nearest even (0), away from zero (1) or towards zero (2), where there is a choice.
        dq: [SQ, HQ, D] of the type of q, written: the gradient of q; made when None.
        dk: [SK, HK, D] of the type of k, written: the gradient of k; made when None.
        dv: [SK, HK, DV] of the type of v, written: the gradient of v; made when None.
        alibi_slopes: only None is supported.
        rng_state: any, there is no dropout.
        gen: only None is supported.
        cu_seqlens_q_padded: only None is supported.
        cu_seqlens_k_padded: only None is supported.

    Returns:
        dq, dk, dv, and ``rowsum(out * dout)`` (fp32 [hq, sq]).

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fmha_v3_varlen_bwd``.
    """
    del zero_tensors, rng_state
    refuse_fmha_v3_varlen_bwd(
        dropout_p,
        window_size_left,
        window_size_right,
        deterministic,
        how_v3_bf16_cvt,
        alibi_slopes,
        gen,
        cu_seqlens_q_padded,
        cu_seqlens_k_padded,
    )
    scale_of("fmha_v3_varlen_bwd", softmax_scale)
    try:
        made = tuple(
            like(tensor) if given is None else given for given, tensor in ((dq, q), (dk, k), (dv, v))
        )
        delta = q.new_empty((q.shape[1], q.shape[0]), dtype=element_type(q, "f32"))
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fmha_v3_varlen_bwd", error) from error
    _fmha_v3_varlen_bwd(
        dout,
        q,
        k,
        v,
        out,
        softmax_lse,
        cu_seqlens_q,
        cu_seqlens_k,
        *made,
        delta,
        max_seqlen_q,
        max_seqlen_k,
        softmax_scale,
        is_causal,
        is_v3_atomic_fp32,
        how_v3_bf16_cvt,
    )
    return (*made, delta)
