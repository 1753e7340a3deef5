"""Torch references of the quantisation operators whose kernels are HIP.

The float32 steps are those of the kernels, so quantised bytes and scales can be compared exactly.
"""

from __future__ import annotations

import torch

QMAX = {torch.int8: 127.0, torch.float8_e4m3fnuz: 240.0, torch.float8_e4m3fn: 448.0}
_MIN_NORMAL = 2.0**-126


def quantise(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float32 values, already scaled, to `dtype`: nearest even, saturating at +-QMAX; fp8 keeps NaN, int8 makes it 0."""
    qmax = QMAX[dtype]
    if dtype is torch.int8:
        return x.nan_to_num(nan=0.0).round().clamp(-qmax, qmax).to(torch.int8)
    return x.clamp(-qmax, qmax).to(dtype)


def dynamic_per_token_scaled_quant(
    input: torch.Tensor,
    scale_ub: torch.Tensor | None = None,
    *,
    out_dtype: torch.dtype = torch.int8,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantised rows and their scales: scale = amax(|row|) / qmax, q = row / scale.

    input [..., N] bf16 or f16; scale_ub f32[1] caps amax; returns (q [..., N] of out_dtype, scales f32 [..., 1]).
    NaN is left out of amax. A row of zeros (or a cap of 0) gets scale 1, as AITER's `pertoken_quant` has it; other scales
    are at least the smallest normal float32, so that 1 / scale is finite.
    """
    x = input.float()
    absolute = x.abs().nan_to_num(nan=0.0, posinf=float("inf"))
    amax = absolute.amax(dim=-1, keepdim=True) if x.shape[-1] else x.new_zeros(*x.shape[:-1], 1)
    if scale_ub is not None:
        amax = torch.minimum(amax, scale_ub.to(torch.float32))
    per_unit = torch.tensor(1.0 / QMAX[out_dtype], dtype=torch.float32)
    scale = torch.where(amax > 0.0, (amax * per_unit).clamp(min=_MIN_NORMAL), torch.ones_like(amax))
    return quantise(x * (1.0 / scale), out_dtype), scale
