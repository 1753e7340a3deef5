"""Row softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.ops._common import NOT_A_TENSOR, like, no_output
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_softmax = operator("softmax")


@traced
def softmax(x: torch.Tensor) -> torch.Tensor:
    """``exp(x - max) / sum(exp(x - max))`` over the last dim, computed in fp32.

    Args:
        x: [M, N] fp32, bf16 or fp16; rows may be strided.

    Returns:
        A new contiguous tensor like ``x``.

    Raises:
        ArgumentError: type, strides or device do not fit. NoKernelError: no candidate fits.

    Source: AITER's Triton ``softmax``.
    """
    try:
        out = like(x)
    except NOT_A_TENSOR as error:
        raise no_output("softmax", error) from error
    _softmax(x, out)
    return out
