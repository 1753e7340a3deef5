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
_mi350_a8w8_blockscale_asm = operator("mi350_a8w8_blockscale_asm")


@traced
def gemm_a16w16_asm(
    A: torch.Tensor,
    B: torch.Tensor,
    out: torch.Tensor,
    bias: torch.Tensor | None = None,
    splitK: int | None = None,
    kernelName: str | None = None,
    bpreshuffle: bool = False,
) -> torch.Tensor:
    """``out = A @ B.T``, bf16 in, fp32 out, accumulated in fp32 on the matrix cores; ``out`` is returned.

    Args:
        A: [m, k] bf16, k a multiple of 64. B: [n, k] bf16, n a multiple of 64. out: [m, n] fp32, written. All contiguous, A and
            B at multiples of 4 bytes.
        splitK: parts of k, each added to ``out`` (which is zeroed first); chosen from the shape when None, 1 with a kernelName.
        kernelName: symbol of AITER's object to take; chosen from the shape when None.
        bias, bpreshuffle: None and False only.

    Returns:
        ``out``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``gemm_a16w16_asm``.
    """
    refuse_gemm_a16w16_asm(bias, bpreshuffle)
    _gemm_a16w16_asm(A, B, out, splits("gemm_a16w16_asm", splitK), kernelName)
    return out


@traced
def mi350_a8w8_blockscale_asm(
    XQ: torch.Tensor,
    WQ: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    out: torch.Tensor,
) -> torch.Tensor:
    """``XQ @ W.T`` of fp8, each 128 columns of K scaled, accumulated in fp32 on the matrix cores; ``out`` is returned.

    On gfx950, with m at least 16, k at least 512 and n a multiple of 256, by AITER's objects, which lack waits and a barrier
    before they write their result: hsa/findings.toml. Else by kernels of ours.

    Args:
        XQ: [m, k] the target's own fp8, k a multiple of 128. WQ: [n, k] fp8, n a multiple of 128, in the layout of
            ``shuffle_weight`` (16, 16).
        x_scale: [k / 128, m] fp32, per 128 columns of each row. w_scale: [n / 128, k / 128] fp32, per 128 x 128.
        out: [m, n] bf16, written. All contiguous.

    Returns:
        ``out``.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mi350_a8w8_blockscale_asm``.
    """
    _mi350_a8w8_blockscale_asm(XQ, WQ, x_scale, w_scale, out)
    return out
