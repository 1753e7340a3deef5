"""What Dynamo traces of the functions of ``ops/elementwise.py``: as ``calls``."""

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.ops._broadcast import OPERATIONS, mixed, views
from aiter_prebuilt.tracing.library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def add(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.add``."""
    return _called("add", input, other, in_place=False)


def sub(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.sub``."""
    return _called("sub", input, other, in_place=False)


def mul(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.mul``."""
    return _called("mul", input, other, in_place=False)


def div(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.div``."""
    return _called("div", input, other, in_place=False)


def binary_mixed(input: Any, other: Any, op: int) -> Any:
    """Of ``aiter_prebuilt.binary_mixed``."""
    out, given = views("binary_mixed", input, other, False, kind="f32")
    _OPS.binary_mixed.default(*given, op)
    return out


def add_(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.add_``."""
    return _called("add_", input, other, in_place=True)


def sub_(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.sub_``."""
    return _called("sub_", input, other, in_place=True)


def mul_(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.mul_``."""
    return _called("mul_", input, other, in_place=True)


def div_(input: Any, other: Any) -> Any:
    """Of ``aiter_prebuilt.div_``."""
    return _called("div_", input, other, in_place=True)


def _called(function: str, input: Any, other: Any, in_place: bool) -> Any:
    if not in_place and mixed(input, other):
        return binary_mixed(input, other, OPERATIONS.index(function))
    out, given = views(function, input, other, in_place)
    getattr(_OPS, function).default(*given)
    return out
