"""Torch references of the quantisation operators whose kernels are Triton.

The float32 steps are those of the kernels, so codes and scales can be compared exactly.
"""

from __future__ import annotations

import torch

QMAX = {torch.int8: 127.0, torch.float8_e4m3fnuz: 240.0, torch.float8_e4m3fn: 448.0}
SMALLEST_SCALE = 2.0**-126


def smoothquant_fwd(
    input: torch.Tensor,
    x_scale: torch.Tensor,
    *,
    out_dtype: torch.dtype = torch.int8,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(codes [M, N] of out_dtype, y_scale f32 [M, 1]): y = input * x_scale, y_scale = amax(|y|) / qmax, codes = y / y_scale.

    input [M, N] bf16 or f16, x_scale f32 [N]. Codes are rounded to nearest even and saturate at +-qmax. A row of zeros gets
    y_scale 1, as AITER's `pertoken_quant` has it; other scales are at least the smallest normal float32, so that the reciprocal
    by which y is multiplied is finite.
    """
    qmax = QMAX[out_dtype]
    y = input.float() * x_scale.float()
    amax = y.abs().amax(dim=-1, keepdim=True) if y.shape[-1] else y.new_zeros(y.shape[0], 1)
    scale = torch.where(amax > 0.0, (amax / qmax).clamp(min=SMALLEST_SCALE), torch.ones_like(amax))
    codes = (y * (1.0 / scale)).clamp(-qmax, qmax)
    if out_dtype is torch.int8:
        codes = codes.round()
    return codes.to(out_dtype), scale
