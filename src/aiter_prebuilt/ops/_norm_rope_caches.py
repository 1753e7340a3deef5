"""Caches of ``rope_cache_norm.py`` in the shapes that its operators take."""

from __future__ import annotations

from math import prod
from typing import Any

from aiter_prebuilt.ops._common import refuse
from aiter_prebuilt.ops._mla import shaped

#: Dims of a cache of tiles.
TILES = 5
#: Positions of a token: time, height, width.
_POSITIONS = 3


def rank(cache: Any) -> int:
    """Count the dims of a tensor, or of one that is named by its address."""
    return len(_shape(cache))


def _shape(cache: Any) -> tuple[int, ...]:
    return tuple(cache[2] if isinstance(cache, tuple) else cache.shape)


def cache_of(cache: Any, head: tuple[int, int], layout: tuple[int, int], *, keys: bool) -> Any:
    """A cache in a shape that the operator takes, the same memory; ``layout``: keys of a page, width of a tile, or 0 for rows.

    Raises:
        ArgumentStrideError: only a copy would have that shape.
    """
    heads, size = head
    page, width = layout
    shape = _shape(cache)
    if len(shape) == TILES or (not width and shape[1:] == (page, heads, size)):
        return cache
    if width and heads * size * page * width > 0:
        tiles = (size // width, page) if keys else (page // width, size)
        wanted: tuple[int, ...] = (heads, *tiles, width)
    else:
        wanted = (page, heads, size)
    blocks = shape[0] if prod(shape[1:]) == prod(wanted) else prod(shape) // max(prod(wanted), 1)
    return split(cache, (blocks, *wanted))


def sections_of(function: str, sections: Any) -> tuple[Any, Any, Any]:
    """The numbers of pairs of each position.

    Raises:
        UnsupportedError: there are not three.
    """
    if len(sections) != _POSITIONS:
        raise refuse(function, "mrope_section_", sections, "[time, height, width]")
    time, height, width = sections
    return time, height, width


def split(cache: Any, shape: tuple[int, ...]) -> Any:
    """``cache`` in another shape, the same memory: the dims inside a block as contiguous ones, blocks as far apart as they are.

    Raises:
        ArgumentStrideError: only a copy would have that shape.
    """
    found = _shape(cache)
    if len(found) > 1 and found[0] == shape[0] and isinstance(cache, tuple):
        address, kind, _, strides, device = cache
        inner = shaped((address, kind, found[1:], strides[1:], device), shape[1:])
        return (address, kind, shape, (strides[0], *inner[3]), device)
    if prod(found) > prod(shape) and not isinstance(
        cache, tuple
    ):  # keys behind the last whole block are not reached
        cache = shaped(cache, (prod(found),))[: prod(shape)]
    return shaped(cache, shape)


def codes_in(out: Any, cache: Any) -> Any:
    """The first half of the bytes of a tensor of 16 bits as the codes of an 8-bit cache; anything else as it is."""
    if isinstance(out, tuple):
        address, kind, shape, strides, device = out
        return (
            (address, cache[1], shape, strides, device)
            if cache[1].startswith("e4m3") and "16" in kind
            else out
        )
    if out.dtype.itemsize != 2 or cache.dtype.itemsize != 1 or not out.is_contiguous():
        return out
    return out.view(-1).view(cache.dtype)[: out.numel()].view(out.shape)
