"""The places of a tensor's elements in its allocation.

It works on bytes: no device, and of a type its size alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

#: Unsigned integers of :class:`memoryview`, by size: a stride counts these.
_LETTERS: Final[dict[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Layout:
    """``shape`` elements of ``itemsize`` bytes, ``strides`` elements apart, the first one ``offset`` elements into the memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    itemsize: int

    @property
    def count(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes from the start of the memory to the end of the last element."""
        if not self.count:
            return self.offset * self.itemsize
        last = sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))
        return (self.offset + last + 1) * self.itemsize

    @cached_property
    def _runs(self) -> tuple[list[int], int, int]:
        """(places of the runs' first elements, elements of a run, the stride in it): dims that follow each other are one."""
        merged: list[tuple[int, int]] = []
        for size, step in zip(self.shape, self.strides, strict=True):
            if size == 1:
                continue
            if merged and merged[-1][1] == size * step:
                merged[-1] = (merged[-1][0] * size, step)
            else:
                merged.append((size, step))
        length, stride = merged.pop() if merged else (1, 1)
        starts = [self.offset]
        for size, step in merged:
            starts = [start + i * step for start in starts for i in range(size)]
        return starts, length, stride

    def _slices(self) -> list[slice]:
        starts, length, stride = self._runs
        return [slice(start, start + (length - 1) * stride + 1, stride) for start in starts]

    def _view(self, data: bytes | bytearray) -> memoryview[int]:
        return memoryview(data).cast(_LETTERS[self.itemsize])

    def gather(self, data: bytes) -> bytes:
        """Return the elements alone, dense in the order of ``shape``."""
        if not self.count:
            return b""
        view = self._view(data)
        return b"".join([view[piece].tobytes() for piece in self._slices()])

    def without(self, now: bytes, before: bytes) -> bytes:
        """``now`` with the elements of ``before``: equal to ``before`` when nothing but elements was written."""
        patched = bytearray(now)
        if self.count:
            target, source = self._view(patched), self._view(before)
            for piece in self._slices():
                target[piece] = source[piece]
            target.release()
        return bytes(patched)

    def place(self, position: int) -> list[int]:
        """Return the index of the ``position``-th element."""
        index = []
        for size in reversed(self.shape):
            position, at = divmod(position, size)
            index.append(at)
        return index[::-1]


def changed(now: bytes, before: bytes, mask: bytes | None = None) -> tuple[int, int]:
    """Count the bytes that differ, and find the first.

    The first is 0 when none does. ``mask``: compare only where it holds ones.
    """
    if now == before:
        return 0, 0
    difference = int.from_bytes(now, "little") ^ int.from_bytes(before, "little")
    if mask is not None:
        difference &= int.from_bytes(mask, "little")
    data = difference.to_bytes(len(now), "little")
    count = len(data) - data.count(0)
    return count, (len(data) - len(data.lstrip(b"\0"))) if count else 0
