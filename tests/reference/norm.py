"""Torch references of the RMS norms.

`input` is [..., N] bf16 or f16, `weight` [N] of the same type; results have the input's type. The arithmetic is float64 and is
rounded once, so a kernel with fp32 arithmetic differs by at most one unit in the last place of the output type.
"""

from __future__ import annotations

import torch


def rms_norm(
    input: torch.Tensor, weight: torch.Tensor, epsilon: float, gemma_norm: bool = False
) -> torch.Tensor:
    """input / sqrt(mean(input^2) + epsilon) * (weight + 1 if gemma_norm else weight), over the last dimension."""
    x = input.double()
    scale = weight.double() + (1.0 if gemma_norm else 0.0)
    return (x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + epsilon) * scale).to(input.dtype)


def rmsnorm2d_fwd(input: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """`rms_norm` under AITER's second name."""
    return rms_norm(input, weight, epsilon)


def rmsnorm2d_fwd_with_add(
    input: torch.Tensor,
    residual_in: torch.Tensor,
    weight: torch.Tensor,
    epsilon: float,
    gemma_norm: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, residual_out): residual_out = input + residual_in in the input's type, and the norm reads that rounded sum."""
    residual_out = (input.float() + residual_in.float()).to(input.dtype)
    return rms_norm(residual_out, weight, epsilon, gemma_norm), residual_out
