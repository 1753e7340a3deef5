"""Which operators a public function launches, read from its code: for loading them before it is called."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from enum import EnumMeta
from functools import partial
from importlib import import_module
from inspect import unwrap
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from aiter_prebuilt.devices import native
from aiter_prebuilt.forks import importing
from aiter_prebuilt.launch import dispatch
from aiter_prebuilt.launch.value_checks import Checked

_PACKAGE: Final = "aiter_prebuilt"
_FUNCTIONS: Final = f"{_PACKAGE}.ops"
#: What a class may hold around a function.
_AROUND: Final = (classmethod, staticmethod)


def public(name: str) -> Any:
    """What a user gets under ``name``, imported as at its first use; None when nothing is called so."""
    package = sys.modules[_PACKAGE]
    return getattr(package, name) if name in package.__all__ else None


def import_all() -> None:
    """Every public function, so that no later first use reads a file."""
    for name in sys.modules[_PACKAGE].__all__:
        public(name)
    with importing:
        import_module(f"{_PACKAGE}.tracing.signatures")


def is_called(value: Any) -> bool:
    """Is it one of the functions, classes or objects that launch, rather than a version or an enumeration?"""
    kind = value if isinstance(value, (FunctionType, type)) else type(value)
    return kind.__module__.startswith(_FUNCTIONS) and not isinstance(kind, EnumMeta)


def operators_of(value: Any) -> tuple[str, ...]:
    """The operators that the code of ``value`` names, with that of all functions and tables of this package that it names: all
    that a call may launch, whatever its arguments are. Sorted.
    """
    operators = native.module().Operator, Checked
    found: set[str] = set()
    seen: set[int] = set()
    pending = [value]
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, operators):
            found.add(one.name)
        else:
            pending += _named(one)
    return tuple(sorted(found))


def _named(value: Any) -> Iterable[Any]:
    """What stands behind one value: what a function names, what a table holds, the methods of an object."""
    if isinstance(value, partial):
        return (value.func, *value.args)
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (tuple, list)):
        return value
    if isinstance(value, property):
        return (value.fget,)
    if isinstance(value, _AROUND):
        return (value.__func__,)
    if isinstance(value, FunctionType):
        return _of_function(value) if value.__module__.startswith(_FUNCTIONS) else ()
    kind = value if isinstance(value, type) else type(value)
    bases = [each for each in kind.__mro__ if each.__module__.startswith(_FUNCTIONS)]
    return [method for each in bases for method in vars(each).values()]


def _of_function(function: FunctionType) -> Iterator[Any]:
    """What its code names: globals, what it imports or takes of a module of ours, methods of its arguments' classes, and
    operators that it looks up by name.
    """
    function = unwrap(function)
    code, known = function.__code__, function.__globals__
    names = list(_names(code))
    yield from (known[name] for name in names if name in known)
    modules = [known.get(name) for name in names] + [_module(name) for name in names]
    kinds = [known.get(said) for said in function.__annotations__.values() if isinstance(said, str)]
    for each in (*modules, *kinds):
        if isinstance(each, (ModuleType, type)) and _home(each).startswith(_FUNCTIONS):
            yield from (vars(each)[name] for name in names if name in vars(each))
    if any(known.get(name) is dispatch.operator for name in names):
        with importing:
            operators = import_module(f"{_PACKAGE}.tracing.signatures").load()
        yield from (dispatch.operator(text) for text in _texts(code) if text in operators)


def _home(value: ModuleType | type) -> str:
    return value.__module__ if isinstance(value, type) else value.__name__


def _module(name: str) -> ModuleType | None:
    """The module that an import inside a function names."""
    if not name.startswith(f"{_FUNCTIONS}."):
        return None
    with importing:
        return import_module(name)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code and what is defined inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _names(code: CodeType) -> Iterator[str]:
    for each in _codes(code):
        yield from each.co_names


def _texts(code: CodeType) -> Iterator[str]:
    for each in _codes(code):
        yield from (constant for constant in each.co_consts if isinstance(constant, str))
