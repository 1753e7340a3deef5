"""Which operators a public function launches, read from its code: for loading them before it is called."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, Final

from aiter_prebuilt import native
from aiter_prebuilt.forks import importing

_PACKAGE: Final = "aiter_prebuilt"
_FUNCTIONS: Final = f"{_PACKAGE}.ops"


def public(name: str) -> Any:
    """What a user gets under ``name``, imported as at its first use; None when nothing is called so."""
    package = sys.modules[_PACKAGE]
    return getattr(package, name) if name in package.__all__ else None


def import_all() -> None:
    """Every public function, so that no later first use reads a file."""
    for name in sys.modules[_PACKAGE].__all__:
        public(name)
    with importing:
        import_module(f"{_PACKAGE}.signatures")


def operators_of(value: Any) -> tuple[str, ...]:
    """The operators that the code of ``value`` names, with that of all functions and tables of this package that it names: all
    that a call may launch, whatever its arguments are. Sorted.
    """
    operator = native.module().Operator
    found: set[str] = set()
    seen: set[int] = set()
    pending = [value]
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, operator):
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
    if isinstance(value, FunctionType):
        ours = value.__module__.startswith(_FUNCTIONS)
        return (
            [value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__]
            if ours
            else ()
        )
    kind = value if isinstance(value, type) else type(value)
    return list(vars(kind).values()) if kind.__module__.startswith(_FUNCTIONS) else ()


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
