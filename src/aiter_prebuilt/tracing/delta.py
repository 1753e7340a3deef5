"""Traces of the functions in ``ops`` of causal convolutions and of the gated delta rule; see ``calls``."""

# ruff: noqa: N803  # the names are AITER's

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from aiter_prebuilt.ops._common import codes, like
from aiter_prebuilt.ops._delta import (
    as_it_lies,
    channels_of_tokens,
    gates,
    longest,
    results,
    rows_of_slots,
    with_silu,
)
from aiter_prebuilt.ops._delta_types import beta_of_vectors, l2norm_input
from aiter_prebuilt.tracing.library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def causal_conv1d_fn(
    x: Any, weight: Any, bias: Any, conv_states: Any, query_start_loc: Any, seq_lens_cpu: Sequence[int] | None,
    cache_indices: Any, has_initial_state: Any, activation: str | bool | None, pad_slot_id: int, out: Any,
) -> Any:  # fmt: skip
    """Trace ``aiter_prebuilt.causal_conv1d_fn``."""
    out = as_it_lies(x) if out is None else out
    tensors = (
        x,
        weight,
        bias,
        conv_states,
        query_start_loc,
        cache_indices,
        codes(has_initial_state, "bool"),
        out,
    )
    _OPS.causal_conv1d_fn.default(
        *tensors, longest(seq_lens_cpu, x.shape[1]), with_silu(activation), pad_slot_id
    )
    return out


def fused_recurrent_gated_delta_rule(
    q: Any, k: Any, v: Any, g: Any, gk: Any, gv: Any, beta: Any, scale: float | None, initial_state: Any,
    output_final_state: bool, use_qk_l2norm_in_kernel: bool, cu_seqlens: Any,
) -> Any:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_recurrent_gated_delta_rule``."""
    beta = beta_of_vectors(gk, gv, beta, initial_state)
    out, last = results(q, v, cu_seqlens, output_final_state)
    tensors = (q, k, v, g, gk, gv, beta, initial_state, cu_seqlens, out, last)
    factor = q.shape[3] ** -0.5 if scale is None else scale
    _OPS.fused_recurrent_gated_delta_rule.default(*tensors, factor, use_qk_l2norm_in_kernel)
    return out, last


def chunk_gated_delta_rule(
    q: Any, k: Any, v: Any, g: Any, beta: Any, scale: float | None, initial_state: Any, output_final_state: bool,
    use_qk_l2norm_in_kernel: bool, cu_seqlens: Any,
) -> Any:  # fmt: skip
    """Trace ``aiter_prebuilt.chunk_gated_delta_rule``."""
    out, last = results(q, v, cu_seqlens, output_final_state)
    tensors = (q, k, v, g, beta, initial_state, cu_seqlens, out, last)
    factor = q.shape[3] ** -0.5 if scale is None else scale
    _OPS.chunk_gated_delta_rule.default(*tensors, factor, use_qk_l2norm_in_kernel)
    return out, last


def fused_gdn_gating_and_sigmoid(
    A_log: Any, a: Any, b: Any, dt_bias: Any, softplus_beta: float, softplus_threshold: float
) -> Any:
    """Trace ``aiter_prebuilt.fused_gdn_gating_and_sigmoid``."""
    g, beta = gates(a)
    _OPS.fused_gdn_gating_and_sigmoid.default(
        A_log, a, b, dt_bias, g, beta, softplus_beta, softplus_threshold
    )
    return g, beta


def fused_recurrent_gated_delta_rule_update(
    q: Any, k: Any, v: Any, g: Any, beta: Any, scale: float | None, initial_state: Any, cu_seqlens: Any, ssm_state_indices: Any,
    num_accepted_tokens: Any, use_qk_l2norm_in_kernel: bool, state_layout: str,
) -> Any:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_recurrent_gated_delta_rule_update``."""
    out, slots = like(v), rows_of_slots(ssm_state_indices)
    factor = q.shape[3] ** -0.5 if scale is None else scale
    tensors = (q, k, v, g, beta, initial_state, cu_seqlens, slots, num_accepted_tokens, out)
    options = (factor, use_qk_l2norm_in_kernel, state_layout)
    _OPS.fused_recurrent_gated_delta_rule_update.default(*tensors, *options)
    return out, initial_state


def fused_sigmoid_gating_delta_rule_update(
    A_log: Any, a: Any, dt_bias: Any, softplus_beta: float, softplus_threshold: float, q: Any, k: Any, v: Any, b: Any,
    initial_state_source: Any, initial_state_indices: Any, scale: float | None, use_qk_l2norm_in_kernel: bool, cu_seqlens: Any,
    state_layout: str,
) -> Any:  # fmt: skip
    """Trace ``aiter_prebuilt.fused_sigmoid_gating_delta_rule_update``."""
    out = like(v)
    factor = q.shape[3] ** -0.5 if scale is None else scale
    tensors = (A_log, a, dt_bias, q, k, v, b, initial_state_source, initial_state_indices, cu_seqlens, out)
    options = (softplus_beta, softplus_threshold, factor, use_qk_l2norm_in_kernel, state_layout)
    _OPS.fused_sigmoid_gating_delta_rule_update.default(*tensors, *options)
    return out


def causal_conv1d_update_in_place(
    x: Any, conv_state: Any, weight: Any, bias: Any, activation: str | bool | None, conv_state_indices: Any,
    num_accepted_tokens: Any, intermediate_conv_window: Any, pad_slot_id: int, query_start_loc: Any,
) -> Any:  # fmt: skip
    """Trace ``aiter_prebuilt.causal_conv1d_update_in_place``."""
    seen = channels_of_tokens(x, query_start_loc is not None)
    tensors = (seen, conv_state, weight, bias, conv_state_indices, num_accepted_tokens)
    silu = with_silu(activation, "causal_conv1d_update_in_place")
    options = (intermediate_conv_window, query_start_loc, silu, pad_slot_id)
    _OPS.causal_conv1d_update_in_place.default(*tensors, *options)
    return x


def l2norm_fwd(x: Any, eps: float, output_dtype: Any, need_rstd: bool) -> Any:
    """Trace ``aiter_prebuilt.l2norm_fwd``."""
    given, wanted = l2norm_input(x, output_dtype)
    y, rstd = like(given), x.new_empty(x.shape[:-1], dtype=torch.float32) if need_rstd else None
    _OPS.l2norm_fwd.default(given, y, rstd, eps)
    return (y if wanted is None else y.to(wanted)), rstd
