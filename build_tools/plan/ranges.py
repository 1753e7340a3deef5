"""Find the calls that a measured row decides.

They have its own shape, or a padded size that is looked up as its.

An upstream that measured one size of a dim uses the row for others, too: it looks a call up by its own size, then by one
padded size after the other, and takes the first row that is there. Here the same is worked out when a bundle is built, as ranges.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

#: Sizes that are looked at: a dim of a tensor is less.
TOP: Final = 1 << 31
#: Sizes that are tried one by one where a row must agree with what its kernel does.
MOST: Final = 1 << 16

#: First and last size.
Range = tuple[int, int]


def decided(sizes: Iterable[int], paddings: Sequence[Callable[[int], int]]) -> dict[int, list[Range]]:
    """Measured size -> the sizes that its row decides, sorted; each is one row's, as the look-up has it.

    ``paddings``: size -> the size that it is looked up as, in the order of the look-up; it never falls as the size grows.
    """
    measured = sorted(set(sizes))
    found: dict[int, list[Range]] = {size: [(size, size)] for size in measured}
    taken: list[Range] = [(size, size) for size in measured]
    for padding in paddings:
        new: list[Range] = []
        for size in measured:
            first = _reaches(size, padding)
            last = _reaches(size + 1, padding) - 1
            pieces = list(_without((first, last), taken))
            found[size] += pieces
            new += pieces
        taken = sorted([*taken, *new])
    return {size: joined(ranges) for size, ranges in found.items()}


@lru_cache(maxsize=8192)
def _reaches(size: int, padding: Callable[[int], int]) -> int:
    """Find the first size that is looked up as ``size`` or more.

    Mostly padding adds, so that it is no larger than that.
    """
    end = size if 0 < size < TOP and padding(size) >= size else TOP
    return bisect_left(range(TOP), size, lo=1, hi=max(1, end), key=padding)


def _without(span: Range, taken: Iterable[Range]) -> Iterator[Range]:
    """``span`` without what is ``taken``, which is sorted and apart."""
    first, end = span
    for low, high in taken:
        if first <= high and low <= end:
            if low > first:
                yield first, low - 1
            first = high + 1
    if first <= end:
        yield first, end


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Sorted, neighbours as one."""
    runs: list[Range] = []
    for first, last in sorted(ranges):
        goes_on = bool(runs) and runs[-1][1] + 1 == first
        runs.append((runs.pop()[0] if goes_on else first, last))
    return runs


def where(ranges: Iterable[Range], holds: Callable[[int], bool]) -> list[Range]:
    """Return the sizes in ``ranges`` for which it holds.

    Of a longer range the first :data:`MOST` are tried.
    """
    return joined(
        (size, size)
        for first, last in ranges
        for size in range(first, min(last, first + MOST - 1) + 1)
        if holds(size)
    )
