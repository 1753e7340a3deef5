"""Quantisation of activations, one scale per row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_dynamic_per_token_scaled_quant = operator("dynamic_per_token_scaled_quant")
_smoothquant_fwd = operator("smoothquant_fwd")


@traced
def dynamic_per_token_scaled_quant(
    out: torch.Tensor,
    input: torch.Tensor,
    scales: torch.Tensor,
    scale_ub: torch.Tensor | None = None,
    shuffle_scale: bool = False,
    num_rows: torch.Tensor | None = None,
    num_rows_factor: int = 1,
) -> None:
    """``scales = amax(|row|) / qmax``; ``out = input / scales``, rounded to nearest even and saturated.

    Args:
        out: [..., N] int8 (qmax 127) or the target's own e4m3 (240 on gfx942, 448 on gfx950), written.
        input: [..., N] bf16 or fp16; rows may be strided.
        scales: fp32 [..., 1], written. scale_ub: fp32 [1], an upper bound of amax.
        shuffle_scale: not covered (NoKernelError). num_rows: int32 [1] on the device; only ``num_rows * num_rows_factor``
            rows are done.

    Raises:
        ArgumentError: types (the other target's fp8 too), shapes, strides or device do not fit. NoKernelError.

    Source: AITER ``dynamic_per_token_scaled_quant``.
    """
    _dynamic_per_token_scaled_quant(out, input, scales, scale_ub, num_rows, shuffle_scale, num_rows_factor)


@traced
def smoothquant_fwd(
    out: torch.Tensor, input: torch.Tensor, x_scale: torch.Tensor, y_scale: torch.Tensor
) -> None:
    """``v = input * x_scale``; ``y_scale = amax(|v|) / qmax``; ``out = v / y_scale``, rounded to nearest even and saturated.

    Args:
        out: [..., N] int8 (qmax 127) or the target's own e4m3 (240 on gfx942, 448 on gfx950), written.
        input: [..., N] bf16 or fp16. x_scale: fp32 [N], per column. y_scale: fp32 [..., 1], written.

    Raises:
        ArgumentError: types, shapes, strides or device do not fit. NoKernelError: no candidate fits.

    Source: Xiao et al., SmoothQuant; AITER ``smoothquant_fwd``.
    """
    _smoothquant_fwd(out, input, x_scale, y_scale)
