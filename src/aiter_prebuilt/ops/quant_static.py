"""fp8 codes of a scale that is given, newly made: AITER's functions around ``static_per_tensor_quant``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output
from aiter_prebuilt.ops._current import fp8_of
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.quant import static_per_tensor_quant

if TYPE_CHECKING:
    import torch


@traced
def downcast_to_static_fp8(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Quantise to e4m3 with a given scale.

    ``x / scale`` as the device's own e4m3, rounded to nearest even and saturated.

    Args:
        x: [M, N] bf16 or fp16, N a multiple of 4; rows that are not contiguous are copied first.
        scale: one fp32 value.

    Returns:
        codes [M, N], new: torch.float8_e4m3fnuz on gfx942, torch.float8_e4m3fn on gfx950.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as ``static_per_tensor_quant``.

    Source: AITER ``downcast_to_static_fp8``.
    """
    return _downcast("downcast_to_static_fp8", x, scale, 2)


@traced
def downcast_to_static_fp8_3d(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Quantise [E, M, N] to e4m3 with a given scale.

    As :func:`downcast_to_static_fp8`.

    Args:
        x: [E, M, N] bf16 or fp16, N a multiple of 4.
        scale: one fp32 value.

    Returns:
        codes [E, M, N], new.

    Raises:
        UnsupportedError, ArgumentError, NoKernelError: as :func:`downcast_to_static_fp8`.

    Source: AITER ``downcast_to_static_fp8_3d``.
    """
    return _downcast("downcast_to_static_fp8_3d", x, scale, 3)


def _downcast(function: str, x: torch.Tensor, scale: torch.Tensor, dims: int) -> torch.Tensor:
    try:
        if len(x.shape) != dims:
            raise ValueError(f"x has {len(x.shape)} dims instead of {dims}")
        codes = x.new_empty(x.shape, dtype=fp8_of(x))
        rows = x.contiguous()
    except (*NOT_A_TENSOR, KeyError) as error:
        raise no_output(function, error) from error
    static_per_tensor_quant(codes, rows, scale)
    return codes
