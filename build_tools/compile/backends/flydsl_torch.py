"""A stand-in for torch in a FlyDSL compile.

It has element types, and tensors without memory that say how a kernel is compiled.

FlyDSL knows torch tensors as one kind of argument, and sources beside kernels define autograd functions and the like when they
are imported. torch would be 200 MB to gigabytes in the environment of a build that never touches a number, and 1.3 s of every
compile. ``torch.empty(sizes, dtype=torch.bfloat16)`` is a placeholder here as it is with torch. What would compute is not there,
and says so by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

#: Names of torch's element types and their bytes; several may mean one.
_TYPES: Final = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
    "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1, "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1,
    "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1,
}  # fmt: skip
_ALIASES: Final = {
    "double": "float64", "float": "float32", "half": "float16", "long": "int64", "int": "int32", "short": "int16",
}  # fmt: skip


class DType:
    """An element type: one object for each, with its size."""

    def __init__(self, name: str, itemsize: int) -> None:
        self.name, self.itemsize = name, itemsize
        self.is_floating_point = "float" in name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class Device:
    """A tensor's device: never a GPU.

    FlyDSL knows a placeholder by that.
    """

    def __init__(self, kind: str = "cpu", index: int | None = None) -> None:
        del kind
        self.type, self.index = "cpu", index


class Tensor:
    """Sizes, strides in elements and an element type; no memory."""

    def __init__(self, sizes: Sequence[int], strides: Sequence[int], dtype: DType) -> None:
        self.shape, self._strides, self.dtype = tuple(map(int, sizes)), tuple(map(int, strides)), dtype
        if len(self.shape) != len(self._strides):
            raise ValueError(f"a tensor of {len(self.shape)} sizes has {len(self._strides)} strides")
        self.device, self.is_cuda, self.ndim, self.requires_grad = Device(), False, len(self.shape), False

    def stride(self, dim: int | None = None) -> Any:
        """All strides, or one."""
        return self._strides if dim is None else self._strides[dim]

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or one."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """Count the dims."""
        return self.ndim

    def numel(self) -> int:
        """Count the elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """No address."""
        return 0

    def is_contiguous(self) -> bool:
        """Are its strides those of dense rows?"""
        return self._strides == _dense(self.shape)

    def contiguous(self) -> Tensor:
        """With the strides of dense rows."""
        return Tensor(self.shape, _dense(self.shape), self.dtype)

    def view(self, *sizes: Any) -> Tensor:
        """View the bytes as another element type, or with other sizes.

        The element type has the same size; one size may be -1.
        """
        if len(sizes) == 1 and isinstance(sizes[0], DType):
            if sizes[0].itemsize != self.dtype.itemsize:
                raise ValueError(f"view {self.dtype} as {sizes[0]}: their elements have other sizes")
            return Tensor(self.shape, self._strides, sizes[0])
        wanted = _sizes(sizes)
        known = 1
        for size in wanted:
            known *= size if size >= 0 else 1
        given = tuple(size if size >= 0 else self.numel() // max(known, 1) for size in wanted)
        return Tensor(given, _dense(given), self.dtype)

    reshape = view

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a placeholder tensor of a FlyDSL compile has no {name!r}: it has no memory")


class StandIn(ModuleType):
    """A module of torch: what it lacks is named, with what it is."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{self.__name__}.{name}: FlyDSL kernels are compiled without torch, and what stands in for it has no {name!r}"
        )


def install() -> None:
    """Put the stand-in where ``import torch`` finds it."""
    torch = StandIn("torch")
    types = {name: DType(name, size) for name, size in _TYPES.items()}
    types |= {alias: types[name] for alias, name in _ALIASES.items()}
    vars(torch).update(types)
    vars(torch).update(
        {"Tensor": Tensor, "dtype": DType, "device": Device, "no_grad": _Nothing, "is_tensor": lambda it: isinstance(it, Tensor)}
    )  # fmt: skip
    for name in ("empty", "zeros", "ones"):
        setattr(torch, name, _maker(types["float32"]))
    torch.empty_strided = _strided(types["float32"])  # type: ignore[attr-defined]
    nothing = type("Function", (), {"apply": None})
    parts: dict[str, dict[str, Any]] = {
        "cuda": {"Stream": type("Stream", (), {}), "is_available": lambda: False, "Event": type("Event", (), {})},
        "autograd": {"Function": nothing},
        "nn": {"Module": type("Module", (), {}), "Parameter": type("Parameter", (Tensor,), {})},
        "nn.functional": {}, "distributed": {}, "_C": {}, "library": {"custom_op": _Nothing},
    }  # fmt: skip
    sys.modules["torch"] = torch
    for name, members in parts.items():
        module = StandIn(f"torch.{name}")
        vars(module).update(members)
        sys.modules[module.__name__] = module
        above, _, last = module.__name__.rpartition(".")
        setattr(sys.modules[above], last, module)


class _Nothing:
    """``@torch.no_grad()``, ``with torch.no_grad():`` and such: functions stay as they are."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        return function

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def _dense(sizes: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _sizes(given: Sequence[Any]) -> tuple[int, ...]:
    """``f(2, 3)`` and ``f((2, 3))`` mean the same."""
    return tuple(given[0] if len(given) == 1 and not isinstance(given[0], int) else given)


def _maker(usual: DType) -> Callable[..., Tensor]:
    def make(*sizes: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
        del device
        given = _sizes(sizes)
        return Tensor(given, _dense(given), dtype or usual)

    return make


def _strided(usual: DType) -> Callable[..., Tensor]:
    def make(
        sizes: Sequence[int], strides: Sequence[int], dtype: DType | None = None, device: Any = None
    ) -> Tensor:
        del device
        return Tensor(sizes, strides, dtype or usual)

    return make
