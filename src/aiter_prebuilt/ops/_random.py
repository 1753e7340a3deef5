"""The state of a Philox generator, as operators that draw numbers take it."""

from __future__ import annotations

from typing import Any, Final

from aiter_prebuilt.errors import ArgumentKindError

_WORD: Final = 1 << 64


def pair(function: str, found: Any, said: Any) -> tuple[int, int]:
    """Seed and offset as the operator takes them; ``said``: what the caller passed.

    Raises:
        ArgumentKindError: they are no two integers, or the offset is none of 63 bits.
    """
    if len(found) != 2 or not all(isinstance(number, int) for number in found):
        raise ArgumentKindError(
            f"{function}: argument generator",
            f"it is {said!r}",
            "pass torch's generator of the device, or two integers: (seed, offset)",
        )
    seed, offset = int(found[0]) % _WORD, int(found[1])
    if not 0 <= offset < _WORD // 2:
        raise ArgumentKindError(
            f"{function}: argument generator",
            f"its offset is {offset}",
            "pass an offset from 0 to 2**63 - 1",
        )
    return seed - _WORD if seed >> 63 else seed, offset
