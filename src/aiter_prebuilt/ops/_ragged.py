"""Options of attention over sequences of different lengths, as the native call has them."""

from __future__ import annotations

from typing import Any, Final

from aiter_prebuilt.ops._common import element_type, integers, refuse, window_of

#: Keys of a sequence, where no argument says how many there are at most.
NO_LIMIT: Final = 1 << 31


def as_f32(tensor: Any) -> Any:
    """A tensor of another element type made fp32, as AITER makes sinks; None and anything else as it is."""
    kind = getattr(tensor, "dtype", None)
    if kind is None or isinstance(kind, str):
        return tensor
    wanted = element_type(tensor, "f32")
    return tensor if kind is wanted else tensor.to(wanted)


def paged(tensor: Any) -> Any:
    """[pages, heads, width], pages of one key, as [pages, 1, heads, width]; anything else as it is."""
    if len(tensor.shape) != 3:
        return tensor
    if not isinstance(tensor.dtype, str):
        return tensor.unsqueeze(1)
    address, kind, shape, strides, device = tensor  # it has no framework
    return (address, kind, (shape[0], 1, *shape[1:]), (strides[0], strides[0], *strides[1:]), device)


def skipped(q: Any, width: int, window: tuple[int, int], cap: float, least: int) -> int:
    """Sequences with at most so many queries are left alone: ``least``, but by the assembly that AITER would take."""
    assembly = max(*window, cap) <= 0 and width == 128 and q.shape[2] in (128, 192)
    return 0 if assembly and q.dtype == element_type(q, "bf16") else max(least, 0)


def window(function: str, window_size: Any, queries: int, keys: int, causal: bool) -> tuple[int, int]:
    """Keys that a query sees to its left and right, -1: all.

    Raises:
        UnsupportedError: no pair of numbers, or with keys that all queries see before the window.
    """
    found = integers(window_size)
    if found is None or len(found) not in (2, 3) or found[2:] not in ((), (0,)):
        raise refuse(function, "window_size", window_size, "(left, right) or (left, right, 0)")
    return window_of(queries, keys, causal, found[0], found[1])
