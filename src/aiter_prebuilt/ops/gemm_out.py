"""Matrix products of AITER's assembly, which write a tensor that the caller made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._common import splits
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.gemm_out import refuse_gemm_a16w16_asm

if TYPE_CHECKING:
    import torch

_gemm_a16w16_asm = operator("gemm_a16w16_asm")


@traced
def gemm_a16w16_asm(
    A: torch.Tensor,
    B: torch.Tensor,
    out: torch.Tensor,
    bias: torch.Tensor | None = None,
    splitK: int | None = None,
    kernelName: str | None = None,
) -> torch.Tensor:
    """``out = A @ B.T``, bf16 in, fp32 out, accumulated in fp32 on the matrix cores; ``out`` is returned.

    Args:
        A: [m, k] bf16, k a multiple of 64. B: [n, k] bf16, n a multiple of 64. out: [m, n] fp32, written. All contiguous.
        splitK: parts of k, each added to ``out`` (which is zeroed first); chosen from the shape when None.
        bias, kernelName: None only.

    Returns:
        ``out``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``gemm_a16w16_asm``.
    """
    refuse_gemm_a16w16_asm(bias, kernelName)
    _gemm_a16w16_asm(A, B, out, splits("gemm_a16w16_asm", splitK))
    return out
