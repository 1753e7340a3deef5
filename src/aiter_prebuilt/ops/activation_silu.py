"""AITER's ``fused_silu_mul`` of its Triton activations: a function around ``silu_and_mul``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.activation import silu_and_mul

if TYPE_CHECKING:
    import torch


@traced
def fused_silu_mul(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Multiply one half by SiLU of the other.

    ``silu(x[..., :d]) * x[..., d:]``, computed in fp32 and rounded once.

    Args:
        x: [..., 2 * d] bf16 or fp16; rows may be apart, where AITER's must not be.
        out: [..., d] of the same type, written; made when None.

    Returns:
        out.

    Raises:
        UnsupportedError: a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``fused_silu_mul``.
    """
    try:
        made = x.new_empty((*x.shape[:-1], x.shape[-1] // 2)) if out is None else out
    except NOT_A_TENSOR as error:
        raise no_output("fused_silu_mul", error) from error
    silu_and_mul(made, x)
    return made
