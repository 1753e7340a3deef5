"""Matrix products; B is always [N, K] and the result ``A @ B.T``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output, refuse, torch_dtype
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_gemm_a16w16 = operator("gemm_a16w16")
_gemm_a8w8_bpreshuffle = operator("gemm_a8w8_bpreshuffle")


@traced
def gemm_a16w16(
    A: torch.Tensor,
    B: torch.Tensor,
    bias: torch.Tensor | None = None,
    otype: torch.dtype | None = None,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    scale_c: torch.Tensor | None = None,
) -> torch.Tensor:
    """``A @ B.T + bias``, accumulated in fp32 on the matrix cores.

    Args:
        A: [..., K] bf16 or fp16; rows may be strided. B: [N, K] of the same type; rows may be strided.
        bias: [N] of the same type, or None. otype: only None or the type of ``A`` is covered.
        scale_a, scale_b, scale_c: only None is covered.

    Returns:
        [..., N] of the type of ``A``, contiguous.

    Raises:
        UnsupportedError: a scale or another type was asked for. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``gemm_a16w16`` (``tuned_gemm``).
    """
    if scale_a is not None or scale_b is not None or scale_c is not None:
        raise refuse("gemm_a16w16", "scale_a, scale_b, scale_c", "...", "None")
    try:
        out = A.new_empty((*A.shape[:-1], B.shape[0]))
    except NOT_A_TENSOR as error:
        raise no_output("gemm_a16w16", error) from error
    if otype is not None and otype != A.dtype:
        raise refuse("gemm_a16w16", "otype", otype, f"None or {A.dtype}")
    _gemm_a16w16(A, B, bias, out)
    return out


@traced
def gemm_a8w8_bpreshuffle(
    XQ: torch.Tensor,
    WQ: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    dtype: torch.dtype | None = None,
    check: bool = False,
) -> torch.Tensor:
    """``(XQ @ unshuffle(WQ).T) * x_scale * w_scale.T``, accumulated in fp32 on the matrix cores.

    Args:
        XQ: [M, K] of the target's own e4m3. WQ: [N, K'] of the same type, K' >= K, in the layout of
            :func:`aiter_prebuilt.shuffle_weight` (16, 16).
        x_scale: fp32 [M, 1], per row of XQ. w_scale: fp32 [N, 1], per row of WQ.
        bias: only None is covered, as in AITER. dtype: bf16 (when None) or fp16. check: AITER's comparison run; only False.

    Returns:
        [M, N] of ``dtype``.

    Raises:
        UnsupportedError: a bias or the check run. ArgumentError (the other target's fp8 too), NoKernelError.

    Source: AITER ``gemm_a8w8_bpreshuffle``.
    """
    if bias is not None:
        raise refuse("gemm_a8w8_bpreshuffle", "bias", "...", "None and add it to the result")
    if check:
        raise refuse("gemm_a8w8_bpreshuffle", "check", check, "False")
    try:
        out = XQ.new_empty((XQ.shape[0], WQ.shape[0]), dtype=dtype or torch_dtype("bfloat16"))
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("gemm_a8w8_bpreshuffle", error) from error
    _gemm_a8w8_bpreshuffle(XQ, WQ, x_scale, w_scale, out)
    return out
