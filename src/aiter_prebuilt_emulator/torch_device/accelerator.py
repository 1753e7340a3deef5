"""The names of ``torch.accelerator``, for the emulator: those of ``torch.cuda`` under torch's device-independent
names, and ``torch.Event``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from aiter_prebuilt_emulator.torch_device import cuda, streams


def _another(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a second function that calls the first: Dynamo registers one handler for each object."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords)

    return call


class device_index:  # noqa: N801 - torch's name
    """``with torch.accelerator.device_index(ordinal)``; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self._inner = None if device is None else cuda.device(device)

    def __enter__(self) -> None:
        if self._inner is not None:
            self._inner.__enter__()

    def __exit__(self, *_: object) -> None:
        if self._inner is not None:
            self._inner.__exit__()


def _names() -> dict[str, Any]:
    return {
        "is_available": lambda: cuda.device_count() > 0,
        "device_count": cuda.device_count,
        "current_accelerator": lambda *_, **__: torch.device("cuda"),
        "current_device_index": cuda.current_device,
        "current_device_idx": cuda.current_device,
        "set_device_index": cuda.set_device,
        "set_device_idx": cuda.set_device,
        "device_index": device_index,
        "synchronize": _another(cuda.synchronize),
        "current_stream": _another(streams.current_stream),
        "set_stream": _another(streams.set_stream),
        "empty_cache": lambda: None,
        "empty_host_cache": lambda: None,
        "get_memory_info": _another(cuda.mem_get_info),
        "memory_allocated": _another(cuda.memory_allocated),
        "memory_reserved": _another(cuda.memory_allocated),
        "max_memory_allocated": _another(cuda.max_memory_allocated),
        "max_memory_reserved": _another(cuda.max_memory_allocated),
        "memory_stats": _another(cuda.memory_stats),
        "reset_peak_memory_stats": _another(cuda.reset_peak_memory_stats),
        "reset_accumulated_memory_stats": lambda *_: None,
    }


def install() -> None:
    """In the place of what a CPU build has."""
    for module in (torch.accelerator, torch.accelerator.memory):
        for name, value in _names().items():
            if hasattr(module, name) or module is torch.accelerator:
                setattr(module, name, value)
    own: Any = torch
    own.Event = streams.AnyEvent
