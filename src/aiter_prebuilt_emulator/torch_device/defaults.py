"""``torch.set_default_device("cuda")``: torch's own mode for it lies below ours, and would ask torch for CUDA."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _device

from aiter_prebuilt_emulator.torch_device import memory, streams

_SET: Final[Any] = torch.set_default_device
_GET: Final[Any] = torch.get_default_device


def set_default_device(device: Any) -> None:
    """Set this thread's default device, as torch does."""
    ordinal = None if device is None else streams.gpu_of(device)
    _SET(None if ordinal is not None else device)
    memory.STATE.default = None if ordinal is None else torch.device(device)


def get_default_device() -> torch.device:
    """Return the default device.

    That of ``with torch.device(...)``, else the one that was set.
    """
    default = memory.STATE.default
    within = any(isinstance(mode, _device.DeviceContext) for mode in _get_current_function_mode_stack())
    if within or default is None:
        found: torch.device = _GET()
        return found
    return torch.device("cuda", streams.index_of(default))


def install() -> None:
    """In the place of torch's."""
    kind: Any = torch
    kind.set_default_device = set_default_device
    kind.get_default_device = get_default_device
