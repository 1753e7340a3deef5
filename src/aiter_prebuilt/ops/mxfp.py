"""Numbers in MX formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, no_output
from aiter_prebuilt.ops._mxfp import is_fp8, rows
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_upcast_from_mxfp = operator("upcast_from_mxfp")
_upcast_from_mxfp8 = operator("upcast_from_mxfp8")


@traced
def upcast_from_mxfp(
    tensor: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype | None, axis: int
) -> torch.Tensor:
    """Dequantise MXFP4 or MXFP8 to bf16 or fp16.

    Each 32 numbers along an axis are multiplied by 2^(scale - 127).

    Multiplied in fp32 and rounded once: with fp16, AITER's kernel takes scales below 2^-24 for 0 and above 2^15 for infinity.

    Args:
        tensor: bytes, which are pairs of fp4 along the axis, the lower half first, of any dims; or e4m3fn or e5m2: see
            :func:`upcast_from_mxfp8`.
        scale: bytes, of the same dims, along the axis one for each 32 numbers; 0 counts as 0, 255 as NaN.
        dtype: bf16 or fp16; bf16 when None.
        axis: along which the scales lie. What does not lie in memory with this axis last is copied before and after.

    Returns:
        New, contiguous.

    Raises:
        UnsupportedError: a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``upcast_from_mxfp``.
    """
    if is_fp8(tensor):
        return upcast_from_mxfp8(tensor, scale, dtype, axis)
    return _called("upcast_from_mxfp", _upcast_from_mxfp, (tensor, scale, dtype, axis), 2)


@traced
def upcast_from_mxfp8(
    tensor: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype | None, axis: int
) -> torch.Tensor:
    """Dequantise MXFP8 to bf16 or fp16.

    MXFP8 numbers as bf16 or fp16, which ``upcast_from_mxfp`` calls: each 32 along an axis times 2^(scale - 127).

    Args:
        tensor: e4m3fn or e5m2, of any dims.
        scale: bytes, of the same dims, along the axis one for each 32 numbers; 0 counts as 0, 255 as NaN.
        dtype: bf16 or fp16; bf16 when None.
        axis: along which the scales lie. What does not lie in memory with this axis last is copied before and after.

    Returns:
        New, contiguous.

    Raises:
        UnsupportedError: a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``upcast_from_mxfp``.
    """
    return _called("upcast_from_mxfp8", _upcast_from_mxfp8, (tensor, scale, dtype, axis), 1)


def _called(function: str, native: Callable[..., None], call: tuple[Any, ...], each: int) -> torch.Tensor:
    """Call ``native`` and return its result.

    An element of the tensor holds ``each`` numbers.
    """
    tensor, scale, dtype, axis = call
    try:
        given, scales, back = rows(tensor, scale, axis)
        wanted = element_type(given, "bf16") if dtype is None else dtype
        out: Any = given.new_empty((given.shape[0], each * given.shape[1]), dtype=wanted)
    except NOT_A_TENSOR as error:
        raise no_output(function, error) from error
    native(given, scales, out)
    return back(out)
