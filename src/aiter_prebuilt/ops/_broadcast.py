"""Two tensors whose shapes broadcast, as the three dims that a kernel takes.

A repeated dim has size 1 there. Neighbouring dims that lie behind one another in both tensors are one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from aiter_prebuilt.errors import ArgumentShapeError, UnsupportedError
from aiter_prebuilt.ops._common import element_type

#: Dims that a kernel takes.
RANK: Final = 3
#: By the numbers that the kernel of operands of two types has for them.
OPERATIONS: Final = ("add", "sub", "mul", "div")


class Layout(NamedTuple):
    """Sizes and strides."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def placing(
    function: str, one: Layout, two: Layout, in_place: bool
) -> tuple[tuple[Any, ...], tuple[Layout, ...]]:
    """Compute a result's shape and the native call's layouts.

    They are those of the operands, and of the result, unless the first operand is written.

    Raises:
        ArgumentShapeError: they do not broadcast, or to more than is written.
        UnsupportedError: more than three dims remain.
    """
    shape = shape_of(function, one.sizes, two.sizes)
    if not in_place:
        return shape, merged(function, shape, 2, one, two, dense(shape))
    if shape == one.sizes:
        return shape, merged(function, shape, 0, one, two)
    raise ArgumentShapeError(
        f"{function}",
        f"input is {list(one.sizes)}, and must have the shape of the result, {list(shape)}",
        f"Call {function[:-1]}, which allocates the result",
    )


#: The same layouts come again and again, and to merge dims takes longer than all the rest of a call. Not for a trace, whose
#: sizes may be symbols.
remembered: Final = lru_cache(maxsize=4096)(placing)


def views(
    function: str,
    input: Any,
    other: Any,
    in_place: bool,
    place: Callable[..., Any] = placing,
    kind: str | None = None,
) -> tuple[Any, list[Any]]:
    """Allocate the result, and view the native call's tensors.

    The result is new (of ``kind``, or of the type of ``input``) unless it is ``input``. Views have three dims each.

    Raises:
        ArgumentShapeError, UnsupportedError: as :func:`placing`.
    """
    shape, layouts = place(function, layout_of(input), layout_of(other), in_place)
    if kind is None:
        out = input if in_place else input.new_empty(shape)
    else:
        out = input.new_empty(shape, dtype=element_type(input, kind))
    given = (input, other) if in_place else (input, other, out)
    return out, [placed(each, layout) for each, layout in zip(given, layouts, strict=True)]


def mixed(input: Any, other: Any) -> bool:
    """Are these tensors of two types? What is none is no such pair: the call says what is wrong with it."""
    one, two = getattr(input, "dtype", None), getattr(other, "dtype", None)
    return one is not None and two is not None and bool(one != two)


def shape_of(function: str, first: Sequence[Any], second: Sequence[Any]) -> tuple[Any, ...]:
    """Return the shape that two shapes broadcast to.

    Raises:
        ArgumentShapeError: they do not.
    """
    rank = max(len(first), len(second))
    one, two = padded(first, rank), padded(second, rank)
    if any(a != b and a != 1 and b != 1 for a, b in zip(one, two, strict=True)):
        raise ArgumentShapeError(
            f"{function}",
            f"input and other must broadcast, got {list(first)} and {list(second)}",
            "",
        )
    return tuple(b if a == 1 else a for a, b in zip(one, two, strict=True))


def padded(sizes: Sequence[Any], rank: int) -> tuple[Any, ...]:
    """``sizes`` behind ones."""
    return (1,) * (rank - len(sizes)) + tuple(sizes)


def layout_of(tensor: Any) -> Layout:
    """Return the layout of a tensor, torch's or without a framework."""
    if isinstance(tensor, tuple):
        return Layout(tensor[2], tensor[3])
    return Layout(tuple(tensor.shape), tuple(tensor.stride()))


def dense(shape: Sequence[Any]) -> Layout:
    """Return the layout of a tensor in C order."""
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * max(size, 1)
    return Layout(tuple(shape), tuple(reversed(strides)))


def placed(tensor: Any, layout: Layout) -> Any:
    """``tensor`` in the layout that :func:`merged` found for it."""
    if isinstance(tensor, tuple):
        address, kind, _, _, device = tensor
        return (address, kind, layout.sizes, layout.strides, device)
    if tensor.numel() != math.prod(layout.sizes):  # it is expanded: one of each repeated dim will do
        places = zip(tensor.shape, tensor.stride(), strict=True)
        tensor = tensor[tuple(slice(0, 1) if size > 1 and not step else slice(None) for size, step in places)]
    return tensor.view(layout.sizes)


def merged(function: str, shape: Sequence[int], written: int, *given: Layout) -> tuple[Layout, ...]:
    """Each of ``given``, which broadcast to ``shape``, in as few dims as hold all of them, and in three. The one that is
    ``written`` keeps its sizes where it is repeated, so that the call is refused.

    Raises:
        UnsupportedError: more than three remain.
    """
    steps = [
        tuple(
            0 if size == 1 else step if size else max(step, 1)
            for size, step in zip(*_behind(each, len(shape)), strict=True)
        )
        for each in given
    ]
    sizes: list[int] = []
    kept: list[tuple[int, ...]] = []
    for size, *step in zip(shape, *steps, strict=True):
        if size == 1:
            continue
        if kept and all(outer == inner * size for outer, inner in zip(kept[-1], step, strict=True)):
            sizes[-1] *= size
            kept[-1] = tuple(step)
        else:
            sizes.append(size)
            kept.append(tuple(step))
    missing = RANK - len(sizes)
    if missing < 0:
        raise _too_many(function, len(sizes))
    full = padded(sizes, RANK)
    found = []
    for number in range(len(given)):
        strides = (*[0] * missing, *(step[number] for step in kept))
        own = tuple(
            size if step or number == written else 1 for size, step in zip(full, strides, strict=True)
        )
        found.append(Layout(own, strides))
    return tuple(found)


def _too_many(function: str, dims: int) -> UnsupportedError:
    return UnsupportedError(
        f"{function}(input, other) in {dims} dims",
        "the kernel takes three: dims that lie behind one another in both tensors, or are repeated, count as one",
        "pass contiguous tensors, or expand one of them first",
    )


def _behind(layout: Layout, rank: int) -> Layout:
    """``layout`` with as many dims, the new ones of size 1."""
    missing = rank - len(layout.sizes)
    return Layout((1,) * missing + layout.sizes, (0,) * missing + layout.strides)
