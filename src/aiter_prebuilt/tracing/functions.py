"""Public functions as torch.compile traces them: the eager code, with torch's operators in place of native ones.

Each module of ``ops`` has a copy here whose functions have the same code objects. In its globals, native operators are
``torch.ops.aiter_prebuilt.NAME``, and caches of calls are the functions that they cache. :data:`REPLACED` lists the few
functions that Dynamo cannot trace.

Imported by a trace and by nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from inspect import unwrap
from types import CellType, FunctionType, ModuleType
from typing import Any, Final

import torch

from aiter_prebuilt import ops
from aiter_prebuilt.contract.gradients import DIFFERENTIABLE
from aiter_prebuilt.devices import device, native
from aiter_prebuilt.launch import dispatch
from aiter_prebuilt.launch.graph_break import break_reason, is_traced
from aiter_prebuilt.ops._common import refuse
from aiter_prebuilt.ops._named_errors import no_number, numbers
from aiter_prebuilt.ops._random import pair
from aiter_prebuilt.tracing.launches import LAUNCHES, launch_of

_PACKAGE: Final = ops.__name__
#: The modules of public functions.
_HOMES: Final = sorted({*ops.HOMES.values(), *ops.COMPOSED.values(), "tuned_gemm"})
#: Where the copies stand in ``sys.modules``: Dynamo's guards look a function's globals up by the name of its module.
_COPIES: Final = f"{__name__}.copies"
_NATIVE: Final[Any] = native.module()

_TORCH: Final[Any] = torch
#: A device's facts are constants of a graph.
_facts = _TORCH.compiler.assume_constant_result(device.facts)


def _operator(name: str) -> Any:
    """Stand in for ``launch.dispatch.operator``."""
    return LAUNCHES[name]


def _state(function: str, generator: Any, *tensors: Any) -> tuple[int, int]:
    """Return seed and offset. What torch's generator says while a graph is traced would be a constant of it.

    Raises:
        UnsupportedError: it is no pair.
    """
    del tensors
    if not isinstance(generator, tuple | list) or len(generator) != 2:
        raise refuse(function, "generator", generator, "(seed, offset) under torch.compile")
    return pair(function, generator, generator)


class _Address:
    """Stand in for a tensor's address: equal to that of the same tensor."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Address) and self.tensor is other.tensor

    __hash__ = None  # type: ignore[assignment]


#: Module and name of each function that Dynamo cannot trace, and what it traces instead.
REPLACED: Final[Mapping[tuple[str, str], Callable[..., Any]]] = {
    ("aiter_prebuilt.ops.mla", "address"): _Address,  # tensors of a trace have no address
    ("aiter_prebuilt.ops.sampling", "_state"): _state,  # torch's generator is no part of a graph
    ("aiter_prebuilt.ops.sampling_top", "_state"): _state,
}
#: ``devices.device`` as the copies see it.
DEVICE: Final = ModuleType(f"{_COPIES}.device")
DEVICE.__dict__.update({**vars(device), "__name__": DEVICE.__name__, "facts": _facts})
sys.modules[DEVICE.__name__] = DEVICE


