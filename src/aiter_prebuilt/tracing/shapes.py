"""Check a traced call and compute the shapes it returns.

The manifest's dims are evaluated over torch's (symbolic) sizes.

The rules are those of ``csrc/runtime/choice/bind.cpp``, without what a tensor without memory cannot show
(strides of a traced tensor may change before the launch; addresses and the target's own fp8 exist only there). A rule here
is never stricter than there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import torch

from aiter_prebuilt.contract import bytecode, expression
from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.errors import (
    ArgumentDeviceError,
    ArgumentDTypeError,
    ArgumentKindError,
    ArgumentShapeError,
)
from aiter_prebuilt.tracing.signatures import Signature, Tensor

#: An integer, or torch's symbolic one.
Size = Any
#: A dim: symbols to their sizes in, its size out.
Rule = Callable[[Mapping[str, Size]], Size]

#: Some of torch has no types.
_TORCH: Final[Any] = torch
#: The contract's operations; the smaller and the larger of two symbolic sizes stay symbolic with torch's own.
OPERATIONS: Final = {**bytecode.OPERATIONS, bytecode.MIN: _TORCH.sym_min, bytecode.MAX: _TORCH.sym_max}


@cache
def rule(text: str, symbols: tuple[str, ...]) -> Rule:
    """Compile the dim ``text`` over the tensors' symbols.

    It is in the contract's language.

    Raises:
        ValueError: it is no expression, or uses another name.
    """
    try:
        code = expression.compile_expression(
            text, expression.Scope({name: slot for slot, name in enumerate(symbols)})
        )
    except bytecode.ExpressionError as error:
        raise ValueError(f"the dim {text!r} of a signature cannot be computed from sizes: {error}") from None
    used = bytecode.slots_of(code)

    def computed(sizes: Mapping[str, Size]) -> Size:
        slots = [sizes[name] if slot in used else 0 for slot, name in enumerate(symbols)]
        return bytecode.evaluate(code, slots, OPERATIONS)

    return computed


def symbols_of(signature: Signature) -> tuple[str, ...]:
    """Return the names that the sizes of a signature's tensors bind."""
    dims = {text for spec in signature.tensors for text in spec.dims}
    return tuple(sorted(text for text in dims - {"_"} if text.isidentifier()))


class Bound:
    """The symbols of one call: sizes, the leading dims behind a ``*M``, and element types."""

    def __init__(self, signature: Signature, tensors: Sequence[torch.Tensor | None]) -> None:
        """Bind and compare everything.

        Args:
            signature: the shapes, types and options of the call.
            tensors: what was passed for ``signature.arguments``, in order.

        Raises:
            ArgumentKindError, ArgumentDTypeError, ArgumentDeviceError, ArgumentShapeError: the call cannot be right.
        """
        self.signature = signature
        self.symbols = symbols_of(signature)
        self.sizes: dict[str, Size] = {}
        self.leading: dict[str, tuple[Size, ...]] = {}
        self.types: dict[str, torch.dtype] = {}
        given = [
            (spec, each) for spec, each in zip(signature.arguments, tensors, strict=True) if each is not None
        ]
        for spec, each in zip(signature.arguments, tensors, strict=True):
            if each is None and not spec.optional:
                raise ArgumentKindError(self.signature.name, f"{spec.name} must be a tensor, got None", "")
        for spec, tensor in given:
            self._check_device(spec, tensor, given[0])
            self._check_type(spec, tensor)
        collapsed = [(spec, self._collapse(spec, tensor)) for spec, tensor in given]
        for symbols in (True, False):  # expressions may use symbols that a later tensor binds
            for spec, shape in collapsed:
                for text, size in zip(spec.dims, shape, strict=True):
                    if text.isidentifier() is symbols:
                        self._compare(spec, text, size)

    def _rule(self, text: str) -> Rule:
        return rule(text, self.symbols)

    def _check_device(self, spec: Tensor, tensor: torch.Tensor, first: tuple[Tensor, torch.Tensor]) -> None:
        if tensor.device != first[1].device:
            raise ArgumentDeviceError(
                self.signature.name,
                f"{spec.name} must be on {first[1].device}, as {first[0].name} is; got {tensor.device}",
                "Move all tensors of a call to one device",
            )

    def _check_type(self, spec: Tensor, tensor: torch.Tensor) -> None:
        allowed = dtypes(self.signature, spec)
        bound = self.types.get(spec.type)
        wanted = allowed if bound is None else (bound,)
        if tensor.dtype not in wanted:
            says = " or ".join(str(each) for each in wanted)
            raise ArgumentDTypeError(
                self.signature.name,
                f"{spec.name} must be {says}, got {tensor.dtype}",
                "Convert it first",
            )
        if spec.type in self.signature.types:
            self.types[spec.type] = tensor.dtype

    def _collapse(self, spec: Tensor, tensor: torch.Tensor) -> tuple[Size, ...]:
        """Return the shape with the leading dims of a ``*M`` as one."""
        shape, dims = tuple(tensor.shape), len(spec.dims)
        if len(shape) + 1 < dims if spec.star else len(shape) != dims:
            raise ArgumentShapeError(
                self.signature.name,
                f"{spec.name} must be [{'*' * spec.star}{', '.join(spec.dims)}], got {list(shape)} ({len(shape)} dims)",
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
        wanted = self.sizes.setdefault(text, size) if text.isidentifier() else self._rule(text)(self.sizes)
        found = f"a dim of {spec.name} must be {text} = {wanted}, got {size}"
        error = ArgumentShapeError(self.signature.name, found, "")
        if isinstance(size, int) and isinstance(wanted, int):
            if size != wanted:
                raise error
        else:
            _TORCH._check(size == wanted, lambda: str(error))  # noqa: SLF001  # torch's documented name

    def shape(self, spec: Tensor) -> tuple[Size, ...]:
        """Return the shape of a returned tensor."""
        if not spec.star:
            return tuple(self._rule(text)(self.sizes) for text in spec.dims)
        leading = self.leading.get(spec.dims[0])
        first = (self.sizes[spec.dims[0]],) if leading is None else leading
        return *first, *(self._rule(text)(self.sizes) for text in spec.dims[1:])


@cache
def _dtypes(names: tuple[str, ...]) -> tuple[torch.dtype, ...]:
    # A type that this torch does not know cannot be the type of its tensors.
    found = (getattr(torch, BY_NAME[name].torch, None) for name in names)
    return tuple(dtype for dtype in found if dtype is not None)


def dtypes(signature: Signature, spec: Tensor) -> tuple[torch.dtype, ...]:
    """List the element types that ``spec`` may have.

    The first of a returned tensor's is the default.
    """
    return _dtypes(signature.allowed(spec))
