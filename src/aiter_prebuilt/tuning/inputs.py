"""Inputs of a call that is timed: values that neither overflow nor repeat row by row, in several copies.

Lists, lengths, pages and positions are spread evenly, by the rules of ``launch/value_contracts.py``: what a call costs depends on
them. An integer tensor without a rule cannot be filled, and its call is left out.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.records import ROLES
from aiter_prebuilt.execute.layout import Layout
from aiter_prebuilt.execute.values import POISON
from aiter_prebuilt.tuning.spread import integers

if TYPE_CHECKING:
    from aiter_prebuilt.contract.records import Operator
    from aiter_prebuilt.tuning.card import Card

#: Elements of a block of values. A prime: rows of a matrix differ, so that a kernel that takes the wrong row is seen.
_BLOCK: Final = 4093
_USUAL_ALIGN: Final = 256
_LETTERS: Final = {"f16": "e", "f32": "f", "f64": "d"}
_FP8: Final = frozenset(("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"))
#: Bytes of element types whose codes are all values: codes of fp4, of int8, scales between 2**-3 and 1.
_CODES: Final = {"fp4x2": (0, 255), "i8": (0, 255), "u8": (0, 255), "e8m0": (124, 127)}
_SEED: Final = 39
#: Copies of a call's tensors at most, and the share of the device's memory that they may take.
MOST_SETS: Final = 32
_MEMORY_SHARE: Final = 4


class Inputs:
    """Copies of a described call's tensors on a device. The first copy is the one whose results are judged."""

    def __init__(
        self, card: Card, block: Operator, tensors: Sequence[Any], attributes: Sequence[Any]
    ) -> None:
        """Allocate and fill.

        Args:
            card: the device.
            block: the operator's records.
            tensors: as ``describe`` returns them.
            attributes: likewise.

        Raises:
            UnsupportedError: the values of an integer tensor decide the time, and no rule says what they may be.
            DriverError: the device's memory is full.
        """
        self._card, self._block = card, block
        self._sizes = [0 if each is None else _layout(each).nbytes for each in tensors]
        self.bytes = sum(self._sizes)
        wanted = -(-2 * card.cache_bytes // max(1, self.bytes))
        room = card.facts.memory_bytes // _MEMORY_SHARE // max(1, self.bytes)
        #: Do the copies together push each other out of every cache?
        self.rotates = wanted <= min(MOST_SETS, room)
        self._lists = integers(block, tensors, attributes)
        self._held: list[int] = []
        self.sets: list[list[Any]] = []
        for _ in range(max(2, wanted) if self.rotates else 1):
            self.sets.append(
                [self._allocated(each, size) for each, size in zip(tensors, self._sizes, strict=True)]
            )
        #: Overwrites the caches where copies cannot; shared by all candidates.
        self._flush = 0 if self.rotates else self._reserved(2 * card.cache_bytes)
        self.restore()
        for place in range(1, len(self.sets)):
            for first, mine, size in zip(self.sets[0], self.sets[place], self._sizes, strict=True):
                if first is not None:
                    card.copy(mine[0], first[0], size)
        card.synchronize()

    def _allocated(self, tensor: Any, size: int) -> Any:
        if tensor is None:
            return None
        described, kind, shape, strides, _ = tensor
        offset = described % _USUAL_ALIGN
        base = self._reserved(size + offset)
        return base + offset, kind, shape, strides, self._card.device

    def _reserved(self, size: int) -> int:
        self._held.append(self._card.reserve(size))
        return self._held[-1]

    def flush(self) -> None:
        """Queue what pushes the inputs out of the caches, where copies that take turns do not."""
        if self._flush:
            self._card.set(self._flush, 0, 2 * self._card.cache_bytes)

    def restore(self) -> None:
        """Write the first copy anew: inputs hold their values, results NaN or a value that no call writes."""
        made = random.Random(_SEED)  # noqa: S311  # values, no secret
        for place, (spec, tensor) in enumerate(zip(self._block.tensors, self.sets[0], strict=True)):
            if tensor is None:
                continue
            if ROLES[spec.role] == "out":
                data = bytes([POISON[tensor[1]]]) * _BLOCK
            elif place in self._lists:
                data = self._lists[place]
            else:
                data = values(tensor[1], made)
            self._card.repeat(tensor[0], data, self._sizes[place])

    def results(self, most: int) -> list[tuple[str, str, bytes]]:
        """Read the results of the first copy: name, element type, and up to ``most`` bytes of each tensor that is written."""
        found = []
        for spec, tensor, size in zip(self._block.tensors, self.sets[0], self._sizes, strict=True):
            if tensor is not None and ROLES[spec.role] != "in":
                found.append((spec.name, tensor[1], self._card.download(tensor[0], min(size, most))))
        return found

    def close(self) -> None:
        """Free all copies."""
        while self._held:
            self._card.release(self._held.pop())


def _layout(tensor: Any) -> Layout:
    _, kind, shape, strides, _ = tensor
    return Layout(tuple(shape), tuple(strides), 0, dtype.BY_NAME[kind].itemsize)


def values(kind: str, made: random.Random) -> bytes:
    """Return a block of values of an element type: between -1 and 1, and no NaN."""
    numbers = [made.uniform(-1, 1) for _ in range(_BLOCK)]
    if kind in _LETTERS:
        return struct.pack(f"<{_BLOCK}{_LETTERS[kind]}", *numbers)
    if kind == "bf16":
        return b"".join(struct.pack("<f", number)[2:] for number in numbers)
    if kind in _FP8:
        # Codes 0x20 to 0x38 and their negatives: between 2**-5 and about 1 in every flavour.
        return bytes(made.randrange(0x20, 0x38) | made.choice((0, 0x80)) for _ in numbers)
    if kind in _CODES:
        return bytes(made.randint(*_CODES[kind]) for _ in numbers)
    return bytes(_BLOCK * dtype.BY_NAME[kind].itemsize)
