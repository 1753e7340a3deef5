"""Capture a public function's native call without a launch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

import aiter_prebuilt
from aiter_prebuilt.execute.record import instead

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
Handed = tuple[str, list[Any], list[Any]]


def handed(call: Callable[[], Any], *functions: str) -> tuple[Any, Handed]:
    """Capture the result and native calls of ``call``.

    Each native call is its operator, tensors and attributes.
    """
    seen: list[Handed] = []
    with ExitStack() as stack:
        for name in functions:
            keep = lambda operator, tensors, attributes: seen.append((operator.name, tensors, attributes))  # noqa: E731
            stack.enter_context(instead(getattr(aiter_prebuilt, name), keep))
        result = call()
    (only,) = seen
    return result, only


def zeros(*shape: int, dtype: Any = BF16) -> Any:
    return torch.zeros(*shape, dtype=dtype)
