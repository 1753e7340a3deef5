"""What a traced call is checked against, and the shapes it returns: the manifest's dims over torch's (symbolic) sizes.

The rules are those of ``csrc/runtime/bind.cpp``, without what a tensor without memory cannot show (strides of a traced tensor
may change before the launch; addresses and the target's own fp8 exist only there). A rule here is never stricter than there.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import torch

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.errors import (
    ArgumentDeviceError,
    ArgumentDTypeError,
    ArgumentKindError,
    ArgumentShapeError,
)
from aiter_prebuilt.signatures import Signature, Tensor

#: An integer, or torch's symbolic one.
Size = Any
#: A dim: symbols to their sizes in, its size out.
Rule = Callable[[Mapping[str, Size]], Size]

_BINARY: Final = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
#: Some of torch has no types.
_TORCH: Final[Any] = torch
_CALLS: Final[dict[str, Callable[..., Size]]] = {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max}


@cache
def rule(text: str) -> Rule:
    """The arithmetic of the manifests' expressions: numbers, symbols, ``+ - * // %``, cdiv, min and max.

    Raises:
        ValueError: anything else stands in ``text``.
    """
    return _rule(ast.parse(text, mode="eval").body, text)


def _rule(node: ast.expr, text: str) -> Rule:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        number = node.value
        return lambda _: number
    if isinstance(node, ast.Name):
        name = node.id
        return lambda sizes: sizes[name]
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        join, left, right = _BINARY[type(node.op)], _rule(node.left, text), _rule(node.right, text)
        return lambda sizes: join(left(sizes), right(sizes))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        call, parts = _CALLS[node.func.id], [_rule(part, text) for part in node.args]
        return lambda sizes: call(*(part(sizes) for part in parts))
    raise ValueError(f"the dim {text!r} of a signature cannot be computed from sizes")


class Bound:
    """The symbols of one call: sizes, the leading dims behind a ``*M``, and element types."""

    def __init__(self, signature: Signature, tensors: Sequence[torch.Tensor | None]) -> None:
        """Bind and compare everything.

        Args:
            tensors: what was passed for ``signature.arguments``, in order.

        Raises:
            ArgumentKindError, ArgumentDTypeError, ArgumentDeviceError, ArgumentShapeError: the call cannot be right.
        """
        self.signature = signature
        self.sizes: dict[str, Size] = {}
        self.leading: dict[str, tuple[Size, ...]] = {}
        self.types: dict[str, torch.dtype] = {}
        given = [
            (spec, each) for spec, each in zip(signature.arguments, tensors, strict=True) if each is not None
        ]
        for spec, each in zip(signature.arguments, tensors, strict=True):
            if each is None and not spec.optional:
                raise ArgumentKindError(self._about(spec), "None, and it is not optional", "Pass a tensor")
        for spec, tensor in given:
            self._check_device(spec, tensor, given[0])
            self._check_type(spec, tensor)
        collapsed = [(spec, self._collapse(spec, tensor)) for spec, tensor in given]
        for symbols in (True, False):  # expressions may use symbols that a later tensor binds
            for spec, shape in collapsed:
                for text, size in zip(spec.dims, shape, strict=True):
                    if text.isidentifier() is symbols:
                        self._compare(spec, text, size)

    def _about(self, spec: Tensor) -> str:
        return f"{self.signature.name}: argument {spec.name}"

    def _check_device(self, spec: Tensor, tensor: torch.Tensor, first: tuple[Tensor, torch.Tensor]) -> None:
        if tensor.device != first[1].device:
            raise ArgumentDeviceError(
                self._about(spec),
                f"it is on {tensor.device} and {first[0].name} is on {first[1].device}",
                "All tensors of a call must be on one device",
            )

    def _check_type(self, spec: Tensor, tensor: torch.Tensor) -> None:
        allowed = dtypes(self.signature, spec)
        bound = self.types.get(spec.type)
        wanted = allowed if bound is None else (bound,)
        if tensor.dtype not in wanted:
            says = " or ".join(str(each) for each in wanted)
            raise ArgumentDTypeError(
                self._about(spec),
                f"its type is {tensor.dtype}, the signature says {says}",
                "Convert it first",
            )
        if spec.type in self.signature.types:
            self.types[spec.type] = tensor.dtype

    def _collapse(self, spec: Tensor, tensor: torch.Tensor) -> tuple[Size, ...]:
        """The shape with the leading dims of a ``*M`` as one."""
        shape, dims = tuple(tensor.shape), len(spec.dims)
        if len(shape) + 1 < dims if spec.star else len(shape) != dims:
            raise ArgumentShapeError(
                self._about(spec),
                f"its shape {list(shape)} has {len(shape)} dims, the signature says [{'*' * spec.star}{', '.join(spec.dims)}]",
                "Reshape it",
            )
        if not spec.star:
            return shape
        split = len(shape) + 1 - dims
        self.leading.setdefault(spec.dims[0], shape[:split])
        return math.prod(shape[:split]), *shape[split:]

    def _compare(self, spec: Tensor, text: str, size: Size) -> None:
        if text == "_":
            return
        wanted = self.sizes.setdefault(text, size) if text.isidentifier() else rule(text)(self.sizes)
        found = f"a size of it is {size}, and {text} is {wanted}"
        error = ArgumentShapeError(self._about(spec), found, "Pass tensors whose sizes agree")
        if isinstance(size, int) and isinstance(wanted, int):
            if size != wanted:
                raise error
        else:
            _TORCH._check(size == wanted, lambda: str(error))  # noqa: SLF001  # torch's documented name

    def shape(self, spec: Tensor) -> tuple[Size, ...]:
        """The shape of a returned tensor."""
        if not spec.star:
            return tuple(rule(text)(self.sizes) for text in spec.dims)
        leading = self.leading.get(spec.dims[0])
        first = (self.sizes[spec.dims[0]],) if leading is None else leading
        return *first, *(rule(text)(self.sizes) for text in spec.dims[1:])


@cache
def _dtypes(names: tuple[str, ...]) -> tuple[torch.dtype, ...]:
    # A type that this torch does not know cannot be the type of its tensors.
    found = (getattr(torch, BY_NAME[name].torch, None) for name in names)
    return tuple(dtype for dtype in found if dtype is not None)


def dtypes(signature: Signature, spec: Tensor) -> tuple[torch.dtype, ...]:
    """The element types that ``spec`` may have; of a returned tensor the first is what is meant when nobody says."""
    return _dtypes(signature.allowed(spec))
