"""Rows over their length, as the gated delta rule has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, element_type, like, no_output
from aiter_prebuilt.ops._delta_types import l2norm_input
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_l2norm_fwd = operator("l2norm_fwd")


@traced
def l2norm_fwd(
    x: torch.Tensor,
    eps: float = 1e-06,
    output_dtype: torch.dtype | None = None,
    need_rstd: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Normalise rows by their L2 norm, in fp32.

    ``y = x / sqrt(sum(x**2) + eps)`` of rows, in fp32, rounded once.

    Args:
        x: [..., N] bf16, fp16 or fp32; rows may be strided, the last dim must be contiguous.
        eps: added to the sum of squares.
        output_dtype: bf16, fp16 or fp32; that of x when None. With another one x is made fp32 first, and its result that type.
        need_rstd: return ``1 / sqrt(sum(x**2) + eps)`` of each row, too.

    Returns:
        (y, factors): new, [..., N], and [...] fp32 or None.

    Raises:
        UnsupportedError: another type, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``l2norm_fwd``.
    """
    given, wanted = l2norm_input(x, output_dtype)
    try:
        y: Any = like(given)
        rstd: Any = x.new_empty(x.shape[:-1], dtype=element_type(x, "f32")) if need_rstd else None
    except NOT_A_TENSOR as error:
        raise no_output("l2norm_fwd", error) from error
    _l2norm_fwd(given, y, rstd, eps)
    return (y if wanted is None else y.to(wanted)), rstd
