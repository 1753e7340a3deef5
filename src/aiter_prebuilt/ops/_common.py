"""What the operator functions share: refusing options and allocating outputs, without importing torch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from aiter_prebuilt.errors import UnsupportedError

if TYPE_CHECKING:
    import torch


def refuse(function: str, option: str, value: object, covered: str) -> UnsupportedError:
    """The error for an option of AITER's signature that no kernel here covers."""
    return UnsupportedError(
        f"{function}({option}={value!r})",
        "no prebuilt kernel covers it",
        f"use {covered}; `python -m build_tools coverage` lists what is missing",
    )


def torch_dtype(name: str) -> torch.dtype:
    """``torch.float32`` and the like. The caller passed a torch tensor, so torch is loaded already: this imports nothing."""
    dtype: Any = getattr(sys.modules["torch"], name)
    return dtype  # type: ignore[no-any-return]
