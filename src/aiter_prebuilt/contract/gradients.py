"""Which functions have a gradient of torch's."""

from __future__ import annotations

from typing import Final

#: Public functions that torch differentiates: their backward is other operators, which torch's engine calls.
DIFFERENTIABLE: Final = ("flash_attn_func", "flash_attn_varlen_func")
