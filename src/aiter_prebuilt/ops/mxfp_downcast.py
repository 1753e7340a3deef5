"""Numbers as codes of MX formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, no_output, number, refuse
from aiter_prebuilt.ops._mxfp import of_rows, wants_fp8
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.mxfp import refuse_downcast_to_mxfp, refuse_downcast_to_mxfp8

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import Enum

    import torch

_downcast_to_mxfp = operator("downcast_to_mxfp")
_downcast_to_mxfp8 = operator("downcast_to_mxfp8")


@traced
def downcast_to_mxfp(
    src_tensor: torch.Tensor,
    out_quant_type: torch.dtype | None,
    axis: int,
    DEQUANT_SCALE_ROUNDING_MODE: int | Enum = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers as MXFP4 or MXFP8 along an axis: codes, and a power of two for each 32; the last of them may share it with fewer.

    Args:
        src_tensor: bf16, fp16 or fp32 of any dims; of MXFP4 an even number along the axis.
        out_quant_type: uint8, or None: pairs of fp4, the lower half first, rounded to nearest, halfway away from zero; e4m3fn
            and e5m2: see :func:`downcast_to_mxfp8`.
        axis: along which 32 share a scale. What does not lie in memory with this axis last is copied before.
        DEQUANT_SCALE_ROUNDING_MODE: AITER's enumeration or its numbers. Of amax / largest code (6; 448; 57344) ROUND_UP (0) takes
            the power of two that is not less, 2^-126 at least, ROUND_DOWN (1) the one that is not more; codes are cut at the
            largest.

    Returns:
        (codes, scales): new, with the axis in its place and innermost in memory. The byte b of a scale means 2^(b - 127): 0 for
        zeros, 255 where one of them is infinite, or of MXFP4 NaN, whose codes are NaN, of MXFP4 0. Of MXFP8 NaN counts for
        nothing and stays.

    Raises:
        UnsupportedError: another type or way, or a tensor that requires grad. ArgumentError, NoKernelError: the call does not
            fit.

    Source: OCP Microscaling Formats (MX) 1.0; AITER ``downcast_to_mxfp``.
    """
    if wants_fp8(src_tensor, out_quant_type):
        return downcast_to_mxfp8(src_tensor, out_quant_type, axis, DEQUANT_SCALE_ROUNDING_MODE)
    mode = number(DEQUANT_SCALE_ROUNDING_MODE)
    refuse_downcast_to_mxfp(mode)
    return _called("downcast_to_mxfp", _downcast_to_mxfp, (src_tensor, out_quant_type, axis), mode, 2)


@traced
def downcast_to_mxfp8(
    src_tensor: torch.Tensor,
    out_quant_type: torch.dtype | None,
    axis: int,
    DEQUANT_SCALE_ROUNDING_MODE: int | Enum = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers as MXFP8 along an axis, which ``downcast_to_mxfp`` calls: codes, and a power of two for each 32.

    Args:
        src_tensor: bf16, fp16 or fp32 of any dims.
        out_quant_type: OCP's e4m3fn (when None) or e5m2, on gfx942, too; rounded to nearest even.
        axis, DEQUANT_SCALE_ROUNDING_MODE: as of ``downcast_to_mxfp``.

    Returns:
        As ``downcast_to_mxfp``.

    Raises:
        UnsupportedError: another way, or a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: OCP Microscaling Formats (MX) 1.0; AITER ``downcast_to_mxfp``.
    """
    mode = number(DEQUANT_SCALE_ROUNDING_MODE)
    refuse_downcast_to_mxfp8(mode)
    return _called("downcast_to_mxfp8", _downcast_to_mxfp8, (src_tensor, out_quant_type, axis), mode, 1)


def _called(
    function: str, native: Callable[..., None], call: tuple[Any, Any, int], mode: int, each: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The results of ``native``, of which an element of the codes holds ``each`` numbers."""
    tensor, kind, axis = call
    try:
        kinds = [element_type(tensor, name) for name in (("u8",) if each == 2 else ("e4m3fn", "e5m2"))]
        given, back = of_rows(tensor, axis)
        rows, width = given.shape
    except NOT_A_TENSOR as error:
        raise no_output(function, error) from error
    wanted = kinds[0] if kind is None else kind
    if wanted not in kinds:
        raise refuse(function, "out_quant_type", kind, " or ".join(map(str, kinds)))
    out: Any = given.new_empty((rows, width // each), dtype=wanted)
    scale: Any = given.new_empty((rows, -(-width // 32)), dtype=element_type(given, "u8"))
    native(given, out, scale, mode)
    return back(out), back(scale)
