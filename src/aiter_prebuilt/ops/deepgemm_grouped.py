"""Matrix products of groups of rows, which write a tensor that the caller made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_deepgemm = operator("deepgemm")


@traced
def deepgemm(
    XQ: torch.Tensor,
    WQ: torch.Tensor,
    Y: torch.Tensor,
    group_layout: torch.Tensor,
    x_scale: torch.Tensor | None = None,
    w_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """``Y[g] = (XQ[g] @ WQ[g].T) * x_scale[g] * w_scale[g].T`` of each group's valid rows.

    Accumulated in fp32 on the matrix cores.

    Args:
        XQ: [g, m, k] bf16, fp16, or the target's own fp8; k a multiple of 32. One that is not dense is copied first.
        WQ: [g, n, k] of the same type, each group's in the layout of ``shuffle_weight`` (16, 16); n a multiple of 16.
        Y: [g, m, n] of the type of XQ, with fp8 bf16 or fp16, written; rows behind the valid ones stay as they are.
        group_layout: [g] int32, valid rows of each group, from 0 to m.
        x_scale: one fp32 number for each row of XQ, w_scale: one for each row of WQ, in any shape: both with fp8, else None.

    Returns:
        ``Y``.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``deepgemm``.
    """
    _deepgemm(XQ, WQ, Y, group_layout, x_scale, w_scale)
    return Y
