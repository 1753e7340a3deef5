"""The gated delta rule: the scale is computed, the output and the last states are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output
from aiter_prebuilt.ops._delta import gates, results
from aiter_prebuilt.ops._delta_types import beta_of_vectors
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_fused_recurrent_gated_delta_rule = operator("fused_recurrent_gated_delta_rule")
_chunk_gated_delta_rule = operator("chunk_gated_delta_rule")
_fused_gdn_gating_and_sigmoid = operator("fused_gdn_gating_and_sigmoid")


@traced
def fused_recurrent_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor | None = None,
    gk: torch.Tensor | None = None,
    gv: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The gated delta rule, token by token, with a state h [K, V] in fp32 for each head of values.

    ``h = exp(g) * h``, ``u = beta * (v - h.T @ k)``, ``h = h + outer(k, u)``, ``out = h.T @ q * scale``; with gk and gv
    ``h = exp(g) * outer(exp(gk), exp(gv)) * h`` first.

    Args:
        q, k: [batch, tokens, heads, K] bf16 or fp16, K a multiple of 8 and at most 256. Rows begin at multiples of 16 bytes; the
            last dim must be contiguous.
        v: [batch, tokens, value heads, V]; value heads are a multiple of the heads, and each group of them has one of q and k.
        g: [batch, tokens, value heads] fp32, the logarithm of the decay; None is 0.
        gk, gv: [batch, tokens, value heads, K] and [batch, tokens, value heads, V] fp32, logarithms of decays of the rows and of
            the columns of the state, contiguous; None is 0.
        beta: [batch, tokens, value heads], fp32, bf16 or fp16 (made fp32 first with gk, gv, or states in bf16); None is 1. One
            for each column (AITER's form of four dims) is refused.
        scale: of q, K**-0.5 when None.
        initial_state: [sequences, value heads, K, V] fp32 or bf16; None is 0.
        output_final_state: return the states behind the last tokens, too.
        use_qk_l2norm_in_kernel: rows of q and k are over ``sqrt(sum(x**2) + 1e-6)`` first.
        cu_seqlens: [sequences + 1] int64 or int32: where each sequence of a batch of one begins, and where the last ends; None:
            each of the batch is one. Rows of no sequence are not written.

    Returns:
        out [batch, tokens, value heads, V], and the last states [sequences, value heads, K, V] fp32, or None.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER's Triton ``fused_recurrent_gated_delta_rule``; Yang, Kautz, Hatamizadeh, Gated Delta Networks.
    """
    try:
        out, last = results(q, v, cu_seqlens, output_final_state)
        factor = q.shape[3] ** -0.5 if scale is None else scale
        beta = beta_of_vectors(gk, gv, beta, initial_state)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fused_recurrent_gated_delta_rule", error) from error
    tensors = (q, k, v, g, gk, gv, beta, initial_state, cu_seqlens, out, last)
    _fused_recurrent_gated_delta_rule(*tensors, factor, use_qk_l2norm_in_kernel)
    return out, last


@traced
def chunk_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """:func:`fused_recurrent_gated_delta_rule` of whole prompts, 64 tokens at once by matrix products.

    That is where K is 64 or 128, beta fp32, q and k lie at multiples of 16 elements, and sequences have 64 tokens and more on
    average; else it goes from token to token.
    The results are those of single tokens, but for roundings: all is in fp32 here, norms, states and products. What is not finite
    in a token makes its results and those behind it NaN where 64 are taken at once.

    Args:
        q, k, v, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens: as of
            :func:`fused_recurrent_gated_delta_rule`, but states are fp32.
        g: [batch, tokens, value heads] fp32, the logarithm of each token's decay.
        beta: [batch, tokens, value heads], fp32, bf16 or fp16.

    Returns:
        out [batch, tokens, value heads, V], and the last states [sequences, value heads, K, V] fp32, or None.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER's Triton ``chunk_gated_delta_rule``.
    """
    try:
        out, last = results(q, v, cu_seqlens, output_final_state)
        factor = q.shape[3] ** -0.5 if scale is None else scale
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("chunk_gated_delta_rule", error) from error
    tensors = (q, k, v, g, beta, initial_state, cu_seqlens, out, last)
    _chunk_gated_delta_rule(*tensors, factor, use_qk_l2norm_in_kernel)
    return out, last


@traced
def fused_gdn_gating_and_sigmoid(
    A_log: torch.Tensor,  # the name is AITER's
    a: torch.Tensor,
    b: torch.Tensor,
    dt_bias: torch.Tensor,
    softplus_beta: float = 1.0,
    softplus_threshold: float = 20.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gates of the gated delta rule, in fp32: ``-exp(A_log) * softplus(a + dt_bias)`` and ``sigmoid(b)``.

    Args:
        A_log: [value heads] fp32. dt_bias: [value heads] fp32, bf16 or fp16.
        a, b: [tokens, value heads] bf16, fp16 or fp32; both may be parts of one tensor, whose last dim must be contiguous.
        softplus_beta: ``softplus(x) = log(1 + exp(softplus_beta * x)) / softplus_beta``.
        softplus_threshold: where ``softplus_beta * x`` is above it, softplus is x.

    Returns:
        The logarithm of the decay and beta, [tokens, value heads] fp32 both.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_gdn_gating_and_sigmoid``.
    """
    try:
        g, beta = gates(a)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fused_gdn_gating_and_sigmoid", error) from error
    _fused_gdn_gating_and_sigmoid(A_log, a, b, dt_bias, g, beta, softplus_beta, softplus_threshold)
    return g, beta
