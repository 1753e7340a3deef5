"""What the operator functions share: refusing options and allocating outputs, without importing torch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.errors import ArgumentKindError, UnsupportedError

if TYPE_CHECKING:
    import torch

#: What Python raises when an argument is no tensor, or has too few dims.
NOT_A_TENSOR: Final = (AttributeError, IndexError, TypeError, RuntimeError, ZeroDivisionError)


def refuse(function: str, option: str, value: object, covered: str) -> UnsupportedError:
    """The error for an option of AITER's signature that no kernel here covers."""
    return UnsupportedError(
        f"{function}({option}={value!r})",
        "no prebuilt kernel covers it",
        f"use {covered}; `python -m build_tools coverage` lists what is missing",
    )


def no_output(function: str, error: Exception) -> ArgumentKindError:
    """The error for arguments from which the output's shape cannot be taken: not tensors, or of too few dims."""
    return ArgumentKindError(
        f"{function}: allocate its output",
        f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason given'}",
        f"pass torch tensors of the shapes that help(aiter_prebuilt.{function}) names",
    )


def torch_module() -> Any:
    """The torch that is loaded. The caller passed a torch tensor, so there is one: this imports nothing."""
    return sys.modules["torch"]


def torch_dtype(name: str) -> torch.dtype:
    """``torch.float32`` and the like; the name alone where there is no torch: such a tensor takes names."""
    dtype: Any
    try:
        dtype = getattr(sys.modules["torch"], name)
    except KeyError:
        dtype = name
    return dtype  # type: ignore[no-any-return]


def like(tensor: torch.Tensor) -> torch.Tensor:
    """A new contiguous tensor of the same shape, type and device: half the time of ``new_empty(shape)``."""
    torch = sys.modules.get("torch")
    made: Any
    try:
        made = torch.empty_like(tensor, memory_format=torch.contiguous_format)  # type: ignore[union-attr]
    except (AttributeError, TypeError):
        # No torch, or no tensor of torch's: aiter_prebuilt.execute.array has such.
        if not isinstance(getattr(tensor, "dtype", None), str):
            raise
        made = tensor.new_empty(tensor.shape)
    return made  # type: ignore[no-any-return]
