"""Sums, differences, products and quotients, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.ops._broadcast import views
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output
from aiter_prebuilt.ops._traced import traced

if TYPE_CHECKING:
    import torch

_add = operator("add")
_sub = operator("sub")
_mul = operator("mul")
_div = operator("div")
_add_ = operator("add_")
_sub_ = operator("sub_")
_mul_ = operator("mul_")
_div_ = operator("div_")


@traced
def add(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """``input + other``, with broadcasting; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, of any shape and strides; of what is left when dims that lie behind one another are one, three
            dims at most.
        other: of the same type; each dim of either is that of the other, or 1, or not there.

    Returns:
        A new contiguous tensor.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad. ArgumentError, NoKernelError: the call
            does not fit.

    Source: AITER ``add``.
    """
    return _made("add", _add, input, other)


@traced
def sub(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """``input - other``, with broadcasting; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, of any shape and strides; of what is left when dims that lie behind one another are one, three
            dims at most.
        other: of the same type; each dim of either is that of the other, or 1, or not there.

    Returns:
        A new contiguous tensor.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad. ArgumentError, NoKernelError: the call
            does not fit.

    Source: AITER ``sub``.
    """
    return _made("sub", _sub, input, other)


@traced
def mul(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """``input * other``, with broadcasting; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, of any shape and strides; of what is left when dims that lie behind one another are one, three
            dims at most.
        other: of the same type; each dim of either is that of the other, or 1, or not there.

    Returns:
        A new contiguous tensor.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad. ArgumentError, NoKernelError: the call
            does not fit.

    Source: AITER ``mul``.
    """
    return _made("mul", _mul, input, other)


@traced
def div(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """``input / other``, with broadcasting; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, of any shape and strides; of what is left when dims that lie behind one another are one, three
            dims at most.
        other: of the same type; each dim of either is that of the other, or 1, or not there.

    Returns:
        A new contiguous tensor.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad. ArgumentError, NoKernelError: the call
            does not fit.

    Source: AITER ``div``.
    """
    return _made("div", _div, input, other)


@traced
def add_(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """``input += other``, with broadcasting of ``other``; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, contiguous, of any shape; written. It shares no memory with ``other``.
        other: of the same type; each dim is that of ``input``, or 1, or not there. As of ``add``, three dims at most are left.

    Returns:
        ``input``.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad. ArgumentError, NoKernelError: the call
            does not fit.

    Source: AITER ``add_``.
    """
    return _changed("add_", _add_, input, other)


@traced
def sub_(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """``input -= other``, with broadcasting of ``other``; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, contiguous, of any shape; written. It shares no memory with ``other``.
        other: of the same type; each dim is that of ``input``, or 1, or not there. As of ``sub``, three dims at most are left.

    Returns:
        ``input``.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad. ArgumentError, NoKernelError: the call
            does not fit.

    Source: AITER ``sub_``.
    """
    return _changed("sub_", _sub_, input, other)


@traced
def mul_(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """``input *= other``, with broadcasting of ``other``; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, contiguous, of any shape; written. It shares no memory with ``other``.
        other: of the same type; each dim is that of ``input``, or 1, or not there. As of ``mul``, three dims at most are left.

    Returns:
        ``input``.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad. ArgumentError, NoKernelError: the call
            does not fit.

    Source: AITER ``mul_``.
    """
    return _changed("mul_", _mul_, input, other)


@traced
def div_(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """``input /= other``, with broadcasting of ``other``; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, contiguous, of any shape; written. It shares no memory with ``other``.
        other: of the same type; each dim is that of ``input``, or 1, or not there. As of ``div``, three dims at most are left.

    Returns:
        ``input``.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad. ArgumentError, NoKernelError: the call
            does not fit.

    Source: AITER ``div_``.
    """
    return _changed("div_", _div_, input, other)


def _made(function: str, native: Callable[..., None], input: Any, other: Any) -> torch.Tensor:
    """The result of ``native`` in a new tensor."""
    try:
        out, given = views(function, input, other)
    except AiterPrebuiltError:
        raise
    except NOT_A_TENSOR as error:
        raise no_output(function, error) from error
    native(*given)
    return out  # type: ignore[no-any-return]


def _changed(function: str, native: Callable[..., None], input: Any, other: Any) -> torch.Tensor:
    """``input``, which ``native`` has changed."""
    try:
        _, given = views(function, input, other, input)
    except AiterPrebuiltError:
        raise
    except NOT_A_TENSOR as error:
        raise no_output(function, error) from error
    native(*given)
    return input  # type: ignore[no-any-return]
