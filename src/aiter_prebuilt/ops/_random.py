"""The state of a Philox generator, as operators that draw numbers take it."""

from __future__ import annotations

import sys
from typing import Any, Final

from aiter_prebuilt.errors import ArgumentKindError
from aiter_prebuilt.ops._common import element_type

_WORD: Final = 1 << 64


def pair(function: str, found: Any, said: Any) -> tuple[int, int]:
    """Seed and offset as the operator takes them; ``said``: what the caller passed.

    Raises:
        ArgumentKindError: they are no two integers, or the offset is none of 63 bits.
    """
    if len(found) != 2 or not all(isinstance(number, int) for number in found):
        raise ArgumentKindError(
            f"{function}",
            f"generator must be torch's generator of the device or two integers (seed, offset), got {said!r}",
            "",
        )
    seed, offset = int(found[0]) % _WORD, int(found[1])
    if not 0 <= offset < _WORD // 2:
        raise ArgumentKindError(
            f"{function}",
            f"the offset of generator must be 0 to 2**63 - 1, got {offset}",
            "",
        )
    return seed - _WORD if seed >> 63 else seed, offset


def default(tensor: Any) -> Any:
    """Torch's default generator of the tensor's device.

    Raises:
        ArgumentKindError: there is no torch.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        raise ArgumentKindError(
            "draw numbers",
            "no generator is given, and torch, which has a default one, is not loaded",
            "Pass generator=(seed, offset)",
        )
    place = tensor.device.index
    return torch.cuda.default_generators[torch.cuda.current_device() if place is None else place]


def tokens(probs: Any, rows: Any) -> Any:
    """Allocate a token for each row of ``probs`` or of ``rows``."""
    count = (probs if rows is None else rows).shape[0]
    return probs.new_empty((count,), dtype=element_type(probs, "i32"))
