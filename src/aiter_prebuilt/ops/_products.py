"""Prepare arguments of matrix products, eager and traced."""

from __future__ import annotations

from typing import Any

from aiter_prebuilt.ops._common import element_type


def turned(tensor: Any, asked: bool) -> Any:
    """With ``asked`` a view of the tensor whose first two dims are exchanged."""
    if not asked:
        return tensor
    if not isinstance(tensor.dtype, str):
        return tensor.transpose(0, 1)
    address, kind, shape, strides, device = tensor  # it has no framework
    swapped = [(values[1], values[0], *values[2:]) for values in (shape, strides)]
    return (address, kind, *swapped, device)


def product(rows: Any, weight: Any, dtype: Any, made: Any, swapped: bool = False, high: int = 1) -> Any:
    """``made``, or a new [.., rows, rows of the weight] of ``dtype``, bf16 when None; ``swapped``: its two dims exchanged.

    ``high``: rows of the product in each row of the weight.
    """
    if made is not None:
        return made
    kind = element_type(rows, "bf16") if dtype is None else dtype
    leading = rows.shape[:-1]
    return rows.new_empty((*(leading[::-1] if swapped else leading), weight.shape[-2] * high), dtype=kind)


def weighted(bias: Any, beta: float | None) -> tuple[Any, float]:
    """Return the bias and its factor where they count.

    As the native calls of ``gemm_a4w4`` have them.
    """
    factor = 0.0 if beta is None or bias is None else float(beta)
    return (bias if factor else None), factor
