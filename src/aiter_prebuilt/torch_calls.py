"""What Dynamo traces in place of a public function: the same parameters, on to ``torch.ops.aiter_prebuilt``.

Imported by a trace and by nothing else. Options that no kernel covers are refused with the eager function's words; a test
compares the two.
"""

# ruff: noqa: N803  # the names are AITER's

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from aiter_prebuilt.ops._common import refuse
from aiter_prebuilt.torch_library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def rms_norm(input: Any, weight: Any, epsilon: float, use_model_sensitive_rmsnorm: int = 0) -> Any:
    """Traced ``aiter_prebuilt.rms_norm``."""
    if use_model_sensitive_rmsnorm:
        raise refuse("rms_norm", "use_model_sensitive_rmsnorm", use_model_sensitive_rmsnorm, "0")
    return _OPS.rms_norm.default(input, weight, epsilon)


def rmsnorm2d_fwd(input: Any, weight: Any, epsilon: float, use_model_sensitive_rmsnorm: int = 0) -> Any:
    """Traced ``aiter_prebuilt.rmsnorm2d_fwd``."""
    if use_model_sensitive_rmsnorm:
        raise refuse("rmsnorm2d_fwd", "use_model_sensitive_rmsnorm", use_model_sensitive_rmsnorm, "0")
    return _OPS.rmsnorm2d_fwd.default(input, weight, epsilon)


def rmsnorm2d_fwd_with_add(
    out: Any,
    input: Any,
    residual_in: Any,
    residual_out: Any,
    weight: Any,
    epsilon: float,
    gemma_norm: bool = False,
    use_model_sensitive_rmsnorm: int = 0,
) -> None:
    """Traced ``aiter_prebuilt.rmsnorm2d_fwd_with_add``."""
    if use_model_sensitive_rmsnorm:
        raise refuse(
            "rmsnorm2d_fwd_with_add", "use_model_sensitive_rmsnorm", use_model_sensitive_rmsnorm, "0"
        )
    _OPS.rmsnorm2d_fwd_with_add.default(out, input, residual_in, residual_out, weight, epsilon, gemma_norm)


def gemm_a16w16(
    A: Any,
    B: Any,
    bias: Any = None,
    otype: torch.dtype | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    scale_c: Any = None,
) -> Any:
    """Traced ``aiter_prebuilt.gemm_a16w16``."""
    if scale_a is not None or scale_b is not None or scale_c is not None:
        raise refuse("gemm_a16w16", "scale_a, scale_b, scale_c", "...", "None")
    if otype is not None and otype != A.dtype:
        raise refuse("gemm_a16w16", "otype", otype, f"None or {A.dtype}")
    return _OPS.gemm_a16w16.default(A, B, bias)


def gemm_a8w8_bpreshuffle(
    XQ: Any,
    WQ: Any,
    x_scale: Any,
    w_scale: Any,
    bias: Any = None,
    dtype: torch.dtype | None = None,
    check: bool = False,
) -> Any:
    """Traced ``aiter_prebuilt.gemm_a8w8_bpreshuffle``."""
    if bias is not None:
        raise refuse("gemm_a8w8_bpreshuffle", "bias", "...", "None and add it to the result")
    if check:
        raise refuse("gemm_a8w8_bpreshuffle", "check", check, "False")
    return _OPS.gemm_a8w8_bpreshuffle.default(XQ, WQ, x_scale, w_scale, dtype)


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, ...] = (-1, -1, 0),
    bias: Any = None,
    alibi_slopes: Any = None,
    deterministic: bool = True,
    return_lse: bool = False,
    return_attn_probs: bool = False,
    how_v3_bf16_cvt: int = 1,
    cu_seqlens_q: Any = None,
    cu_seqlens_kv: Any = None,
    sink_ptr: Any = None,
    num_splits: int = 0,
) -> Any:
    """Traced ``aiter_prebuilt.flash_attn_func``."""
    del deterministic, how_v3_bf16_cvt
    function = "flash_attn_func"
    if dropout_p:
        raise refuse(function, "dropout_p", dropout_p, "0.0")
    if tuple(window_size[:2]) != (-1, -1) or any(window_size[2:]):
        raise refuse(function, "window_size", window_size, "(-1, -1, 0)")
    if return_attn_probs:
        raise refuse(function, "return_attn_probs", return_attn_probs, "False")
    if num_splits > 1:
        raise refuse(function, "num_splits", num_splits, "0")
    for absent in (bias, alibi_slopes, cu_seqlens_q, cu_seqlens_kv, sink_ptr):
        if absent is not None:
            raise refuse(function, "bias, alibi_slopes, cu_seqlens_q, cu_seqlens_kv, sink_ptr", "...", "None")
    out = q.new_empty(q.shape)
    lse_shape = (q.shape[0], q.shape[2], q.shape[1])
    lse = q.new_empty(lse_shape, dtype=torch.float32) if return_lse else None
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    _OPS.flash_attn_func.default(q, k, v, out, lse, scale, causal)
    return (out, lse) if return_lse else out


