"""Tensors as one call of several ranks sees them: bytes, rows and words, with torch and without a framework."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.ops._rank_blocks import kind_of


def nbytes(tensor: Any) -> int:
    """Bytes of all elements."""
    kind = BY_NAME.get(kind_of(tensor))
    item: int = tensor.element_size() if kind is None else kind.itemsize
    count: int = prod(tensor.shape)
    return item * count


def dense(tensor: Any) -> bool:
    """Do the elements fill one run of memory, in whatever order of the dims? Without a framework: in the order of the dims."""
    if isinstance(tensor, tuple):
        return _fills(tensor[2], tensor[3], in_order=True)
    return bool(tensor.is_contiguous()) or _fills(tensor.shape, tensor.stride(), in_order=False)


def aligned(tensor: Any) -> bool:
    """Tell whether it begins at a multiple of 16 bytes."""
    address: int = tensor[0] if isinstance(tensor, tuple) else tensor.data_ptr()
    return address % 16 == 0


def packed(tensor: Any) -> Any:
    """Return the tensor with its elements in the order of dims.

    It is copied where memory has another order.
    """
    if isinstance(tensor, tuple) or tensor.is_contiguous():
        return tensor
    return tensor.contiguous()


def _fills(shape: Any, strides: Any, *, in_order: bool) -> bool:
    dims = [(step, size) for step, size in zip(strides, shape, strict=True) if size != 1]
    expected = 1
    for step, size in reversed(dims) if in_order else sorted(dims):
        if step != expected:
            return False
        expected *= size
    return True


def like(tensor: Any) -> Any:
    """Allocate a tensor with the same order in memory."""
    if isinstance(tensor, tuple):
        return tensor.new_empty(tensor.shape)  # type: ignore[attr-defined]  # an array without a framework is a tuple, too
    import torch

    return torch.empty_like(tensor)


def flat(tensor: Any) -> Any:
    """All elements of a dense tensor in the order of memory."""
    if isinstance(tensor, tuple):
        return as_rows(tensor, (prod(tensor[2]),))
    return tensor.as_strided((tensor.numel(),), (1,)) if dense(tensor) else tensor


def as_rows(tensor: Any, shape: tuple[int, ...]) -> Any:
    """View a contiguous tensor in another shape."""
    if isinstance(tensor, tuple):
        return (tensor[0], tensor[1], shape, None, tensor[4])
    return tensor.view(shape)


def first_columns(tensor: Any, shape: tuple[int, int]) -> Any:
    """So many rows of a contiguous tensor, which has as many, and the first of its columns."""
    rows, width = shape
    if isinstance(tensor, tuple):
        return (tensor[0], tensor[1], shape, (tensor[2][-1], 1), tensor[4])
    return tensor.view(rows, tensor.shape[-1])[:, :width]


def as_words(tensor: Any, shape: tuple[int, ...]) -> Any:
    """View a contiguous tensor as words of four bytes."""
    if isinstance(tensor, tuple):
        return (tensor[0], "i32", shape, None, tensor[4])
    import torch

    return tensor.view(-1).view(torch.int32).view(shape)


def parts(tensor: Any, elements: int) -> Iterator[Any]:
    """Yield parts of a flat tensor, the last one shorter."""
    if not isinstance(tensor, tuple):
        yield from tensor.split(elements)
        return
    address, kind, (count,), _, place = tensor
    item = BY_NAME[kind].itemsize
    for first in range(0, count, elements):
        yield (address + first * item, kind, (min(elements, count - first),), None, place)
