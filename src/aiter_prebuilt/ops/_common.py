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


def torch_module() -> Any:
    """torch itself. The caller passed a torch tensor, so it is loaded already: this imports nothing."""
    return sys.modules["torch"]


def torch_dtype(name: str) -> torch.dtype:
    """``torch.float32`` and the like."""
    dtype: Any = getattr(torch_module(), name)
    return dtype  # type: ignore[no-any-return]
