"""What Dynamo traces in place of the hand-written functions of ``ops``, beside the generated ones (``torch_generated``).

Imported by a trace and by nothing else. Options that no kernel covers are refused by the function that the eager one calls.
"""

# ruff: noqa: N803  # the names are AITER's

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from aiter_prebuilt import torch_generated
from aiter_prebuilt.ops._common import scale_of, splits
from aiter_prebuilt.ops.generated.attention import refuse_flash_attn_func
from aiter_prebuilt.ops.generated.attention_asm import refuse_fmha_v3_fwd, refuse_pa_fwd_asm
from aiter_prebuilt.ops.generated.gemm_asm import refuse_gemm_a16w16_asm
from aiter_prebuilt.torch_library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


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
    out = q.new_empty(q.shape)
    lse_shape = (q.shape[0], q.shape[2], q.shape[1])
    lse = q.new_empty(lse_shape, dtype=torch.float32) if return_lse else None
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    _OPS.flash_attn_func.default(q, k, v, out, lse, scale, causal)
    return (out, lse) if return_lse else out


def gemm_a16w16_asm(
    A: Any, B: Any, out: Any, bias: Any = None, splitK: int | None = None, kernelName: str | None = None
) -> Any:
    """Traced ``aiter_prebuilt.gemm_a16w16_asm``."""
    refuse_gemm_a16w16_asm(bias, kernelName)
    _OPS.gemm_a16w16_asm.default(A, B, out, splits("gemm_a16w16_asm", splitK))
    return out


def fmha_v3_fwd(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    return_softmax_lse: bool,
    return_dropout_randval: bool,
    how_v3_bf16_cvt: int,
    out: Any = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    gen: Any = None,
) -> Any:
    """Traced ``aiter_prebuilt.fmha_v3_fwd``."""
    refuse_fmha_v3_fwd(
        dropout_p,
        window_size_left,
        window_size_right,
        return_dropout_randval,
        how_v3_bf16_cvt,
        bias,
        alibi_slopes,
        gen,
    )
    scale_of("fmha_v3_fwd", softmax_scale)
    result = q.new_empty((*q.shape[:3], v.shape[3])) if out is None else out
    lse_shape = (q.shape[0], q.shape[2], q.shape[1])
    lse = q.new_empty(lse_shape, dtype=torch.float32) if return_softmax_lse else None
    _OPS.fmha_v3_fwd.default(q, k, v, result, lse, softmax_scale, is_causal, how_v3_bf16_cvt)
    return result, lse, None, None


def pa_fwd_asm(
    Q: Any,
    K: Any,
    V: Any,
    block_tables: Any,
    context_lens: Any,
    block_tables_stride0: int,
    max_qlen: int = 1,
    K_QScale: Any = None,
    V_QScale: Any = None,
    out_: Any = None,
    qo_indptr: Any = None,
    high_precision: int | None = 1,
    kernelName: str | None = None,
) -> Any:
    """Traced ``aiter_prebuilt.pa_fwd_asm``."""
    del high_precision
    refuse_pa_fwd_asm(max_qlen, K_QScale, V_QScale, qo_indptr, kernelName)
    result = Q.new_empty(Q.shape) if out_ is None else out_
    _OPS.pa_fwd_asm.default(Q, K, V, block_tables, context_lens, result, block_tables_stride0)
    return result


#: What is traced for each public function.
TRACED: Final[dict[str, Callable[..., Any]]] = {
    **torch_generated.TRACED,
    "flash_attn_func": flash_attn_func,
    "fmha_v3_fwd": fmha_v3_fwd,
    "gemm_a16w16_asm": gemm_a16w16_asm,
    "pa_fwd_asm": pa_fwd_asm,
}
