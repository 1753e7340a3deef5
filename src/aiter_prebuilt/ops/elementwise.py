"""Sums, differences, products and quotients, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._broadcast import OPERATIONS, mixed, remembered, views
from aiter_prebuilt.ops._common import NOT_A_TENSOR, no_output
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.refusals.elementwise import refuse_binary_mixed

if TYPE_CHECKING:
    import torch

_add = operator("add")
_sub = operator("sub")
_mul = operator("mul")
_div = operator("div")
_binary_mixed = operator("binary_mixed")
_add_ = operator("add_")
_sub_ = operator("sub_")
_mul_ = operator("mul_")
_div_ = operator("div_")


@traced
def add(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Add with broadcasting.

    ``input + other``, with broadcasting; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, of any shape and strides; of what is left when dims that lie behind one another are one, three
            dims at most.
        other: of these types; each dim of either is that of the other, or 1, or not there.

    Returns:
        A new contiguous tensor, of their type, or fp32 where they have two.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``add``.
    """
    return _called("add", _add, input, other, in_place=False)


@traced
def sub(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Subtract with broadcasting.

    ``input - other``, with broadcasting; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, of any shape and strides; of what is left when dims that lie behind one another are one, three
            dims at most.
        other: of these types; each dim of either is that of the other, or 1, or not there.

    Returns:
        A new contiguous tensor, of their type, or fp32 where they have two.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``sub``.
    """
    return _called("sub", _sub, input, other, in_place=False)


@traced
def mul(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Multiply with broadcasting.

    ``input * other``, with broadcasting; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, of any shape and strides; of what is left when dims that lie behind one another are one, three
            dims at most.
        other: of these types; each dim of either is that of the other, or 1, or not there.

    Returns:
        A new contiguous tensor, of their type, or fp32 where they have two.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mul``.
    """
    return _called("mul", _mul, input, other, in_place=False)


@traced
def div(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Divide with broadcasting.

    ``input / other``, with broadcasting; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, of any shape and strides; of what is left when dims that lie behind one another are one, three
            dims at most.
        other: of these types; each dim of either is that of the other, or 1, or not there.

    Returns:
        A new contiguous tensor, of their type, or fp32 where they have two.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``div``.
    """
    return _called("div", _div, input, other, in_place=False)


@traced
def binary_mixed(input: torch.Tensor, other: torch.Tensor, op: int) -> torch.Tensor:
    """Combine operands of two types in fp32.

    ``add``, ``sub``, ``mul`` and ``div`` of operands of two types, which they call: computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, of any shape and strides; as of ``add``, three dims at most are left.
        other: of another one of these types; each dim of either is that of the other, or 1, or not there.
        op: 0 for the sum, 1 for the difference, 2 for the product, 3 for the quotient.

    Returns:
        A new contiguous tensor of fp32.

    Raises:
        UnsupportedError: another operation, more dims than that, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``add``, ``sub``, ``mul``, ``div``, whose result has the type that torch promotes to.
    """
    refuse_binary_mixed(op)
    try:
        out, given = views("binary_mixed", input, other, False, remembered, "f32")
    except AiterPrebuiltError:
        raise
    except NOT_A_TENSOR as error:
        raise no_output("binary_mixed", error) from error
    _binary_mixed(*given, op)
    return out


@traced
def add_(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Add in place, with broadcasting.

    ``input += other``, with broadcasting of ``other``; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, contiguous, of any shape; written. It shares no memory with ``other``.
        other: of the same type; each dim is that of ``input``, or 1, or not there. As of ``add``, three dims at most are left.

    Returns:
        ``input``.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``add_``.
    """
    return _called("add_", _add_, input, other, in_place=True)


@traced
def sub_(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Subtract in place, with broadcasting.

    ``input -= other``, with broadcasting of ``other``; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, contiguous, of any shape; written. It shares no memory with ``other``.
        other: of the same type; each dim is that of ``input``, or 1, or not there. As of ``sub``, three dims at most are left.

    Returns:
        ``input``.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``sub_``.
    """
    return _called("sub_", _sub_, input, other, in_place=True)


@traced
def mul_(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Multiply in place, with broadcasting.

    ``input *= other``, with broadcasting of ``other``; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, contiguous, of any shape; written. It shares no memory with ``other``.
        other: of the same type; each dim is that of ``input``, or 1, or not there. As of ``mul``, three dims at most are left.

    Returns:
        ``input``.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``mul_``.
    """
    return _called("mul_", _mul_, input, other, in_place=True)


@traced
def div_(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Divide in place, with broadcasting.

    ``input /= other``, with broadcasting of ``other``; computed in fp32, rounded once.

    Args:
        input: bf16, fp16 or fp32, contiguous, of any shape; written. It shares no memory with ``other``.
        other: of the same type; each dim is that of ``input``, or 1, or not there. As of ``div``, three dims at most are left.

    Returns:
        ``input``.

    Raises:
        UnsupportedError: more dims than that, or a tensor that requires grad.
        ArgumentError, NoKernelError: the call does not fit.

    Source: AITER ``div_``.
    """
    return _called("div_", _div_, input, other, in_place=True)


def _called(
    function: str, native: Callable[..., None], input: Any, other: Any, in_place: bool
) -> torch.Tensor:
    """Return the result of ``native``.

    In a new tensor, or ``input``. Operands of two types have an operator of their own.
    """
    if not in_place and mixed(input, other):
        return binary_mixed(input, other, OPERATIONS.index(function))
    try:
        out, given = views(function, input, other, in_place, remembered)
    except AiterPrebuiltError:
        raise
    except NOT_A_TENSOR as error:
        raise no_output(function, error) from error
    native(*given)
    return out
