"""Torch reference of the 16-bit matrix product."""

from __future__ import annotations

import torch


def gemm_a16w16(
    A: torch.Tensor,
    B: torch.Tensor,
    bias: torch.Tensor | None = None,
    otype: torch.dtype | None = None,
) -> torch.Tensor:
    """A [..., K] @ B [N, K]^T + bias [N] in `otype` (default: A's type), in float64 and rounded once.

    A kernel that accumulates in fp32 differs by the rounding of its sum: at most about K * 2^-24 * (|A| @ |B|^T) before
    the rounding to the output type.
    """
    out = A.double() @ B.double().transpose(-1, -2)
    if bias is not None:
        out = out + bias.double()
    return out.to(otype or A.dtype)
