"""One view of all layouts of a cache: keys [blocks, heads, tiles, keys, width], values [blocks, heads, tiles, width, keys]."""

from __future__ import annotations

from typing import Any, Final

#: Dims of a view that are new.
_ONE: Final = -1


def keys_of(cache: Any, rows: bool) -> Any:
    """Tiles [blocks, heads, d / x, keys, x] as they are; with ``rows`` [blocks, keys, heads, d]."""
    return _view(cache, (0, 2, _ONE, 1, 3)) if rows and len(cache.shape) == 4 else cache


def values_of(cache: Any, rows: bool) -> Any:
    """Tiles [blocks, heads, keys / x, d, x] as they are; [blocks, heads, d, keys], or with ``rows`` [blocks, keys, heads, d]."""
    if len(cache.shape) != 4:
        return cache
    return _view(cache, (0, 2, 1, 3, _ONE) if rows else (0, 1, _ONE, 2, 3))


def blocks_of(cache: Any) -> Any:
    """[blocks, heads, keys, width] as it is; rows [keys, heads, width] as blocks of one."""
    return _view(cache, (0, 1, _ONE, 2)) if len(cache.shape) == 3 else cache


def _view(cache: Any, order: tuple[int, ...]) -> Any:
    if not isinstance(cache.dtype, str):
        turned = cache.transpose(1, 2) if order[1] == 2 else cache
        return turned.unsqueeze(order.index(_ONE))
    address, kind, shape, strides, device = cache  # it has no framework
    sizes = tuple(1 if dim == _ONE else shape[dim] for dim in order)
    return (address, kind, sizes, tuple(1 if dim == _ONE else strides[dim] for dim in order), device)
