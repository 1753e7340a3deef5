"""Tensors in MX formats as rows along the axis of their scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiter_prebuilt.ops._common import element_type, is_type


def is_fp8(tensor: Any) -> bool:
    """Are these the numbers of MXFP8, and not bytes with two of fp4?"""
    kind = getattr(tensor, "dtype", None)
    return is_type(kind, "e4m3fn") or is_type(kind, "e5m2")


def wants_fp8(tensor: Any, kind: Any) -> bool:
    """Is ``kind`` that of MXFP8, as ``tensor`` calls its own element types?"""
    known = hasattr(tensor, "dtype")
    return known and any(kind == element_type(tensor, name) for name in ("e4m3fn", "e5m2"))


def of_rows(tensor: Any, axis: int) -> tuple[Any, Callable[[Any], Any]]:
    """View the numbers as a matrix with the axis last.

    The function views a result of as many rows with the dims of ``tensor``.

    Raises:
        ValueError: there is no such axis.
    """
    last = tensor.ndim - 1
    if not -tensor.ndim <= axis <= last:
        raise ValueError(f"axis {axis} of {tensor.ndim} dims")
    if last == 1 and axis in (1, -1):
        return _dense(tensor), _same
    turned = tensor.transpose(axis, last).contiguous()
    shape = turned.shape[:-1]

    def back(out: Any) -> Any:
        return out.reshape(*shape, out.shape[-1]).transpose(axis, last)

    return (turned.flatten(0, -2) if last else turned[None]), back


def _dense(tensor: Any) -> Any:
    """Copy a framework's tensor if its elements are not dense."""
    return tensor.contiguous() if hasattr(tensor, "contiguous") else tensor


def rows(tensor: Any, scale: Any, axis: int) -> tuple[Any, Any, Callable[[Any], Any]]:
    """Codes and scales as matrices, and what turns rows of numbers back to the dims of ``tensor``.

    Raises:
        ValueError: there is no such axis, or not as many dims of both.
    """
    last = tensor.ndim - 1
    if not -tensor.ndim <= axis <= last or scale.ndim != tensor.ndim:
        raise ValueError(f"axis {axis} of {tensor.ndim} dims, and scales of {scale.ndim}")
    if last == 1 and axis in (1, -1):
        return _dense(tensor), _dense(scale), _same
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
