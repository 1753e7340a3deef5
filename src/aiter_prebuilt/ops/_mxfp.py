"""Tensors in MX formats as rows along the axis of their scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiter_prebuilt.ops._common import is_type


def is_fp8(tensor: Any) -> bool:
    """Are these the numbers of MXFP8, and not bytes with two of fp4?"""
    kind = getattr(tensor, "dtype", None)
    return is_type(kind, "e4m3fn") or is_type(kind, "e5m2")


def rows(tensor: Any, scale: Any, axis: int) -> tuple[Any, Any, Callable[[Any], Any]]:
    """Codes and scales as matrices, and what turns rows of numbers back to the dims of ``tensor``.

    Raises:
        ValueError: there is no such axis, or not as many dims of both.
    """
    last = tensor.ndim - 1
    if not -tensor.ndim <= axis <= last or scale.ndim != tensor.ndim:
        raise ValueError(f"axis {axis} of {tensor.ndim} dims, and scales of {scale.ndim}")
    if last == 1 and axis in (1, -1):
        return tensor, scale, _same
    codes, scales = tensor.transpose(axis, last).contiguous(), scale.transpose(axis, last).contiguous()
    shape = codes.shape[:-1]

    def back(out: Any) -> Any:
        return out.reshape(*shape, out.shape[-1]).transpose(axis, last).contiguous()

    return (
        codes.flatten(0, -2) if last else codes[None],
        scales.flatten(0, -2) if last else scales[None],
        back,
    )


def _same(out: Any) -> Any:
    return out
