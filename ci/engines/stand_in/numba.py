"""The few names of ``numba`` that vLLM's n-gram drafts are written with: their functions stay plain Python.

This folder is on the path of an engine on the emulator, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

prange: Final = range
config: Final = SimpleNamespace(THREADING_LAYER="default")


def njit(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    """Return the function as it is, or a decorator that does."""
    return _same if function is None else function


jit: Final = njit


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def get_num_threads() -> int:
    """Return the only thread."""
    return 1


def set_num_threads(count: int) -> None:
    """Do nothing."""
    del count
