"""Matrix products of AITER's assembly, which write a tensor that the caller made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import is_type, splits
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_gemm_a16w16_asm = operator("gemm_a16w16_asm")
_gemm_a16w16_shuffled = operator("gemm_a16w16_shuffled")
_gemm_a16w16 = operator("gemm_a16w16")
_gemm_a16w16_fp32 = operator("gemm_a16w16_fp32")
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
    """Multiply bf16 matrices into fp32.

    ``out = A @ B.T + bias``, bf16 in, accumulated in fp32 on the matrix cores; ``out`` is returned.

    Args:
        A: [m, k] bf16.
        B: [n, k] bf16.
        out: [m, n] fp32 or bf16, written. All contiguous, A and B at multiples of 4 bytes. AITER's objects take k and n of
            multiples of 64, fp32 for out and no bias; kernels of ours take the rest.
        bias: [n] bf16, or None.
        splitK: parts of k, each added to ``out``; chosen from the shape when None, 1 with a kernelName of the pinned tree.
            Kernels of ours choose for themselves.
        kernelName: symbol of AITER's object to take; chosen from the shape when None. Objects for bf16, a bias or a shuffled
            B are those of August 2026, which a bundle has that was built with this edition; out at a
            multiple of 4 bytes.
        bpreshuffle: B is in the layout of ``shuffle_weight`` (16, 16); k is a multiple of 32, n of 16, and all are at multiples
            of 16 bytes.

    Returns:
        ``out``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``gemm_a16w16_asm``.
    """
    parts = splits("gemm_a16w16_asm", splitK)
    kind = getattr(out, "dtype", None)
    if bpreshuffle:
        _gemm_a16w16_shuffled(A, B, out, bias, parts, kernelName or "")
    elif kernelName or (bias is None and not is_type(kind, "bf16")):
        _gemm_a16w16_asm(A, B, out, bias, parts, kernelName)
    elif is_type(kind, "bf16"):
        _gemm_a16w16(A, B, bias, out)
    else:
        _gemm_a16w16_fp32(A, B, bias, out)
    return out


@traced
def mi350_a8w8_blockscale_asm(
    XQ: torch.Tensor,
    WQ: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    out: torch.Tensor,
) -> torch.Tensor:
    """Multiply block-scaled fp8 matrices, the weight shuffled.

    ``XQ @ W.T`` of fp8, each 128 columns of K scaled, accumulated in fp32 on the matrix cores; ``out`` is returned.

    On gfx950, with m at least 16, k at least 512 and n a multiple of 256, by AITER's objects, which lack waits and a barrier
    before they write their result: hsa/findings.toml. Else by kernels of ours.

    Args:
        XQ: [m, k] the target's own fp8, k a multiple of 128.
        WQ: [n, k] fp8, n a multiple of 128, in the layout of ``shuffle_weight`` (16, 16).
        x_scale: [k / 128, m] fp32, per 128 columns of each row.
        w_scale: [n / 128, k / 128] fp32, per 128 x 128.
        out: [m, n] bf16, written. All contiguous.

    Returns:
        ``out``.

    Raises:
        UnsupportedError: a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mi350_a8w8_blockscale_asm``.
    """
    _mi350_a8w8_blockscale_asm(XQ, WQ, x_scale, w_scale, out)
    return out
