"""Structs that a kernel takes by value, whose fields a recipe passes one by one.

A code object says of such an argument where it lies and how long it is, and nothing of its fields. They are those of C: each at a
multiple of its own size, the whole as long as a multiple of the largest. Or they are packed, one behind the other, as FlyDSL
passes a tensor's sizes and strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

#: Offset and size in bytes.
Place = tuple[int, int]


def fields_of(whole: Place, passed: Sequence[Place]) -> tuple[Place, ...]:
    """Select the passed fields that fill a struct, in order.

    None when they leave more than padding, or it is no struct (one argument of its size is the argument).
    """
    start, size = whole
    fields = tuple(sorted(place for place in passed if start <= place[0] < start + size))
    if len(fields) < 2:
        return ()
    sizes, offsets = [size for _, size in fields], [at - start for at, _ in fields]
    return fields if (offsets, size) in (laid_out(sizes), packed(sizes)) else ()


def laid_out(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Lay out fields as C does: their offsets and the length.

    Each size is a power of two.
    """
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end + -end % size)
        end = offsets[-1] + size
    return offsets, end + -end % max(sizes)


def packed(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Lay out fields without padding: their offsets and the length."""
    ends = list(accumulate(sizes, initial=0))
    return ends[:-1], ends[-1]
