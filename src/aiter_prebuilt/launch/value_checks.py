"""``AITER_PREBUILT_CHECK=1``: look at the values of a call's masks, lists, lengths, page tables and slots before its launch.

Each checked call waits for the GPU and copies these tensors to the host. Without the variable no call runs code of this module.
"""

from __future__ import annotations

import inspect
import os
import sys
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.errors import CHECK, ArgumentValueError, UnsupportedError
from aiter_prebuilt.launch.value_contracts import CONTRACTS, UnknownSizeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiter_prebuilt._native import Operator
    from aiter_prebuilt.tracing.signatures import Signature

#: Bytes and signs of the integer types that a tensor without a framework names.
_INTEGERS: Final = {"i32": (4, True), "i64": (8, True), "u8": (1, False), "bool": (1, False)}
#: Where the functions lie that users call.
_FUNCTIONS: Final = "aiter_prebuilt.ops"


def enabled() -> bool:
    """Say whether the variable asks for checks.

    Raises:
        UnsupportedError: the variable has another value than 0 and 1.
    """
    value = os.environ.get(CHECK, "").strip()
    if value not in ("", "0", "1"):
        raise UnsupportedError(f"{CHECK}={value}", "the value must be 0 or 1", f"Set {CHECK}=1, or unset it")
    return value == "1"


class Checked:
    """An operator that checks values before each launch. Everything else is the operator's own."""

    def __init__(self, name: str, operator: Operator) -> None:
        self._name = name
        self._operator = operator

    def __call__(self, *args: Any, **options: Any) -> None:
        """Check, then launch.

        Raises:
            ArgumentValueError: a tensor has a value that the operator's contract does not allow.
        """
        check(self._name, args, self._operator.views)
        self._operator(*args, **options)

    def viewing(self, views: Any, /) -> Checked:
        """Return the operator with views of its tensors, checked too."""
        return Checked(self._name, self._operator.viewing(views))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)


def check(name: str, args: Sequence[Any], views: Any = ()) -> None:
    """Check the tensors of a call of operator ``name``. A graph capture is left alone: nothing can be read during one.

    Raises:
        ArgumentValueError: a tensor has a value that the operator's contract does not allow.
    """
    if _capturing():
        return
    signature = _signature(name)
    rules = CONTRACTS[name]
    call = _Call(signature, args[: len(signature.tensors)], views)
    for tensor, rule in rules.items():
        try:
            values = call.values(tensor)
            if values is None:
                continue
            call.tensor = tensor
            problem = rule.problem(values, call)
            wanted = rule.wanted(call) if problem else ""
        except UnknownSizeError:
            continue  # the call gives the tensor another rank, and is refused, or is served another way
        if problem:
            raise ArgumentValueError(
                f"{_caller(name)}({tensor}=...)", problem, f"It must be {wanted} (found by {CHECK}=1)"
            )


class _Sizes:
    """Dims by their symbols."""

    def __init__(self, found: dict[str, int]) -> None:
        self._found = found

    def __getattr__(self, name: str) -> int:
        if name not in self._found:
            raise UnknownSizeError(name)
        return self._found[name]


class _Call:
    """A call as the rules see it (``value_contracts.Call``)."""

    def __init__(self, signature: Signature, tensors: Sequence[Any], views: Any) -> None:
        self._given = {
            spec.name: given
            for spec, given in zip(signature.tensors, tensors, strict=False)
            if given is not None
        }
        self._values: dict[str, list[int] | None] = {}
        self.tensor = ""
        found: dict[str, int] = {}
        for place, (spec, given) in enumerate(zip(signature.tensors, tensors, strict=False)):
            shape = None if given is None else _viewed(_shape(given), place, views)
            if shape is None:
                continue
            if spec.star:
                behind = len(spec.dims) - 1
                if len(shape) < behind:
                    continue
                shape = (prod(shape[: len(shape) - behind]), *shape[len(shape) - behind :])
            if len(shape) == len(spec.dims):
                for symbol, size in zip(spec.dims, shape, strict=True):
                    if symbol.isidentifier():
                        found.setdefault(symbol, size)
        self.sizes: Any = _Sizes(found)

    @property
    def columns(self) -> int:
        """The last dim of the tensor that is checked."""
        shape = _shape(self._given[self.tensor])
        return shape[-1] if shape else 1

    def values(self, tensor: str) -> list[int] | None:
        """Return the integers of a tensor, read once a call."""
        if tensor not in self._values:
            given = self._given.get(tensor)
            self._values[tensor] = None if given is None else _read(given)
        return self._values[tensor]


@cache
def _signature(name: str) -> Signature:
    from aiter_prebuilt.tracing.signatures import load

    return load()[name]


def _shape(tensor: Any) -> tuple[int, ...] | None:
    """Return the shape of a tensor.

    It is torch's, another framework's, or of none (the third of five).
    """
    found = getattr(tensor, "shape", None)
    if found is None and isinstance(tensor, tuple) and len(tensor) == 5:
        found = tensor[2]
    return None if found is None else tuple(map(int, found))


def _viewed(shape: tuple[int, ...] | None, place: int, views: Any) -> tuple[int, ...] | None:
    """Return the shape as an operator with views sees it.

    See ``_native.Operator.viewing``.
    """
    for view in views or ():
        if shape is None or view[1] != place:
            continue
        if view[0] == "order" and len(shape) == view[2]:
            shape = tuple(1 if dim < 0 else shape[dim] for dim in view[3])
        elif view[0] == "split" and shape and view[2] and shape[-1] % view[2] == 0:
            shape = (*shape[:-1], shape[-1] // view[2], view[2])
    return shape


def _read(tensor: Any) -> list[int] | None:
    """Return the integers of a tensor.

    None for one that cannot be read here: the native call says what is wrong with it.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        if tensor.dtype.is_floating_point or tensor.is_meta:
            return None
        return [int(value) for value in tensor.detach().reshape(-1).cpu().tolist()]
    read = getattr(tensor, "read", None)
    size, signed = _INTEGERS.get(str(getattr(tensor, "dtype", "")), (0, False))
    if read is None or not size:
        return None
    data: bytes = read()
    return [
        int.from_bytes(data[at : at + size], sys.byteorder, signed=signed) for at in range(0, len(data), size)
    ]


def _capturing() -> bool:
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return bool(cuda is not None and cuda.is_available() and cuda.is_current_stream_capturing())


def _caller(name: str) -> str:
    """Return the function that the user called.

    The outermost one of ours with a public name, else the operator.
    """
    public = sys.modules["aiter_prebuilt"].__all__
    frame = inspect.currentframe()
    while frame is not None:
        module, function = str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
        if module.startswith(_FUNCTIONS) and function in public:
            name = function
        frame = frame.f_back
    return name
