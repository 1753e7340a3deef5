"""Decode steps of the gated delta rule: the scale is computed, the output is made, states are read and written in their pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, like, no_output
from aiter_prebuilt.ops._delta import rows_of_slots
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.gated_delta_update import (
    refuse_fused_recurrent_gated_delta_rule_update,
    refuse_fused_sigmoid_gating_delta_rule_update,
)

if TYPE_CHECKING:
    import torch

_fused_recurrent_gated_delta_rule_update = operator("fused_recurrent_gated_delta_rule_update")
_fused_sigmoid_gating_delta_rule_update = operator("fused_sigmoid_gating_delta_rule_update")


@traced
def fused_recurrent_gated_delta_rule_update(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor | None = None,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    inplace_final_state: bool = True,
    cu_seqlens: torch.Tensor | None = None,
    ssm_state_indices: torch.Tensor | None = None,
    num_accepted_tokens: torch.Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    state_layout: str = "hkv",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run a decode step of the gated delta rule.

    As ``fused_recurrent_gated_delta_rule``, in vLLM's form: states are in slots of a pool, which are read and written in place.

    A sequence begins with the state in its first slot, or behind the last of the last step's accepted tokens, and leaves
    the state behind each of its tokens in that token's slot.

    Args:
        q: [B, L, H, K] bf16 or fp16, may be strided, the last dim contiguous; [batch, tokens, heads, K], K a multiple of 8 and at
            most 256; rows begin at multiples of 16 bytes, as those of ``k``.
        k: as ``q``: [batch, tokens, heads, K] bf16 or fp16, rows at multiples of 16 bytes; the last dim must be contiguous.
        v: [batch, tokens, value heads, V]; value heads are a multiple of the heads, and each group of them has one of q and k.
        g: [batch, tokens, value heads] or [tokens, value heads] fp32, the logarithm of the decay.
        beta: of the shape of g, fp32, bf16 or fp16; None is 1.
        scale: of q, K**-0.5 when None.
        initial_state: the pool, [slots, value heads, K, V] fp32, in place; a slot is dense.
        inplace_final_state: True.
        cu_seqlens: [sequences + 1] int64 or int32: where each sequence of a batch of one begins, and where the last ends; None:
            each of the batch is one.
        ssm_state_indices: [sequences] or [sequences, places] int32: the slot of the state behind each token. The last of a row
            keeps the state behind the last token. A sequence whose first slot there is not is skipped: its results are not
            written.
        num_accepted_tokens: [sequences] int32, from 1: the place in its row with which a sequence begins; None: 1.
        use_qk_l2norm_in_kernel: rows of q and k are over ``sqrt(sum(x**2) + 1e-6)`` first.
        state_layout: "hkv": states are [K, V]; "hvk": [V, K], as later vLLM and SGLang have them. vLLM's function has it not.

    Returns:
        out [batch, tokens, value heads, V], and ``initial_state``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: vLLM's ``fused_recurrent_gated_delta_rule``.
    """
    refuse_fused_recurrent_gated_delta_rule_update(
        initial_state, inplace_final_state, ssm_state_indices, state_layout
    )
    try:
        out, factor = like(v), q.shape[3] ** -0.5 if scale is None else scale
        slots = rows_of_slots(ssm_state_indices)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fused_recurrent_gated_delta_rule_update", error) from error
    tensors = (q, k, v, g, beta, initial_state, cu_seqlens, slots, num_accepted_tokens, out)
    _fused_recurrent_gated_delta_rule_update(*tensors, factor, use_qk_l2norm_in_kernel, state_layout)
    return out, initial_state  # None is refused


@traced
def fused_sigmoid_gating_delta_rule_update(
    A_log: torch.Tensor,  # the name is AITER's
    a: torch.Tensor,
    dt_bias: torch.Tensor,
    softplus_beta: float,
    softplus_threshold: float,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    b: torch.Tensor,
    initial_state_source: torch.Tensor,
    initial_state_indices: torch.Tensor,
    scale: float | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: torch.Tensor | None = None,
    state_layout: str = "hkv",
) -> torch.Tensor:
    """Run a gated delta rule decode step with its gates.

    The kernel computes ``g = -exp(A_log) * softplus(a + dt_bias)`` and ``beta = sigmoid(b)``. States are in slots of a pool, in
    place.

    ``g = -exp(A_log) * softplus(a + dt_bias)`` and ``beta = sigmoid(b)``, in fp32, then :func:`fused_recurrent_gated_delta_rule`.

    Args:
        A_log: [value heads] fp32.
        a: [tokens, value heads], or with the batch in front, of the type of q; ``a`` and ``b`` may be parts of one tensor; the
            last dim must be contiguous.
        dt_bias: [value heads] fp32, bf16 or fp16.
        softplus_beta: ``softplus(x) = log(1 + exp(softplus_beta * x)) / softplus_beta``.
        softplus_threshold: where ``softplus_beta * x`` is above it, softplus is x.
        q: [B, L, H, K] bf16 or fp16, may be strided, the last dim contiguous; [batch, tokens, heads, K], K a multiple of 8 and at
            most 256; rows begin at multiples of 16 bytes, as those of ``k``.
        k: as ``q``: [batch, tokens, heads, K] bf16 or fp16, rows at multiples of 16 bytes; the last dim must be contiguous.
        v: [B, L, HV, V] bf16 or fp16, may be strided, the last dim contiguous; [batch, tokens, value heads, V]; the value heads
            are a multiple of the heads.
        b: as ``a``; the last dim must be contiguous.
        initial_state_source: the pool, [slots, value heads, K, V] fp32, in place; a slot is dense. It holds the states behind the
            last tokens afterwards.
        initial_state_indices: [sequences] int32, the slot of each; one that there is not: the sequence begins with zeros, and its
            state is dropped.
        scale: K**-0.5 when None.
        use_qk_l2norm_in_kernel: q and k are over ``sqrt(sum(x**2) + 1e-6)`` of their rows first.
        cu_seqlens: [starts] int64 or int32, or None; where each sequence of a batch of one begins, and where the last ends; None:
            each of the batch is one.
        state_layout: "hkv": states are [K, V]; "hvk": [V, K], as SGLang has them.

    Returns:
        out [batch, tokens, value heads, V].

    Raises:
        UnsupportedError: another layout, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER's Triton ``fused_sigmoid_gating_delta_rule_update``.
    """
    refuse_fused_sigmoid_gating_delta_rule_update(state_layout)
    try:
        out, factor = like(v), q.shape[3] ** -0.5 if scale is None else scale
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("fused_sigmoid_gating_delta_rule_update", error) from error
    tensors = (A_log, a, dt_bias, q, k, v, b, initial_state_source, initial_state_indices, cu_seqlens, out)
    options = (softplus_beta, softplus_threshold, factor, use_qk_l2norm_in_kernel, state_layout)
    _fused_sigmoid_gating_delta_rule_update(*tensors, *options)
    return out
