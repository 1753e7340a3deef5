"""Traced forms of functions that launch our own matrix products.

As in ``calls``.
"""

# ruff: noqa: N803  # the names are AITER's

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.ops._common import codes, halvings
from aiter_prebuilt.ops._products import product, turned, weighted
from aiter_prebuilt.tracing.library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant(
    X: Any, WQ: Any, w_scale: Any, bias: Any, dtype: Any, YQ: Any, transpose_bm: bool, transpose_bm_in: bool
) -> Any:
    """Trace ``aiter_prebuilt.batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant``."""
    made = product(X, WQ, dtype, YQ, transpose_bm != transpose_bm_in)
    _OPS.batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant.default(
        turned(X, transpose_bm_in), WQ, w_scale, bias, turned(made, transpose_bm)
    )
    return made


def gemm_a16w8_blockscale(x: Any, w: Any, w_scale: Any, dtype: Any, y: Any, prequant: bool) -> Any:
    """Trace ``aiter_prebuilt.gemm_a16w8_blockscale``."""
    y = product(x, w, dtype, y)
    _OPS.gemm_a16w8_blockscale.default(x, w, w_scale, y, prequant)
    return y


def gemm_afp4wfp4(x: Any, w: Any, x_scales: Any, w_scales: Any, dtype: Any, y: Any) -> Any:
    """Trace ``aiter_prebuilt.gemm_afp4wfp4``."""
    y = product(x, w, dtype, y)
    given = (codes(x, "fp4x2"), codes(w, "fp4x2"), codes(x_scales, "e8m0"), codes(w_scales, "e8m0"))
    _OPS.gemm_afp4wfp4.default(*given, y)
    return y


def gemm_afp4wfp4_preshuffle(
    x_fp4: Any, w_preshuf: Any, x_scales: Any, w_scales: Any, dtype: Any, y: Any
) -> Any:
    """Trace ``aiter_prebuilt.gemm_afp4wfp4_preshuffle``."""
    y = product(x_fp4, w_preshuf, dtype, y, high=16)
    given = (
        codes(x_fp4, "fp4x2"),
        codes(w_preshuf, "fp4x2"),
        codes(x_scales, "e8m0"),
        codes(w_scales, "e8m0"),
    )
    _OPS.gemm_afp4wfp4_preshuffle.default(*given, y)
    return y


def gemm_a16wfp4(x: Any, w: Any, w_scales: Any, dtype: Any, y: Any) -> Any:
    """Trace ``aiter_prebuilt.gemm_a16wfp4``."""
    y = product(x, w, dtype, y)
    _OPS.gemm_a16wfp4.default(x, codes(w, "fp4x2"), codes(w_scales, "e8m0"), y)
    return y


def gemm_afp4wfp4_pre_quant(x: Any, w: Any, w_scales: Any, dtype: Any, y: Any) -> Any:
    """Trace ``aiter_prebuilt.gemm_afp4wfp4_pre_quant``."""
    y = product(x, w, dtype, y)
    _OPS.gemm_afp4wfp4_pre_quant.default(x, codes(w, "fp4x2"), codes(w_scales, "e8m0"), y)
    return y


def gemm_a4w4_asm(
    A: Any,
    B: Any,
    A_scale: Any,
    B_scale: Any,
    out: Any,
    kernelName: str,
    bias: Any,
    beta: float | None,
    bpreshuffle: bool | None,
    log2_k_split: int | None,
) -> Any:
    """Trace ``aiter_prebuilt.gemm_a4w4_asm``."""
    added, factor = weighted(bias, beta)
    parts = halvings("gemm_a4w4_asm", log2_k_split)
    given = (codes(A, "fp4x2"), codes(B, "fp4x2"), codes(A_scale, "e8m0"), codes(B_scale, "e8m0"))
    plain = bpreshuffle is not None and not bpreshuffle
    _OPS.gemm_a4w4_asm.default(*given, out, added, parts, kernelName, not plain, factor)
    return out


def gemm_a4w4(
    A: Any,
    B: Any,
    A_scale: Any,
    B_scale: Any,
    bias: Any,
    dtype: Any,
    beta: float | None,
    bpreshuffle: bool | None,
) -> Any:
    """Trace ``aiter_prebuilt.gemm_a4w4``."""
    added, factor = weighted(bias, beta)
    given = (codes(A, "fp4x2"), codes(B, "fp4x2"), codes(A_scale, "e8m0"), codes(B_scale, "e8m0"))
    plain = bpreshuffle is not None and not bpreshuffle
    return _OPS.gemm_a4w4.default(*given, added, not plain, factor, dtype)


def batched_gemm_a8w8(XQ: Any, WQ: Any, x_scale: Any, w_scale: Any, out: Any) -> Any:
    """Trace ``aiter_prebuilt.batched_gemm_a8w8``."""
    _OPS.batched_gemm_a8w8.default(XQ, WQ, x_scale, w_scale, out)
    return out


def batched_gemm_bf16(XQ: Any, WQ: Any, out: Any) -> Any:
    """Trace ``aiter_prebuilt.batched_gemm_bf16``."""
    _OPS.batched_gemm_bf16.default(XQ, WQ, out)
    return out
