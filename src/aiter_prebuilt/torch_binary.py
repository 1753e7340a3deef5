"""What Dynamo traces of the functions of ``ops/binary.py``: as ``torch_calls``."""

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.ops._broadcast import views
from aiter_prebuilt.torch_library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def add(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.add``."""
    return _made("add", input, other)


def sub(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.sub``."""
    return _made("sub", input, other)


def mul(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.mul``."""
    return _made("mul", input, other)


def div(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.div``."""
    return _made("div", input, other)


def add_(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.add_``."""
    return _changed("add_", input, other)


def sub_(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.sub_``."""
    return _changed("sub_", input, other)


def mul_(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.mul_``."""
    return _changed("mul_", input, other)


def div_(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.div_``."""
    return _changed("div_", input, other)


def _made(function: str, input: Any, other: Any) -> Any:
    out, given = views(function, input, other)
    getattr(_OPS, function).default(*given)
    return out


def _changed(function: str, input: Any, other: Any) -> Any:
    _, given = views(function, input, other, input)
    getattr(_OPS, function).default(*given)
    return input
