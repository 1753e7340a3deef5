"""Names of the functions for which torch records gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Public functions that torch differentiates, by the module of ``tracing`` that has them with their backward.
DIFFERENTIABLE: Final[Mapping[str, str]] = {
    "flash_attn_func": "attention_autograd",
    "flash_attn_varlen_func": "attention_autograd",
}
