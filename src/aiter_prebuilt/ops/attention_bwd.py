"""Gradients of attention, by kernels of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops import _dropout
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, like, no_output, window_of
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.attention_bwd import refuse_mha_bwd, refuse_mha_varlen_bwd

if TYPE_CHECKING:
    import torch

_mha_bwd = operator("mha_bwd")
_mha_varlen_bwd = operator("mha_varlen_bwd")


@traced
def mha_bwd(
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
    dq: torch.Tensor | None = None,
    dk: torch.Tensor | None = None,
    dv: torch.Tensor | None = None,
    dbias: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    rng_state: torch.Tensor | None = None,
    gen: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    d_sink: torch.Tensor | None = None,
) -> Any:
    """Compute the gradients of dense attention.

    The gradients of ``softmax(q @ k.T * softmax_scale) @ v`` per head, with grouped queries, windows and sinks; dense.

    Args:
        dout: [b, sq, hq, dv], the gradient of ``out``.
        q: [b, sq, hq, d] bf16 or fp16.
        k: [b, sk, hk, d], hq a multiple of hk.
        v: [b, sk, hk, dv]. d and dv are 1 to 256. The last dim of each must be contiguous.
        out: what the forward pass gave.
        softmax_lse: [b, hq, sq] fp32, the log-sum-exp (natural log) of its scaled scores, and of the sink where there is one.
        dropout_p: that of the forward pass.
        softmax_scale: what scores are multiplied with.
        is_causal: aligned bottom-right: query i sees keys up to i + sk - sq.
        window_size_left: query i sees keys from i + SK - SQ - window_size_left; -1: from the first.
        window_size_right: up to i + SK - SQ + window_size_right; -1: to the last.
        deterministic: any value: each gradient is added up in one order, without atomics.
        dq: [B, SQ, HQ, D] of the type of q, written: the gradient of q; made when None.
        dk: [B, SK, HK, D] of the type of k, written: the gradient of k; made when None.
        dv: [B, SK, HK, DV] of the type of v, written: the gradient of v; made when None.
        dbias: only None is supported.
        bias: only None is supported.
        alibi_slopes: only None is supported.
        rng_state: [2] int64, seed and offset of the forward pass; not read without dropout.
        gen: only None is supported.
        sink: [b, hq] fp32, of each batch and head the score without a value that took part in ``softmax_lse``; it changes no
            other gradient than its own.
        d_sink: [hq] fp32, its gradient is added to what is there; needs sink.

    Returns:
        dq, dk, dv, and ``rowsum(out * dout)`` (fp32 [b, hq, sq]).

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mha_bwd``.
    """
    del deterministic
    refuse_mha_bwd(dbias, bias, alibi_slopes, gen)
    try:
        made = tuple(
            like(tensor) if given is None else given for given, tensor in ((dq, q), (dk, k), (dv, v))
        )
        left, right = window_of(q.shape[1], k.shape[1], is_causal, window_size_left, window_size_right)
        delta = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=element_type(q, "f32"))
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mha_bwd", error) from error
    if dropout_p:
        tensors = (dout, q, k, v, out, softmax_lse, *made, delta)
        lists = (None, None, sink, d_sink)
        _dropout.gradients("mha_bwd", dropout_p, rng_state, tensors, lists, softmax_scale, (left, right))
        return (*made, delta)
    _mha_bwd(dout, q, k, v, out, softmax_lse, *made, sink, d_sink, delta, softmax_scale, left, right)
    return (*made, delta)


@traced
def mha_varlen_bwd(
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
    dq: torch.Tensor | None = None,
    dk: torch.Tensor | None = None,
    dv: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    rng_state: torch.Tensor | None = None,
    gen: torch.Tensor | None = None,
    cu_seqlens_q_padded: torch.Tensor | None = None,
    cu_seqlens_k_padded: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    d_sink: torch.Tensor | None = None,
) -> Any:
    """Compute the gradients of variable-length attention.

    The gradients of ``softmax(q @ k.T * softmax_scale) @ v`` per head, of sequences of different lengths.

    Args:
        dout: [sq, hq, dv], the gradient of ``out``.
        q: [sq, hq, d] bf16 or fp16: the queries of all sequences.
        k: [sk, hk, d], hq a multiple of hk.
        v: [sk, hk, dv]. d and dv are 1 to 256. The last dim of each must be contiguous.
        out: what the forward pass gave.
        softmax_lse: [hq, sq] fp32, the log-sum-exp (natural log) of its scaled scores, and of the sink where there is one.
        cu_seqlens_q: [n + 1] int32: sequence i has the queries from cu_seqlens_q[i] to cu_seqlens_q[i + 1]; it begins with 0 and
            ends with sq.
        cu_seqlens_k: the same for keys. A sequence may have none, of either.
        max_seqlen_q: no sequence has more queries.
        max_seqlen_k: no sequence has more keys; a left window of so many is none, a right one where no sequence has more queries.
        dropout_p: that of the forward pass.
        softmax_scale: what scores are multiplied with.
        zero_tensors: any value: keys that meet no query, and queries that meet no key, have gradients of 0 either way.
        is_causal: aligned bottom-right: of n queries and m keys query i sees keys up to i + m - n.
        window_size_left: of n queries and m keys query i sees keys from i + m - n - window_size_left; -1: from the first.
        window_size_right: up to i + m - n + window_size_right; -1: to the last.
        deterministic: any value: each gradient is added up in one order, without atomics.
        dq: [SQ, HQ, D] of the type of q, written: the gradient of q; made when None.
        dk: [SK, HK, D] of the type of k, written: the gradient of k; made when None.
        dv: [SK, HK, DV] of the type of v, written: the gradient of v; made when None.
        alibi_slopes: only None is supported.
        rng_state: [2] int64, seed and offset of the forward pass; not read without dropout.
        gen: only None is supported.
        cu_seqlens_q_padded: only None is supported.
        cu_seqlens_k_padded: only None is supported.
        sink: [n, hq] fp32, of each sequence and head the score without a value that took part in ``softmax_lse``; it changes no
            other gradient than its own.
        d_sink: [hq] fp32, its gradient is added to what is there; needs sink.

    Returns:
        dq, dk, dv, and ``rowsum(out * dout)`` (fp32 [hq, sq]).

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mha_varlen_bwd``.
    """
    del zero_tensors, deterministic
    refuse_mha_varlen_bwd(alibi_slopes, gen, cu_seqlens_q_padded, cu_seqlens_k_padded)
    try:
        made = tuple(
            like(tensor) if given is None else given for given, tensor in ((dq, q), (dk, k), (dv, v))
        )
        left, right = window_of(max_seqlen_q, max_seqlen_k, is_causal, window_size_left, window_size_right)
        delta = q.new_empty((q.shape[1], q.shape[0]), dtype=element_type(q, "f32"))
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mha_varlen_bwd", error) from error
    if dropout_p:
        rows = (dout, q, k, v, out, softmax_lse, *made, delta)
        tensors = tuple(_dropout.one_batch(each) for each in rows)
        lists, most = (cu_seqlens_q, cu_seqlens_k, sink, d_sink), (max_seqlen_q, max_seqlen_k)
        bounds = (left, right)
        _dropout.gradients(
            "mha_varlen_bwd", dropout_p, rng_state, tensors, lists, softmax_scale, bounds, most
        )
        return (*made, delta)
    _mha_varlen_bwd(
        dout, q, k, v, out, softmax_lse, cu_seqlens_q, cu_seqlens_k, *made, sink, d_sink, delta, max_seqlen_q, max_seqlen_k,
        softmax_scale, left, right,
    )  # fmt: skip
    return (*made, delta)