def dynamic_per_token_scaled_quant(
    out: Any,
    input: Any,
    scales: Any,
    scale_ub: Any = None,
    shuffle_scale: bool = False,
    num_rows: Any = None,
    num_rows_factor: int = 1,
) -> None:
    """Traced ``aiter_prebuilt.dynamic_per_token_scaled_quant``."""
    _OPS.dynamic_per_token_scaled_quant.default(
        out, input, scales, scale_ub, num_rows, shuffle_scale, num_rows_factor
    )


def reshape_and_cache(
    key: Any,
    value: Any,
    key_cache: Any,
    value_cache: Any,
    slot_mapping: Any,
    kv_cache_dtype: str,
    k_scale: Any = None,
    v_scale: Any = None,
    asm_layout: bool = False,
) -> None:
    """Traced ``aiter_prebuilt.reshape_and_cache``."""
    _OPS.reshape_and_cache.default(
        key, value, key_cache, value_cache, slot_mapping, k_scale, v_scale, kv_cache_dtype, asm_layout
    )


def topk_softmax(
    topk_weights: Any,
    topk_indices: Any,
    token_expert_indices: Any,
    gating_output: Any,
    need_renorm: bool,
    num_shared_experts: int = 0,
    shared_expert_scoring_func: str = "",
) -> None:
    """Traced ``aiter_prebuilt.topk_softmax``."""
    if num_shared_experts:
        raise refuse("topk_softmax", "num_shared_experts", num_shared_experts, "0")
    if shared_expert_scoring_func:
        raise refuse("topk_softmax", "shared_expert_scoring_func", shared_expert_scoring_func, '""')
    _OPS.topk_softmax.default(topk_weights, topk_indices, token_expert_indices, gating_output, need_renorm)


#: What is traced for each function: one of the above, or the operator itself where the parameters are the schema's.
TRACED: Final[dict[str, Callable[..., Any]]] = {
    "rms_norm": rms_norm,
    "rmsnorm2d_fwd": rmsnorm2d_fwd,
    "rmsnorm2d_fwd_with_add": rmsnorm2d_fwd_with_add,
    "gemm_a16w16": gemm_a16w16,
    "gemm_a8w8_bpreshuffle": gemm_a8w8_bpreshuffle,
    "flash_attn_func": flash_attn_func,
    "dynamic_per_token_scaled_quant": dynamic_per_token_scaled_quant,
    "reshape_and_cache": reshape_and_cache,
    "topk_softmax": topk_softmax,
    "silu_and_mul": _OPS.silu_and_mul.default,
    "gelu_and_mul": _OPS.gelu_and_mul.default,
    "gelu_tanh_and_mul": _OPS.gelu_tanh_and_mul.default,
    "swiglu_and_mul": _OPS.swiglu_and_mul.default,
    "smoothquant_fwd": _OPS.smoothquant_fwd.default,
    "softmax": _OPS.softmax.default,
}
