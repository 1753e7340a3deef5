"""Products of MXFP4 matrices by AITER's assembly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, codes, element_type, halvings, no_output, refuse
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.gemm_f4 import refuse_gemm_a4w4, refuse_gemm_a4w4_asm

if TYPE_CHECKING:
    import torch

_gemm_a4w4_asm = operator("gemm_a4w4_asm")
_gemm_a4w4 = operator("gemm_a4w4")


@traced
def gemm_a4w4_asm(
    A: torch.Tensor,
    B: torch.Tensor,
    A_scale: torch.Tensor,
    B_scale: torch.Tensor,
    out: torch.Tensor,
    kernelName: str,
    bias: torch.Tensor | None = None,
    alpha: float | None = 1.0,
    beta: float | None = 0.0,
    bpreshuffle: bool | None = True,
    log2_k_split: int | None = None,
) -> torch.Tensor:
    """``out = dequant(A) @ dequant(B).T``, MXFP4 in, bf16 out, accumulated in fp32 on the matrix cores; ``out`` is returned.

    Args:
        A: [m, k / 2] pairs of fp4 (torch's, or bytes: the lower half is the first), k a multiple of 256.
        B: [n, k / 2], n a multiple of 32, as ``shuffle_weight(B, (16, 16))`` gives it.
        A_scale: [m or more, k / 32] e8m0 (torch's, or bytes), rows a multiple of 32, in the layout of AITER's ``e8m0_shuffle``:
            blocks of 32 rows and 8 columns, (r, c) of a block at place ((c % 4 * 16 + r % 16) * 2 + c // 4) * 2 + r // 16.
        B_scale: [n or more, k / 32], the same of B.
        out: [m or more, n] bf16, written; rows behind those of A stay as they are. All contiguous.
        log2_k_split: 2 to this power parts of k, 0 to 4, each rounded and added to ``out`` (all of which is zeroed first); one
            when None.
        kernelName: symbol of AITER's object to take; chosen from the shape when empty.
        bias, alpha, beta, bpreshuffle: None, 1, 0 and True only.

    Returns:
        ``out``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``gemm_a4w4_asm``.
    """
    refuse_gemm_a4w4_asm(bias, alpha, beta, bpreshuffle)
    parts = halvings("gemm_a4w4_asm", log2_k_split)
    _gemm_a4w4_asm(*_stored(A, B, A_scale, B_scale), out, parts, kernelName)
    return out


@traced
def gemm_a4w4(
    A: torch.Tensor,
    B: torch.Tensor,
    A_scale: torch.Tensor,
    B_scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    dtype: torch.dtype | None = None,
    alpha: float | None = 1.0,
    beta: float | None = 0.0,
    bpreshuffle: bool | None = True,
    apreshuffle: bool | None = False,
    global_A_scale: torch.Tensor | None = None,
    global_B_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """``dequant(A) @ dequant(B).T``, MXFP4 in, bf16 out, with the kernel that AITER measured to be best; K is never split.

    Args:
        A, B, A_scale, B_scale: as :func:`gemm_a4w4_asm`.
        dtype: bfloat16 (None).
        bias, alpha, beta, bpreshuffle, apreshuffle, global_A_scale, global_B_scale: None, 1, 0, True, False, None and None only.

    Returns:
        [m, n].

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad. ArgumentError, NoKernelError: the
            call does not fit.

    Source: AITER ``gemm_a4w4`` of August 2026; the pinned tree's writes a tensor that the caller made.
    """
    refuse_gemm_a4w4(bias, alpha, beta, bpreshuffle, apreshuffle, global_A_scale, global_B_scale)
    try:
        kind = element_type(A, "bf16")
        out = A.new_empty((A.shape[0], B.shape[0]), dtype=kind)
    except NOT_A_TENSOR as error:
        raise no_output("gemm_a4w4", error) from error
    if dtype not in (None, kind):
        raise refuse("gemm_a4w4", "dtype", dtype, "None or torch.bfloat16")
    _gemm_a4w4(*_stored(A, B, A_scale, B_scale), out)
    return out


def _stored(
    A: torch.Tensor, B: torch.Tensor, A_scale: torch.Tensor, B_scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """As the native call takes them: bytes."""
    return codes(A, "fp4x2"), codes(B, "fp4x2"), codes(A_scale, "e8m0"), codes(B_scale, "e8m0")
