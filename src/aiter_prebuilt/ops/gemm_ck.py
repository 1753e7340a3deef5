"""Products of many pairs of matrices, which write a tensor that the caller made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.gemm_ck import refuse_batched_gemm_a8w8, refuse_batched_gemm_bf16

if TYPE_CHECKING:
    import torch

_batched_gemm_a8w8 = operator("batched_gemm_a8w8")
_batched_gemm_bf16 = operator("batched_gemm_bf16")


@traced
def batched_gemm_a8w8(
    XQ: torch.Tensor,
    WQ: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    out: torch.Tensor,
    bias: torch.Tensor | None = None,
    splitK: int = 0,
) -> torch.Tensor:
    """``out[b] = (XQ[b] @ WQ[b].T) * x_scale[b] * w_scale[b]`` for each b, accumulated in int32; ``out`` is returned.

    Args:
        XQ: [l, m, k] int8, k a multiple of 16 and larger than 256. WQ: [l, n, k] int8, n a multiple of 4.
        x_scale: [l, m, 1] fp32. w_scale: [l, 1, n] fp32.
        out: [l, m, n] bf16 or fp16, written. A tensor that is not dense is copied.
        bias: None only (AITER takes one and does not add it).
        splitK: any value; AITER splits nothing.

    Returns:
        ``out``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``batched_gemm_a8w8``.
    """
    del splitK
    refuse_batched_gemm_a8w8(bias)
    _batched_gemm_a8w8(XQ, WQ, x_scale, w_scale, out)
    return out


@traced
def batched_gemm_bf16(
    XQ: torch.Tensor,
    WQ: torch.Tensor,
    out: torch.Tensor,
    bias: torch.Tensor | None = None,
    splitK: int = 0,
) -> torch.Tensor:
    """``out[b] = XQ[b] @ WQ[b].T`` for each b, accumulated in fp32 on the matrix cores; ``out`` is returned.

    Args:
        XQ: [l, m, k] bf16, k a multiple of 8 and larger than 128. WQ: [l, n, k] bf16, n a multiple of 4.
        out: [l, m, n] bf16, written. A tensor that is not dense is copied.
        bias: None only (AITER takes one and does not add it).
        splitK: any value; AITER splits nothing.

    Returns:
        ``out``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``batched_gemm_bf16``.
    """
    del splitK
    refuse_batched_gemm_bf16(bias)
    _batched_gemm_bf16(XQ, WQ, out)
    return out
