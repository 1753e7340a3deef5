"""Operators that a program registers with ``torch.library``: their bodies are the program's code, not torch's.

For torch's dispatcher a tensor of the device is the processor's. So a kernel of the key CUDA is registered for CPU, and where the
tensors are decides. A body sees the devices that the program sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch

from aiter_prebuilt_emulator.torch_device import memory, operators

#: Namespaces of torch's own, whose Python kernels are torch's code.
_TORCHS: Final = frozenset(("aten", "prim", "prims", "quantized", "inductor", "profiler", "higher_order"))
#: Keys of kernels that work with tensors' contents, by the key that the processor's tensors have.
_BODIES: Final = frozenset(
    ("", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")
)
_DEVICES: Final = frozenset(("CPU", "CUDA"))
_IMPL: Final[Any] = torch.library.Library.impl
#: Qualified name of an operator -> "CPU" or "CUDA" -> what its program registered for that key.
_BY_DEVICE: Final[dict[str, dict[str, Callable[..., Any]]]] = {}
#: Library -> the operators for which it has registered a choice by device.
_CHOICES: Final[WeakKeyDictionary[Any, set[str]]] = WeakKeyDictionary()


def _named(library: Any, operator: Any) -> str:
    name = operator if isinstance(operator, str) else operator._name
    return f"{library.ns}::{name.rpartition('::')[2]}"


def _impl(library: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> Any:
    """``Library.impl``."""
    key = dispatch_key or library.dispatch_key
    if library.ns in _TORCHS or not callable(fn) or fn is torch.library.fallthrough_kernel:
        return _IMPL(library, op_name, fn, dispatch_key, **options)
    if key == "AutogradCUDA":
        return _IMPL(library, op_name, fn, "AutogradCPU", **options)
    name = _named(library, op_name)
    if key in _BODIES:
        operators.PROGRAMS.add(name.partition(".")[0])
        return _IMPL(library, op_name, _body(fn), dispatch_key, **options)
    if key not in _DEVICES:
        return _IMPL(library, op_name, fn, dispatch_key, **options)
    operators.PROGRAMS.add(name.partition(".")[0])
    kernels = _BY_DEVICE.setdefault(name, {})
    kernels[key] = fn
    chosen = _CHOICES.setdefault(library, set())
    if name not in chosen:
        chosen.add(name)
        return _IMPL(library, op_name, _by_device(name, kernels), "CPU", **options)
    return None


def _body(fn: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = operators.as_asked(args, kwargs)
        with operators.program():
            return fn(*args, **kwargs)

    return kernel


def _by_device(name: str, kernels: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = operators.as_asked(args, kwargs)
        tensors = [*operators.tensors_in(args), *operators.tensors_in(kwargs)]
        devices = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.device)]
        there = any(memory.ordinal_of(each) is not None for each in tensors)
        key = "CUDA" if there or (not tensors and any(each.type == "cuda" for each in devices)) else "CPU"
        if key not in kernels:
            raise NotImplementedError(
                f"Could not run '{name}' with arguments from the '{key}' backend: it is registered for {', '.join(kernels)}"
            )
        with operators.program():
            return kernels[key](*args, **kwargs)

    return kernel


def install() -> None:
    """In the place of torch's method, for what is registered from now on."""
    kind: Any = torch.library.Library
    kind.impl = _impl
