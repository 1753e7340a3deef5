"""Sums, differences, products and quotients, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiter_prebuilt.dispatch import operator
from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.ops._broadcast import remembered, views
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
    return _called("add", _add, input, other, in_place=False)


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
    return _called("sub", _sub, input, other, in_place=False)


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
    return _called("mul", _mul, input, other, in_place=False)


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
    return _called("div", _div, input, other, in_place=False)


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
    return _called("add_", _add_, input, other, in_place=True)


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
    return _called("sub_", _sub_, input, other, in_place=True)


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
    return _called("mul_", _mul_, input, other, in_place=True)


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
    return _called("div_", _div_, input, other, in_place=True)


def _called(
    function: str, native: Callable[..., None], input: Any, other: Any, in_place: bool
) -> torch.Tensor:
    """The result of ``native``: in a new tensor, or ``input``."""
    try:
        out, given = views(function, input, other, in_place, remembered)
    except AiterPrebuiltError:
        raise
    except NOT_A_TENSOR as error:
        raise no_output(function, error) from error
    native(*given)
    return out  # type: ignore[no-any-return]