class _Copies:
    """The copies of modules and functions, each made once."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}
        self._functions: dict[int, tuple[FunctionType, FunctionType]] = {}

    def module(self, name: str) -> ModuleType:
        """Return the copy of the module ``name`` of ``ops``."""
        if name not in self._modules:
            copy = ModuleType(_COPIES + name.removeprefix(_PACKAGE))
            self._modules[name] = sys.modules[copy.__name__] = copy
            for key, value in list(vars(import_module(name)).items()):
                if not key.startswith("__"):
                    copy.__dict__[key] = REPLACED.get((name, key)) or self.copied(value)
            copy.__dict__["__builtins__"] = __builtins__
        return self._modules[name]

    def copied(self, value: Any) -> Any:
        """Return what stands for ``value`` in the globals of a copy: mostly ``value``."""
        if hasattr(type(value), "viewing"):  # an operator, or one whose calls are checked
            return launch_of(value)
        if isinstance(value, _NATIVE.Plans):
            return self.copied(value.function)
        if isinstance(value, _NATIVE.Outputs):
            return self.copied(value.make)
        if value is dispatch.operator:
            return _operator
        if value is device:
            return DEVICE
        if isinstance(value, FunctionType):
            return self.function(value)
        if hasattr(value, "cache_info"):  # Dynamo traces what it caches, and warns
            return self.copied(value.__wrapped__)
        if isinstance(value, ModuleType) and value.__name__.startswith(f"{_PACKAGE}."):
            return self.module(value.__name__)
        if isinstance(value, partial):
            return partial(self.copied(value.func), *map(self.copied, value.args), **value.keywords)
        if type(value) is dict:
            return {key: self.copied(each) for key, each in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(self.copied, value))
        return value

    def function(self, function: FunctionType) -> FunctionType:
        """Return ``function`` over the globals of its module's copy."""
        if break_reason(function) is not None:
            return function
        function = function.__dict__.get("__wrapped__", function)
        home = function.__globals__.get("__name__", "")
        if not home.startswith(f"{_PACKAGE}."):
            return function
        if id(function) not in self._functions:
            names = self.module(home).__dict__
            cells = function.__closure__ and tuple(
                CellType(self.copied(each.cell_contents)) for each in function.__closure__
            )
            self._functions[id(function)] = function, _over(function, names, cells)
        return self._functions[id(function)][1]


def _over(function: FunctionType, names: dict[str, Any], cells: tuple[CellType, ...] | None) -> FunctionType:
    """Return a function with the code of ``function``, other globals and another closure, and no mark."""
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _differentiable(name: str, function: FunctionType) -> Callable[..., Any]:
    """Let torch record the gradient of a call whose tensors require one, once its options were checked."""
    with_backward = getattr(import_module(f"aiter_prebuilt.tracing.{DIFFERENTIABLE[name]}"), name)
    refused = function.__globals__[f"refuse_{name}"]
    checked = refused.__code__.co_varnames[: refused.__code__.co_argcount]
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = dict(zip(reversed(names), reversed(function.__defaults__ or ()), strict=False))

    def stand_in(*args: Any, **keywords: Any) -> Any:
        given = {**defaults, **dict(zip(names, args, strict=False)), **keywords}
        asks = [isinstance(each, torch.Tensor) and each.requires_grad for each in given.values()]
        if torch.is_grad_enabled() and any(asks):
            refused(*[given[option] for option in checked])
            return with_backward(**given)
        return function(*args, **keywords)

    return stand_in


def _without_none(function: FunctionType, inner: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse None for a number of ``function``, as its eager call does, before ``inner`` is traced."""
    said, kinds = function.__name__, numbers(function)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]

    def stand_in(*args: Any, **keywords: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **keywords}
        for option in kinds:
            if option in given and given[option] is None:
                raise no_number(said, kinds, given)
        return inner(*args, **keywords)

    setattr(stand_in, "__wrapped__", inner)  # noqa: B010  # a function has no such attribute to mypy
    return stand_in if kinds and ".generated." not in function.__module__ else inner


def _marked(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions of a module, and the methods of its classes, that have the mark of ``ops._traced``."""
    classes = [each for each in vars(module).values() if isinstance(each, type)]
    for holder in (module, *(each for each in classes if each.__module__ == module.__name__)):
        for value in vars(holder).values():
            if isinstance(value, FunctionType) and value.__module__ == module.__name__ and is_traced(value):
                yield value


def _traced_functions() -> dict[str, Callable[..., Any]]:
    copies = _Copies()
    found: dict[str, Callable[..., Any]] = {}
    for home in _HOMES:
        for function in _marked(import_module(f"{_PACKAGE}.{home}")):
            name, plain = function.__qualname__, unwrap(function)
            if str(plain.__annotations__.get("return")).startswith("Callable"):
                # What it returns leaves the graph: it must be no copy, and Dynamo follows its mark.
                found[name] = _over(plain, plain.__globals__, plain.__closure__)
                continue
            copy = copies.function(function)
            inner = _differentiable(name, copy) if name in DIFFERENTIABLE else copy
            found[name] = _without_none(plain, inner)
    return found


#: Name of each marked function, with its class if it is a method -> what Dynamo traces.
TRACED: Final = _traced_functions()
