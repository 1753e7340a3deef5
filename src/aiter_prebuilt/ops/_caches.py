"""One view of all layouts of a cache: keys [blocks, heads, tiles, keys, width], values [blocks, heads, tiles, width, keys]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aiter_prebuilt._native import Operator

#: Dims of a view that are new.
_ONE: Final = -1
_KEY_ROWS: Final = (0, 2, _ONE, 1, 3)
_VALUE_ROWS: Final = (0, 2, 1, 3, _ONE)
_VALUE_COLUMNS: Final = (0, 1, _ONE, 2, 3)
_FOUR: Final = 4


def viewing(operator: Operator, keys: int, values: int, rows: bool) -> Operator:
    """``operator``, which sees its caches of keys and values, by their places, as :func:`keys_of` and :func:`values_of` do."""
    columns = ("order", values, _FOUR, _VALUE_ROWS if rows else _VALUE_COLUMNS)
    return operator.viewing((("order", keys, _FOUR, _KEY_ROWS), columns) if rows else (columns,))


def keys_of(cache: Any, rows: bool) -> Any:
    """Tiles [blocks, heads, d / x, keys, x] as they are; with ``rows`` [blocks, keys, heads, d]."""
    return _view(cache, _KEY_ROWS) if rows and len(cache.shape) == 4 else cache


def values_of(cache: Any, rows: bool) -> Any:
    """Tiles [blocks, heads, keys / x, d, x] as they are; [blocks, heads, d, keys], or with ``rows`` [blocks, keys, heads, d]."""
    if len(cache.shape) != 4:
        return cache
    return _view(cache, _VALUE_ROWS if rows else _VALUE_COLUMNS)


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
