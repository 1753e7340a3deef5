"""Numbers in MX formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, no_output
from aiter_prebuilt.ops._mxfp import rows
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_upcast_from_mxfp = operator("upcast_from_mxfp")


@traced
def upcast_from_mxfp(
    tensor: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype | None, axis: int
) -> torch.Tensor:
    """MXFP4 numbers as bf16 or fp16: each 32 along an axis times 2^(scale - 127).

    Multiplied in fp32 and rounded once: with fp16, AITER's kernel takes scales below 2^-24 for 0 and above 2^15 for infinity.

    Args:
        tensor: bytes, which are pairs of fp4 along the axis, the lower half first, of any dims. AITER takes MXFP8, too.
        scale: bytes, of the same dims, along the axis one for each 32 numbers; 0 counts as 0, 255 as infinity.
        dtype: bf16 or fp16; bf16 when None.
        axis: along which the scales lie. What does not lie in memory with this axis last is copied before and after.

    Returns:
        New, contiguous.

    Raises:
        UnsupportedError: a tensor that requires grad. ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``upcast_from_mxfp``.
    """
    try:
        given, scales, back = rows(tensor, scale, axis)
        wanted = element_type(given, "bf16") if dtype is None else dtype
        out: Any = given.new_empty((given.shape[0], 2 * given.shape[1]), dtype=wanted)
    except NOT_A_TENSOR as error:
        raise no_output("upcast_from_mxfp", error) from error
    _upcast_from_mxfp(given, scales, out)
    return back(out)  # type: ignore[no-any-return]
