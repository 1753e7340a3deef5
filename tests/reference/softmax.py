"""Torch reference of the row softmax."""

from __future__ import annotations

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    """exp(x - max) / sum over the last dimension of x [M, N] (f32, f16, bf16), in float64 and rounded once to
    x's dtype.

    A kernel in fp32 may differ by about 2^-19 relative for fp32 (a hardware exp2 of a rounded argument), else
    by one unit in the last place. A row of -inf alone, or with NaN or +inf in it, is NaN in every column.
    """
    return torch.softmax(x.double(), dim=-1).to(x.dtype)
