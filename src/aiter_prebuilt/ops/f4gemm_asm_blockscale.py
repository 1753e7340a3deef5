"""Products of MXFP4 matrices by Composable Kernel, which write a tensor that the caller made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import codes
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.f4gemm_asm import refuse_gemm_a4w4_blockscale

if TYPE_CHECKING:
    import torch

_gemm_a4w4_blockscale = operator("gemm_a4w4_blockscale")


@traced
def gemm_a4w4_blockscale(
    XQ: torch.Tensor,
    WQ: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    Out: torch.Tensor,
    splitK: int = 0,
) -> torch.Tensor:
    """``Out = dequant(XQ) @ dequant(WQ).T``, MXFP4 in, accumulated in fp32 on the matrix cores; ``Out`` is returned.

    Args:
        XQ: [m, k / 2] pairs of fp4 (torch's, or bytes: the lower half is the first), k a multiple of 256, 768 and more.
        WQ: [n, k / 2], n a multiple of 128, as ``shuffle_weight(WQ, (16, 16))`` gives it.
        x_scale: [m or more, k / 32] e8m0 (torch's, or bytes), rows a multiple of 32, in the layout of AITER's ``e8m0_shuffle``.
        w_scale: [n or more, k / 32], the same of WQ.
        Out: [m or more, n] bf16 or fp16, written; rows behind those of XQ stay as they are. All contiguous.
        splitK: 0 only: a sum is not split.

    Returns:
        ``Out``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``gemm_a4w4_blockscale``.
    """
    refuse_gemm_a4w4_blockscale(splitK)
    _gemm_a4w4_blockscale(
        codes(XQ, "fp4x2"), codes(WQ, "fp4x2"), codes(x_scale, "e8m0"), codes(w_scale, "e8m0"), Out
    )
    return Out
