"""Codes of groups of a row, with a scale each: the native call sees a row of groups where the caller has one of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops.generated.quant import dynamic_per_token_scaled_quant

if TYPE_CHECKING:
    import torch

    from aiter_prebuilt._native import Operator

_quant = operator("dynamic_per_token_scaled_quant")
#: By the numbers of a group. The input is its tensor 1.
_IN_GROUPS: Final[dict[int, Operator]] = {
    size: _quant.viewing((("split", 1, size),)) for size in (32, 64, 128)
}


def quantise_groups(
    codes: torch.Tensor, x: Any, scales: torch.Tensor, size: int, transposed: bool, num_rows: torch.Tensor | None,
    factor: int,
) -> None:  # fmt: skip
    """Fill ``codes`` and ``scales`` from ``x``.

    Its rows are whole groups of ``size``: 32, 64 or 128.
    """
    # Groups of strided rows have no one stride: those are copied. Without a framework x is a tuple.
    if isinstance(x, tuple) or x.is_contiguous():
        _IN_GROUPS[size](codes, x, scales, None, num_rows, transposed, factor)
    else:
        dynamic_per_token_scaled_quant(codes, x.reshape(-1, size), scales, None, transposed, num_rows, factor)
