"""Products of MXFP4 matrices by AITER's assembly, and by a kernel of ours for what it does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, codes, halvings, no_output
from aiter_prebuilt.ops._products import product, weighted
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.f4gemm_asm import refuse_gemm_a4w4, refuse_gemm_a4w4_asm

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
    """Multiply MXFP4 matrices into ``out``.

    ``out = dequant(A) @ dequant(B).T + beta * bias``, MXFP4 in, accumulated in fp32 on the matrix cores.

    AITER's assembly serves bf16 of a shuffled B with n a multiple of 32 and k one of 256, where no bias counts (AITER hands its
    objects one, and they do not add it); a kernel of ours the rest.

    Args:
        A: [m, k / 2] pairs of fp4 (torch's, or bytes: the lower half is the first), k a multiple of 64, with a plain B of 32.
        B: [n, k / 2], n a multiple of 16, as ``shuffle_weight(B, (16, 16))`` gives it; with bpreshuffle=False rows, at any n.
        A_scale: [m or more, k / 32 or more] e8m0 (torch's, or bytes), rows a multiple of 32, columns of 8, in the layout of
            AITER's ``e8m0_shuffle``: blocks of 32 rows and 8 columns, (r, c) of a block at place ((c % 4 * 16 + r % 16) * 2 + c
            // 4) * 2 + r // 16.
        B_scale: [n or more, as many], the same of B.
        out: [m or more, n] bf16 or fp16, written; rows behind those of A stay as they are. All contiguous.
        kernelName: symbol of AITER's object to take; chosen from the shape when empty.
        bias: [n] or [1, n] fp32; not read where beta is 0.
        alpha: 1 only (AITER hands its objects one, and they do not use it).
        beta: 0 when None.
        bpreshuffle: True when None.
        log2_k_split: 2 to this power parts of k, 0 to 4, each rounded and added to ``out`` (all of which is zeroed first); one
            when None. The kernel of ours zeroes ``out`` and adds all of k at once.

    Returns:
        ``out``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``gemm_a4w4_asm``.
    """
    refuse_gemm_a4w4_asm(alpha)
    added, factor = weighted(bias, beta)
    parts = halvings("gemm_a4w4_asm", log2_k_split)
    plain = bpreshuffle is not None and not bpreshuffle
    _gemm_a4w4_asm(*_stored(A, B, A_scale, B_scale), out, added, parts, kernelName, not plain, factor)
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
    """Multiply MXFP4 matrices into ``out``.

    As :func:`gemm_a4w4_asm`, with the kernel that AITER measured to be best; K is never split.

    Args:
        A: [..., KB] uint8, pairs of fp4, or bytes, M rows in all; K is a multiple of 64, with a plain B of 32; the assembly takes
            those of 256.
        B: [N, KB] uint8, in the layout of ``shuffle_weight`` (16, 16), N a multiple of 16, the assembly takes those of 32; with
            bpreshuffle=False rows, at any N.
        A_scale: [SA, SK] uint8, e8m0, or bytes, per 32 columns, in the layout of AITER's ``e8m0_shuffle``: whole 32 rows, whole 8
            columns.
        B_scale: [SB, SK] uint8, e8m0, or bytes, of ``B``, in the layout of ``A_scale``.
        bias: N elements, fp32, or None; one fp32 for each column; it is left out where beta is 0.
        dtype: bfloat16 (None) or float16.
        alpha: only 1.0 is supported.
        beta: the factor of ``bias``; 0 leaves it out.
        bpreshuffle: True when None.
        apreshuffle: only False is supported.
        global_A_scale: only None is supported.
        global_B_scale: only None is supported.

    Returns:
        [..., N], with the leading dims of ``A``.

    Raises:
        UnsupportedError: an option that no kernel covers, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``gemm_a4w4`` of August 2026; the pinned tree's writes a tensor that the caller made.
    """
    refuse_gemm_a4w4(alpha, apreshuffle, global_A_scale, global_B_scale)
    added, factor = weighted(bias, beta)
    try:
        rows = A if len(A.shape) == 2 else A.reshape(-1, A.shape[-1])
        out: torch.Tensor = product(rows, B, dtype, None)
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output("gemm_a4w4", error) from error
    plain = bpreshuffle is not None and not bpreshuffle
    _gemm_a4w4(*_stored(rows, B, A_scale, B_scale), added, out, not plain, factor)
    return out if rows is A else out.view(*A.shape[:-1], out.shape[-1])


def _stored(
    A: torch.Tensor, B: torch.Tensor, A_scale: torch.Tensor, B_scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the matrices and scales as bytes, for the native call."""
    return codes(A, "fp4x2"), codes(B, "fp4x2"), codes(A_scale, "e8m0"), codes(B_scale, "e8m0")
