"""Gradients of attention, by kernels of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
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
    """The gradients of ``softmax(q @ k.T * softmax_scale) @ v`` per head, with grouped queries, windows and sinks; dense.

    Args:
        dout: [b, sq, hq, dv], the gradient of ``out``. out: what the forward pass gave. softmax_lse: [b, hq, sq] fp32, the
            log-sum-exp (natural log) of its scaled scores, and of the sink where there is one.
        q: [b, sq, hq, d] bf16 or fp16. k: [b, sk, hk, d], hq a multiple of hk. v: [b, sk, hk, dv]. d and dv are 1 to 256. The
            last dim of each must be contiguous.
        softmax_scale: what scores are multiplied with. is_causal: aligned bottom-right: query i sees keys up to i + sk - sq.
        window_size_left, window_size_right: query i sees keys from i + sk - sq - left to i + sk - sq + right; -1 is no bound.
        dq, dk, dv: as q, k, v, written; made when None.
        sink: [b, hq] fp32, of each batch and head the score without a value that took part in ``softmax_lse``; it changes no
            other gradient than its own. d_sink: [hq] fp32, its gradient is added to what is there; needs sink.
        deterministic: any value: each gradient is added up in one order, without atomics.
        dropout_p, dbias, bias, alibi_slopes, gen: no dropout, no bias. rng_state: any, there is no dropout.

    Returns:
        dq, dk, dv, and ``rowsum(out * dout)`` (fp32 [b, hq, sq]).

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``mha_bwd``.
    """
    del deterministic, rng_state
    refuse_mha_bwd(dropout_p, dbias, bias, alibi_slopes, gen)
    try:
        made = tuple(
            like(tensor) if given is None else given for given, tensor in ((dq, q), (dk, k), (dv, v))
        )
        left, right = window_of(q.shape[1], k.shape[1], is_causal, window_size_left, window_size_right)
        delta = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=element_type(q, "f32"))
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mha_bwd", error) from error
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
    """The gradients of ``softmax(q @ k.T * softmax_scale) @ v`` per head, of sequences of different lengths.

    Args:
        dout: [sq, hq, dv], the gradient of ``out``. out: what the forward pass gave. softmax_lse: [hq, sq] fp32, the log-sum-exp
            (natural log) of its scaled scores, and of the sink where there is one.
        q: [sq, hq, d] bf16 or fp16: the queries of all sequences. k: [sk, hk, d], hq a multiple of hk. v: [sk, hk, dv]. d and dv
            are 1 to 256. The last dim of each must be contiguous.
        cu_seqlens_q: [n + 1] int32: sequence i has the queries from cu_seqlens_q[i] to cu_seqlens_q[i + 1]; it begins with 0
            and ends with sq. cu_seqlens_k: the same for keys. A sequence may have none, of either.
        max_seqlen_q, max_seqlen_k: no sequence has more queries, more keys.
        softmax_scale: what scores are multiplied with. is_causal: aligned bottom-right: of n queries and m keys query i sees keys
            up to i + m - n.
        window_size_left, window_size_right: it sees keys from i + m - n - left to i + m - n + right; -1 is no bound.
        dq, dk, dv: as q, k, v, written; made when None.
        sink: [n, hq] fp32, of each sequence and head the score without a value that took part in ``softmax_lse``; it changes no
            other gradient than its own. d_sink: [hq] fp32, its gradient is added to what is there; needs sink.
        zero_tensors: any value: keys that meet no query, and queries that meet no key, have gradients of 0 either way.
        deterministic: any value: each gradient is added up in one order, without atomics.
        dropout_p, alibi_slopes, gen, cu_seqlens_q_padded, cu_seqlens_k_padded: no dropout, no bias, no padding. rng_state: any,
            there is no dropout.

    Returns:
        dq, dk, dv, and ``rowsum(out * dout)`` (fp32 [hq, sq]).

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``mha_varlen_bwd``.
    """
    del zero_tensors, deterministic, rng_state
    refuse_mha_varlen_bwd(dropout_p, alibi_slopes, gen, cu_seqlens_q_padded, cu_seqlens_k_padded)
    try:
        made = tuple(
            like(tensor) if given is None else given for given, tensor in ((dq, q), (dk, k), (dv, v))
        )
        left, right = window_of(max_seqlen_q, max_seqlen_k, is_causal, window_size_left, window_size_right)
        delta = q.new_empty((q.shape[1], q.shape[0]), dtype=element_type(q, "f32"))
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("mha_varlen_bwd", error) from error
    _mha_varlen_bwd(
        dout, q, k, v, out, softmax_lse, cu_seqlens_q, cu_seqlens_k, *made, sink, d_sink, delta, max_seqlen_q, max_seqlen_k,
        softmax_scale, left, right,
    )  # fmt: skip
    return (*made, delta)
