"""Options of attention over sequences of different lengths, as the native call has them."""

from __future__ import annotations

from typing import Any

from aiter_prebuilt.ops._common import element_type, integers, refuse, window_of


def as_f32(tensor: Any) -> Any:
    """Convert a tensor to fp32, as AITER does with sinks.

    None and anything else stay.
    """
    return as_type(tensor, "f32")


def as_type(tensor: Any, name: str) -> Any:
    """Convert a tensor to the element type ``name`` ("i32").

    None and anything else stay.
    """
    kind = getattr(tensor, "dtype", None)
    if kind is None or isinstance(kind, str):
        return tensor
    wanted = element_type(tensor, name)
    return tensor if kind is wanted else tensor.to(wanted)


def paged(tensor: Any, place: int = 1) -> Any:
    """[pages, heads, width], pages of one key, as [pages, 1, heads, width]; with ``place`` 0 [keys, heads, width] as one page
    of all; anything else as it is.
    """
    if len(tensor.shape) != 3:
        return tensor
    if not isinstance(tensor.dtype, str):
        return tensor.unsqueeze(place)
    address, kind, shape, strides, device = tensor  # it has no framework
    stride = strides[0] * (1 if place else shape[0])
    sizes, steps = (*shape[:place], 1, *shape[place:]), (*strides[:place], stride, *strides[place:])
    return (address, kind, sizes, steps, device)


def tokens_first(tensor: Any, layout: str) -> Any:
    """Pages [pages, heads, keys, width], layout HND, as [pages, keys, heads, width]; of another layout as it is."""
    if layout != "HND":
        return tensor
    if not isinstance(tensor.dtype, str):
        return tensor.transpose(1, 2)
    address, kind, shape, strides, device = tensor  # it has no framework
    swapped = ((row[0], row[2], row[1], *row[3:]) for row in (shape, strides))
    return (address, kind, *swapped, device)


def prefilled(q: Any, v: Any, out: Any, with_lse: bool) -> tuple[Any, Any]:
    """``out``, or a new one of the type of 16-bit queries, else bf16; with it a new log-sum-exp, or None. v has pages of rows, or
    of groups, [pages, heads, groups, width, keys].
    """
    kinds = (element_type(q, "bf16"), element_type(q, "f16"))
    width = v.shape[-2] if len(v.shape) == 5 else v.shape[-1]
    kind = q.dtype if q.dtype in kinds else kinds[0]
    result = q.new_empty((*q.shape[:2], width), dtype=kind) if out is None else out
    return result, q.new_empty((q.shape[1], q.shape[0]), dtype=element_type(q, "f32")) if with_lse else None


def skipped(q: Any, width: int, window: tuple[int, ...], cap: float, least: int) -> int:
    """Sequences with at most so many queries are left alone: ``least``, but by the assembly that AITER would take."""
    assembly = max(*window[:2], cap) <= 0 and width == 128 and q.shape[2] in (128, 192)
    return 0 if assembly and q.dtype == element_type(q, "bf16") else max(least, 0)


def window(function: str, window_size: Any, queries: int, keys: int, causal: bool) -> tuple[int, int, int]:
    """Keys that a query sees to its left and right, -1: all, and how many of the first ones whatever the left.

    Raises:
        UnsupportedError: no pair of numbers, with or without a third.
    """
    found = integers(window_size)
    if found is None or len(found) not in (2, 3):
        raise refuse(function, "window_size", window_size, "(left, right) or (left, right, first)")
    left, right = window_of(queries, keys, causal, found[0], found[1])
    return left, right, max(found[2], 0) if len(found) == 3 else 0


def left_of(function: str, window_size: Any) -> int:
    """Keys that a query sees to its left, -1: all.

    Raises:
        UnsupportedError: no pair of numbers.
    """
    found = integers(window_size)
    if found is None or len(found) != 2:
        raise refuse(function, "window_size", window_size, "(left, right)")
    return max(found[0], -1)
