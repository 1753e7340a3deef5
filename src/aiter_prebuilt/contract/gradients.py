"""Which functions have a gradient, and which read a tensor that requires one as if it did not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_WAYS: Final = ("", "2c_", "cached_", "cached_2c_", "thd_", "2d_")
_POSITIONS: Final = ("positions_", "positions_offsets_", "positions_2c_", "positions_offsets_2c_")

#: Operators of which AITER's functions take such tensors and return some without: the backward is another function, called by
#: hand.
WITHOUT_GRADIENT: Final = frozenset(
    {f"rope_{each}{way}_impl" for each in _WAYS for way in ("fwd", "bwd")}
    | {f"rope_cached_{each}fwd_impl" for each in _POSITIONS}
)

#: Public functions that torch differentiates, by the module of ``ops`` that has them with their backward.
DIFFERENTIABLE: Final[Mapping[str, str]] = {
    "flash_attn_func": "attention_autograd",
    "flash_attn_varlen_func": "attention_autograd",
}
